"""Topics and partitions: replicas, leader, leader epoch and log of each partition."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from aiokproto.broker.config.options import TopicOptions
from aiokproto.broker.log import Log, LogAppendInfo, LogCheckpoint, LogConfig
from aiokproto.broker.log.header import Buffer
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, ConfigurationError
from aiokproto.texts import shortened

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
NO_LEADER = -1

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def check_topic_name(name: str) -> None:
    """Raise :class:`BrokerError` INVALID_TOPIC_EXCEPTION if the topic name is invalid."""
    # The name is used as a directory name, as in Kafka (Topic.validate()).
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise BrokerError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            detail=f"topic name {shortened(repr(name))} is not 1 to 249 of the characters a-z A-Z 0-9 . _ -"
            " (and not . or ..)",
        )


def unknown_topic_error(name: str) -> ErrorCode:
    """Return the error code for a topic that doesn't exist: INVALID_TOPIC_EXCEPTION if it can never exist."""
    try:
        check_topic_name(name)
    except BrokerError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@dataclass(eq=False)
class Partition:
    """A partition. All replicas share one log; replicas and ISR are bookkeeping.

    After a clean shutdown, logs are opened on first use: opening thousands of them would delay startup.

    Attributes:
        topic: The topic's name.
        index: The partition's index.
        replicas: The ids of the replicas, the preferred leader first.
        isr: The replicas that are in sync.
        leader: The leader's id, or -1 if the partition has none.
        leader_epoch: The leader epoch.
        open_log: Opens the log.
        unopened_checkpoint: The log's checkpoint entries until it is opened.
        changes: The number of appends and leader changes so far.
        watchers: Callbacks of waiting Fetch requests. Each is called once, at the next append or change of leader.
        opening: How many batches are being opened in order to be appended. Later appends wait for their turn.
    """

    topic: str
    index: int
    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int
    open_log: Callable[[], Log]
    unopened_checkpoint: LogCheckpoint
    # The watchers are a dict rather than a set, so callbacks run in the order in which they were added: simulations
    # must be deterministic.
    changes: int = 0
    watchers: dict[Callable[[], None], None] = field(default_factory=dict)
    opening: int = 0
    _log: Log | None = None

    @property
    def opened(self) -> Log | None:
        """The log, or None if it isn't open. Unlike :attr:`log`, this doesn't open the log."""
        return self._log

    def open(self) -> Log:
        """Return the log, and open it if necessary.

        Raises:
            ConfigurationError: The directory contains another topic's id.
            OSError: The directory can't be read.
        """
        if self._log is None:
            self._log = self.open_log()
            # The epoch started before the log was open, so add its start to the epoch cache now.
            if self.leader != NO_LEADER:
                self._log.assign_epoch(self.leader_epoch)
        return self._log

    @property
    def log(self) -> Log:
        """The log, which is opened if necessary. Raises :class:`BrokerError` KAFKA_STORAGE_ERROR if that fails."""
        if self._log is not None:
            return self._log
        try:
            return self.open()
        except (ConfigurationError, OSError) as error:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, detail=str(error)) from error

    @log.setter
    def log(self, log: Log) -> None:
        self._log = log

    @property
    def checkpoint(self) -> LogCheckpoint:
        """The log's entries for the checkpoint files."""
        return self.unopened_checkpoint if self._log is None else self._log.checkpoint

    def append(self, batch: Buffer, now: int) -> LogAppendInfo:
        """Append a batch with the current leader epoch, and wake waiting Fetch requests; see :meth:`Log.append`."""
        appended = self.log.append(batch, self.leader_epoch, now)
        self.wake()
        return appended

    def wake(self) -> None:
        """Call all watchers, once."""
        self.changes += 1
        watchers = list(self.watchers)
        # Clear the watchers first: a watcher may register again right away, and must not be called in an endless loop.
        self.watchers.clear()
        for watcher in watchers:
            watcher()

    def change_leader(self, node_id: int) -> None:
        """Change the leader (-1 for no leader). Every change starts a new leader epoch."""
        self.leader = node_id
        self.leader_epoch += 1
        if node_id != NO_LEADER and self._log is not None:
            self._log.assign_epoch(self.leader_epoch)
        self.wake()


@dataclass(eq=False)
class Topic:
    """A topic and its partitions."""

    name: str
    topic_id: bytes
    options: TopicOptions
    partitions: list[Partition] = field(default_factory=list)

    @property
    def internal(self) -> bool:
        """Whether this is an internal topic."""
        return self.name in INTERNAL

    @property
    def replication(self) -> int:
        """The replication factor."""
        return len(self.partitions[0].replicas) if self.partitions else 0

    def log_config(self) -> LogConfig:
        """Return the configuration of the topic's logs."""
        number = self.options.number
        # The policy can be "compact,delete", so look for substrings.
        policy = str(self.options.value("cleanup.policy"))
        deletes = "delete" in policy
        return LogConfig(
            segment_bytes=number("segment.bytes"),
            segment_ms=number("segment.ms"),
            segment_jitter_ms=number("segment.jitter.ms"),
            segment_index_bytes=number("segment.index.bytes"),
            index_interval_bytes=number("index.interval.bytes"),
            retention_ms=number("retention.ms") if deletes else -1,
            retention_bytes=number("retention.bytes") if deletes else -1,
            flush_messages=number("flush.messages"),
            flush_ms=number("flush.ms"),
            file_delete_delay_ms=number("file.delete.delay.ms"),
            compact="compact" in policy,
            min_cleanable_dirty_ratio=float(self.options.value("min.cleanable.dirty.ratio")),
            min_compaction_lag_ms=number("min.compaction.lag.ms"),
            max_compaction_lag_ms=number("max.compaction.lag.ms"),
            delete_retention_ms=number("delete.retention.ms"),
            append_time=self.options.value("message.timestamp.type") == "LogAppendTime",
        )

    def configure(self, options: TopicOptions) -> None:
        """Replace the options. They apply to open logs immediately."""
        self.options = options
        config = self.log_config()
        for partition in self.partitions:
            if partition.opened is not None:
                partition.opened.config = config


def partition_directory(root: Path, topic: str, index: int) -> Path:
    """Return the directory of a partition's log."""
    return root / f"{topic}-{index}"

"""Topics and partitions as the cluster knows them: who has a partition, who leads it, and its log."""

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

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
NO_LEADER = -1

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def check_topic_name(name: str) -> None:
    """Raise :class:`BrokerError` INVALID_TOPIC_EXCEPTION unless a topic can be called that."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise BrokerError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            detail=f"topic name {name!r} is not 1 to 249 of the characters a-z A-Z 0-9 . _ - (and not . or ..)",
        )


@dataclass(eq=False)
class Partition:
    """A partition. There is one log, whoever leads: replicas and ISR are bookkeeping.

    ``watchers`` are called once, when something happened that a parked fetch wants to see.
    """

    topic: str
    index: int
    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int
    open_log: Callable[[], Log]
    unopened_checkpoint: LogCheckpoint
    # A dictionary for its order: what a seed decides must not depend on addresses of objects.
    watchers: dict[Callable[[], None], None] = field(default_factory=dict)
    _log: Log | None = None

    @property
    def opened(self) -> Log | None:
        """The log, unless nobody needed it so far: to open thousands takes longer than a start may."""
        return self._log

    def open(self) -> Log:
        """The log, opened if it is not yet.

        Raises:
            ConfigurationError: Its directory is not this partition's.
            OSError: It cannot be read.
        """
        if self._log is None:
            self._log = self.open_log()
            if self.leader != NO_LEADER:
                self._log.begin_epoch(self.leader_epoch)
        return self._log

    @property
    def log(self) -> Log:
        """The log. Raises :class:`BrokerError` KAFKA_STORAGE_ERROR if it cannot be opened."""
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
        """What the checkpoints are to say of it."""
        return self.unopened_checkpoint if self._log is None else self._log.checkpoint

    def append(self, batch: Buffer, now: int) -> LogAppendInfo:
        """Append to the log as the leader of this epoch; see :meth:`Log.append`."""
        appended = self.log.append(batch, self.leader_epoch, now)
        self.wake()
        return appended

    def wake(self) -> None:
        """Call the watchers."""
        watchers = list(self.watchers)
        self.watchers.clear()
        for watcher in watchers:
            watcher()

    def change_leader(self, node_id: int) -> None:
        """Hand over to another leader, or to none; each begins an epoch."""
        self.leader = node_id
        self.leader_epoch += 1
        if node_id != NO_LEADER and self._log is not None:
            self._log.begin_epoch(self.leader_epoch)
        self.wake()


@dataclass(eq=False)
class Topic:
    """A topic."""

    name: str
    topic_id: bytes
    options: TopicOptions
    partitions: list[Partition] = field(default_factory=list)

    @property
    def internal(self) -> bool:
        """Whether it is one of Kafka's own."""
        return self.name in INTERNAL

    @property
    def replication(self) -> int:
        """Replicas of a partition."""
        return len(self.partitions[0].replicas) if self.partitions else 0

    def log_config(self) -> LogConfig:
        """What its logs have to know of its options."""
        number = self.options.number
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
        """Take over new options."""
        self.options = options
        config = self.log_config()
        for partition in self.partitions:
            if partition.opened is not None:
                partition.opened.config = config


def partition_directory(root: Path, topic: str, index: int) -> Path:
    """Where a partition's log is."""
    return root / f"{topic}-{index}"

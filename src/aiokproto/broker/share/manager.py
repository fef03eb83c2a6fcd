"""The share partitions of the cluster: read where they are led, kept before what is done to them counts, and timed."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from aiokproto.broker.clock import Timer
from aiokproto.broker.config.options import GroupOptions
from aiokproto.broker.metadata.cluster_state import ClusterState
from aiokproto.broker.metadata.topics import Partition, Topic
from aiokproto.broker.share.acquisition import AcquisitionConfig
from aiokproto.broker.share.in_flight import FOREVER, RecordState
from aiokproto.broker.share.partition import Acknowledgement, SharePartition, StateTransition
from aiokproto.broker.share.session import ShareSession, ShareSessionKey, ShareSessions, TopicIdPartition
from aiokproto.broker.share.state import SharePersister
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

log = logging.getLogger("aiokproto.broker")

_TOLD = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""What a client hears, that knows nothing of who keeps the state; of all else, that something is wrong."""

_OUT_OF_DATE = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""What is known of a share partition that meets with one of these is not true any more."""

_SECONDS = {"D": 86_400, "H": 3_600, "M": 60, "S": 1}


class ShareSettings(NamedTuple):
    """What a share group goes by, beside its terms.

    Attributes:
        terms: How it gives out records.
        committed: Whether it reads only committed ones (``share.isolation.level``).
        reset: Where it begins (``share.auto.offset.reset``).
    """

    config: AcquisitionConfig
    committed: bool
    reset: str


@dataclass(eq=False)
class CachedSharePartition:
    """A share partition.

    Attributes:
        share: What the group has done with it.
        partition: The partition.
        timer: Set for when the next lock ends.
    """

    share: SharePartition
    partition: Partition
    timer: Timer | None = None


class SharePartitionManager:
    """All share partitions of the cluster, whichever node leads them. No asyncio."""

    def __init__(self, state: ClusterState, persister: SharePersister, options: Callable[[str], GroupOptions]) -> None:
        """Have none yet; ``options`` gives those of a group."""
        self._state = state
        self._persister = persister
        self._options = options
        self._cache: dict[tuple[str, TopicIdPartition], CachedSharePartition] = {}

    def settings(self, group: str) -> ShareSettings:
        """What a group goes by."""
        options = self._options(group)
        config = AcquisitionConfig(
            max_in_flight_records=options.number("share.partition.max.record.locks"),
            max_delivery_count=options.number("share.delivery.count.limit"),
            lock_duration=options.number("share.record.lock.duration.ms") / 1000,
            renew_enabled=bool(options.value("share.renew.acknowledge.enable")),
        )
        committed = options.value("share.isolation.level") == "read_committed"
        return ShareSettings(config, committed, str(options.value("share.auto.offset.reset")))

    def open(self, group: str, topic: Topic, partition: Partition) -> SharePartition:
        """A share partition; read, if it is asked for the first time since it has this leader.

        Raises:
            BrokerError: What is kept of it cannot be had.
        """
        partition_id = (topic.topic_id, partition.index)
        cached = self._cache.get((group, partition_id))
        if cached is None:
            try:
                kept = self._persister.read(group, *partition_id, partition.leader_epoch)
            except BrokerError as error:
                raise _translated(error) from None
            start = kept.start_offset if kept.start_offset >= 0 else self._begin(group, partition)
            cached = self._cache[group, partition_id] = CachedSharePartition(SharePartition(kept, start), partition)
        cached.share.log_starts_at(partition.log.start_offset)
        return cached.share

    def _begin(self, group: str, partition: Partition) -> int:
        reset = self.settings(group).reset
        if reset == "earliest":
            return partition.log.start_offset
        if reset == "latest":
            return partition.log.end_offset
        parts: list[tuple[str, str]] = re.findall(r"([\d.]+)([DHMS])", reset)
        ago = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        found = partition.log.offset_at_time(self._state.clock.wall() - int(ago * 1000))
        if found is None:
            raise BrokerError(ErrorCode.OFFSET_NOT_AVAILABLE, detail=f"there is no record as young as {reset}")
        return found.offset

    # ---- what is done to them

    def acknowledge(
        self, session_key: ShareSessionKey, partition_id: TopicIdPartition, said: Sequence[Acknowledgement]
    ) -> None:
        """A member says what became of its records.

        Raises:
            BrokerError: UNKNOWN_TOPIC_OR_PARTITION, if nothing was fetched there; INVALID_RECORD_STATE or
                INVALID_REQUEST; or why it cannot be kept. Then nothing has changed.
        """
        cached = self._cache.get((session_key.group_id, partition_id))
        if cached is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        config, now = self.settings(session_key.group_id).config, self._state.clock.time()
        self._persist(
            session_key.group_id,
            partition_id,
            cached,
            cached.share.acknowledge(session_key.member_id, said, config, now),
        )

    def end_session(self, sessions: ShareSessions, session: ShareSession, node_id: int) -> None:
        """End a session on a node, which with a group's last one has nothing more to do with the group."""
        sessions.close(session)
        self._release(session, node_id)
        if not sessions.has_group(session.key.group_id):
            group = session.key.group_id
            self._forget(
                key for key, cached in self._cache.items() if key[0] == group and cached.partition.leader == node_id
            )

    def acquired(self, group: str, partition_id: TopicIdPartition) -> None:
        """Somebody has acquired records: their locks end some time."""
        cached = self._cache.get((group, partition_id))
        if cached is not None:
            self._set_timer(group, partition_id, cached)

    # ---- what happens to them

    def forget(self, group: str, topic_id: bytes, partition: int) -> None:
        """Somebody else has changed what is kept of it, or there is nothing to be kept any more: read it anew."""
        cached = self._cache.pop((group, (topic_id, partition)), None)
        if cached is not None:
            self._drop(cached)

    def leader_changed(self, partition: Partition) -> None:
        """A partition has another leader, who begins with what is kept of it."""
        self._forget(key for key, cached in self._cache.items() if cached.partition is partition)

    def topic_deleted(self, topic: Topic) -> None:
        """There is nothing more to be had of its partitions."""
        self._forget(key for key in self._cache if key[1][0] == topic.topic_id)

    def close(self) -> None:
        """Stop the timers and forget everything."""
        for cached in self._cache.values():
            if cached.timer is not None:
                cached.timer.cancel()
        self._cache.clear()

    # ---- inside

    def _forget(self, keys: Iterator[tuple[str, TopicIdPartition]]) -> None:
        for group, (topic_id, index) in list(keys):
            self.forget(group, topic_id, index)

    def _release(self, session: ShareSession, node_id: int) -> None:
        """What a member had by a session others may have. Of what another node leads by now, it has none by this."""
        session_key = session.key
        config = self.settings(session_key.group_id).config
        for partition_id in session.partitions:
            cached = self._cache.get((session_key.group_id, partition_id))
            if cached is not None and cached.partition.leader == node_id:
                try:
                    self._persist(
                        session_key.group_id, partition_id, cached, cached.share.release(session_key.member_id, config)
                    )
                except BrokerError as error:
                    log.debug("what %r had of %s stays locked: %s", session_key, cached.partition.topic, error)

    def _drop(self, cached: CachedSharePartition) -> None:
        if cached.timer is not None:
            cached.timer.cancel()
        cached.partition.wake()

    def _persist(
        self, group: str, partition_id: TopicIdPartition, cached: CachedSharePartition, transition: StateTransition
    ) -> None:
        """Have a step kept, so that it counts."""
        if any(run.state is not RecordState.ACQUIRED for run in transition.changed):
            try:
                self._persister.write(group, *partition_id, cached.share.state(transition))
            except BrokerError as error:
                told = _translated(error)
                if told.code in _OUT_OF_DATE:
                    self.forget(group, *partition_id)
                raise told from None
        self._apply(group, partition_id, cached, transition)

    def _apply(
        self, group: str, partition_id: TopicIdPartition, cached: CachedSharePartition, transition: StateTransition
    ) -> None:
        if transition.changed:
            cached.share.apply(transition)
            self._set_timer(group, partition_id, cached)
            # Somebody may wait for what is available now, or for room in flight.
            cached.partition.wake()

    def _set_timer(self, group: str, partition_id: TopicIdPartition, cached: CachedSharePartition) -> None:
        if cached.timer is not None:
            cached.timer.cancel()
            cached.timer = None
        deadline = cached.share.next_deadline
        if deadline < FOREVER:
            cached.timer = self._state.clock.call_at(deadline, self._lock_timeout, group, partition_id, cached)

    def _lock_timeout(self, group: str, partition_id: TopicIdPartition, cached: CachedSharePartition) -> None:
        # The loop may call a timer early by its clock's resolution.
        now = max(self._state.clock.time(), cached.share.next_deadline)
        transition = cached.share.expire(now, self.settings(group).config)
        try:
            self._persist(group, partition_id, cached, transition)
        except BrokerError as error:
            log.debug("what happened to %s is not kept: %s", cached.partition.topic, error)
            # The lock has ended all the same.
            if self._cache.get((group, partition_id)) is cached:
                self._apply(group, partition_id, cached, transition)


def _translated(error: BrokerError) -> BrokerError:
    return BrokerError(_TOLD.get(error.code, ErrorCode.UNKNOWN_SERVER_ERROR), detail=error.detail)

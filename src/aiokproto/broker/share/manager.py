"""The share partitions that nodes lead: a cache of their states, persistence of changes, and acquisition lock timers.

A share partition is loaded from the share coordinator when it's first fetched. It stays in the cache until its
partition gets a new leader, its state is reset or deleted, its topic is deleted, or the group's last session on the
node ends. Records that the group gives up go to its dead-letter topic: see ``dead_letters``.

A change is first persisted and then applied (:meth:`SharePartitionManager._persist`). If the share coordinator's error
shows that the cached state is out of date (another leader, a reset), the state is removed from the cache, and the next
fetch loads it again.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from aiokproto.broker.clock import Timer
from aiokproto.broker.metadata.cluster_state import ClusterState
from aiokproto.broker.metadata.topics import Partition, Topic
from aiokproto.broker.opening import OpeningThread
from aiokproto.broker.share.acquisition import AcquisitionConfig
from aiokproto.broker.share.coordinator import ShareCoordinator
from aiokproto.broker.share.dead_letters import DeadLetter, DeadLetterQueue
from aiokproto.broker.share.in_flight import FOREVER, InFlightRuns, RecordState, overlapping
from aiokproto.broker.share.partition import Acknowledgement, SharePartition, StateTransition
from aiokproto.broker.share.session import ShareSession, ShareSessionKey, ShareSessions, TopicIdPartition
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.runtime import create_task
from aiokproto.security.shown import shown

log = logging.getLogger("aiokproto.broker")

_CLIENT_ERRORS = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""The share coordinator's errors and what clients get instead. All other errors become UNKNOWN_SERVER_ERROR.

Clients don't talk to the share coordinator. They get errors that make them find the new leader or retry.
"""

_STALE_ERRORS = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""Errors (as clients get them) which mean that the cached share partition is out of date."""

_SECONDS = {"D": 86_400, "H": 3_600, "M": 60, "S": 1}


class ShareSettings(NamedTuple):
    """The read options of a share group.

    Attributes:
        config: The options for acquiring records.
        committed: Whether it reads only committed records (``share.isolation.level``).
        reset: Where it starts (``share.auto.offset.reset``): earliest, latest or by_duration.
    """

    config: AcquisitionConfig
    committed: bool
    reset: str


@dataclass(eq=False)
class CachedSharePartition:
    """A share partition in the cache.

    Attributes:
        share: Its state machine.
        partition: The partition that it reads.
        timer: The timer for the next expiry of an acquisition lock, if any.
    """

    share: SharePartition
    partition: Partition
    timer: Timer | None = None


class SharePartitionManager:
    """The share partitions of the cluster, whichever node leads them."""

    def __init__(
        self,
        state: ClusterState,
        states: ShareCoordinator,
        thread: OpeningThread,
    ) -> None:
        """Start with an empty cache.

        Args:
            state: The cluster.
            states: The share coordinator, which stores the states.
            thread: The thread in which batches are opened.
        """
        self._state = state
        self._states = states
        self._dead_letters = DeadLetterQueue(state)
        self._cache: dict[tuple[str, TopicIdPartition], CachedSharePartition] = {}
        self._thread = thread
        # The tasks that write dead letters with keys and values.
        self._copying: set[asyncio.Task[None]] = set()
        self._in_order = asyncio.Lock()

    def settings(self, group: str) -> ShareSettings:
        """Return the options of a group."""
        options = self._state.group_options(group)
        config = AcquisitionConfig(
            max_in_flight_records=options.number("share.partition.max.record.locks"),
            max_delivery_count=options.number("share.delivery.count.limit"),
            lock_duration=options.number("share.record.lock.duration.ms") / 1000,
            renew_enabled=bool(options.value("share.renew.acknowledge.enable")),
        )
        committed = options.value("share.isolation.level") == "read_committed"
        return ShareSettings(config, committed, str(options.value("share.auto.offset.reset")))

    def start_time(self, group: str, topic: Topic, partition: Partition) -> int | None:
        """Return the time (ms) at which to start reading if the share partition's state has no offset yet. None if the
        share partition is in the cache or ``share.auto.offset.reset`` isn't a duration."""
        # Check the cache first, since the share partition is usually there.
        if (group, (topic.topic_id, partition.index)) in self._cache:
            return None
        reset = self.settings(group).reset
        if reset in ("earliest", "latest"):
            return None
        parts: list[tuple[str, str]] = re.findall(r"([\d.]+)([DHMS])", reset)
        ago = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        return self._state.clock.wall() - int(ago * 1000)

    def get_or_load(
        self, group: str, topic: Topic, partition: Partition, by_duration: int | None = None
    ) -> SharePartition:
        """Return a share partition. If it isn't in the cache, load it from the share coordinator.

        Args:
            group: The group.
            topic: The topic.
            partition: The partition.
            by_duration: The first offset at or after :meth:`start_time`, or None if all records are older.

        Raises:
            BrokerError: The state can't be read (see ``_CLIENT_ERRORS``), or OFFSET_NOT_AVAILABLE if no record is as
                new as ``share.auto.offset.reset`` requires.
        """
        # The key contains the topic id: a new topic must not inherit the state of a deleted topic of the same name.
        partition_id = (topic.topic_id, partition.index)
        cached = self._cache.get((group, partition_id))
        if cached is None:
            try:
                # This read fences previous leaders: see ShareCoordinator.read().
                persisted = self._states.read(group, *partition_id, partition.leader_epoch)
            except BrokerError as error:
                raise _translated(error) from None
            start = persisted.start_offset
            if start < 0:
                start = self._initial_offset(group, partition, by_duration)
            cached = self._cache[group, partition_id] = CachedSharePartition(
                SharePartition(persisted, start), partition
            )
            self._resume(group, partition_id, cached)
        # Retention and DeleteRecords don't notify share partitions. Each fetch looks at the log start offset instead.
        cached.share.advance_log_start(partition.log.start_offset)
        return cached.share

    def is_current(self, group: str, partition_id: TopicIdPartition, share: SharePartition) -> bool:
        """Return whether a share partition that :meth:`get_or_load` returned is still the cached one."""
        cached = self._cache.get((group, partition_id))
        return cached is not None and cached.share is share

    def _initial_offset(self, group: str, partition: Partition, by_duration: int | None) -> int:
        # The offset isn't stored now, but with the first transition. Until then nothing has been acknowledged, and a
        # new leader just applies share.auto.offset.reset again.
        reset = self.settings(group).reset
        if reset == "earliest":
            return partition.log.start_offset
        if reset == "latest":
            return partition.log.end_offset
        if by_duration is None:
            raise BrokerError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                detail=f"no record is as new as share.auto.offset.reset={reset} requires",
            )
        return by_duration

    # ---- requests

    def acknowledge(
        self, session_key: ShareSessionKey, partition_id: TopicIdPartition, acknowledgement: Sequence[Acknowledgement]
    ) -> None:
        """Apply a member's acknowledgements to a partition.

        Raises:
            BrokerError: UNKNOWN_TOPIC_OR_PARTITION if the group has not fetched from it; INVALID_RECORD_STATE or
                INVALID_REQUEST; or an error from persisting the change. In each case the records are unchanged.
        """
        cached = self._cache.get((session_key.group_id, partition_id))
        # A member must fetch before it acknowledges: after a change of leader, its locks are gone and it can't
        # acknowledge.
        if cached is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        config, now = self.settings(session_key.group_id).config, self._state.clock.time()
        self._persist(
            session_key.group_id,
            partition_id,
            cached,
            cached.share.acknowledge(session_key.member_id, acknowledgement, config, now),
        )

    def end_session(self, sessions: ShareSessions, session: ShareSession, node_id: int) -> None:
        """Close a session and release its records. After the group's last session on the node, remove the group from
        the cache."""
        # Close the session first: a fetch that is waiting must not acquire anything for it any more.
        sessions.close(session)
        self._release(session, node_id)
        # As in Kafka's SharePartitionManager, a group that has no sessions left doesn't take up memory in the cache.
        if not sessions.has_group(session.key.group_id):
            group = session.key.group_id
            self._remove_all(
                key for key, cached in self._cache.items() if key[0] == group and cached.partition.leader == node_id
            )

    def start_lock_timer(self, group: str, partition_id: TopicIdPartition) -> None:
        """Set the timer for the acquisition locks. Called after records were acquired."""
        cached = self._cache.get((group, partition_id))
        if cached is not None:
            self._set_timer(group, partition_id, cached)

    # ---- events

    def remove(self, group: str, topic_id: bytes, partition: int) -> None:
        """Remove a share partition from the cache because its persisted state was reset or deleted."""
        cached = self._cache.pop((group, (topic_id, partition)), None)
        if cached is not None:
            self._discard(cached)

    def leader_changed(self, partition: Partition) -> None:
        """Remove the share partitions of a partition from the cache: the new leader loads their persisted state."""
        self._remove_all(key for key, cached in self._cache.items() if cached.partition is partition)

    def topic_deleted(self, topic: Topic) -> None:
        """Remove the share partitions of a deleted topic."""
        self._remove_all(key for key in self._cache if key[1][0] == topic.topic_id)

    async def stop(self) -> None:
        """Stop writing dead letters. The rest is written after the next start."""
        copying = list(self._copying)
        for task in copying:
            task.cancel()
        await asyncio.gather(*copying, return_exceptions=True)

    def close(self) -> None:
        """Stop the timers and empty the cache."""
        for cached in self._cache.values():
            if cached.timer is not None:
                cached.timer.cancel()
        self._cache.clear()

    # ---- internals

    def _remove_all(self, keys: Iterator[tuple[str, TopicIdPartition]]) -> None:
        for group, (topic_id, index) in list(keys):
            self.remove(group, topic_id, index)

    def _release(self, session: ShareSession, node_id: int) -> None:
        """Release what a member has acquired through a session, on this node.

        Partitions that another node leads by now are skipped, because acquired records are available again at a new
        leader.
        """
        session_key = session.key
        config = self.settings(session_key.group_id).config
        for partition_id in session.partitions:
            cached = self._cache.get((session_key.group_id, partition_id))
            # Releasing is an optimization: records that can't be released become available when their locks expire.
            if cached is not None and cached.partition.leader == node_id:
                try:
                    self._persist(
                        session_key.group_id, partition_id, cached, cached.share.release(session_key.member_id, config)
                    )
                except BrokerError as error:
                    log.debug(
                        "share session %r: its records of %s stay locked until the lock expires: %s",
                        session_key,
                        cached.partition.topic,
                        error,
                    )

    def _discard(self, cached: CachedSharePartition) -> None:
        if cached.timer is not None:
            cached.timer.cancel()
        # Fetches that are waiting for this partition must load the new state, or find the new leader.
        cached.partition.wake()

    def _persist(
        self, group: str, partition_id: TopicIdPartition, cached: CachedSharePartition, transition: StateTransition
    ) -> None:
        """Persist a transition, then apply it. Renewed locks don't have to be persisted."""
        # A run that stays acquired is a renewed lock.
        if any(run.state is not RecordState.ACQUIRED for run in transition.changed):
            archiving = bool(transition.given_up) and self._dead_letters.enabled(group)
            try:
                state = cached.share.persisted_state(transition, archiving=archiving)
                self._states.write(group, *partition_id, state)
            except BrokerError as error:
                translated = _translated(error)
                # The transition was computed from a state that is no longer the newest.
                if translated.code in _STALE_ERRORS:
                    self.remove(group, *partition_id)
                raise translated from None
            if archiving:
                self._write(group, partition_id, cached, transition.given_up, transition.runs)
        self._apply(group, partition_id, cached, transition)

    def _resume(self, group: str, partition_id: TopicIdPartition, cached: CachedSharePartition) -> None:
        """Write the dead letters that a crash may have prevented."""
        if not cached.share.unwritten:
            return
        transition = cached.share.resume(self.settings(group).config)
        if self._dead_letters.enabled(group):
            self._write(group, partition_id, cached, transition.given_up, transition.runs)
        else:
            self._archived(group, partition_id, cached, transition.given_up, transition.runs)
        cached.share.unwritten = []

    def _write(
        self,
        group: str,
        partition_id: TopicIdPartition,
        cached: CachedSharePartition,
        letters: Sequence[DeadLetter],
        runs: InFlightRuns,
    ) -> None:
        """Write dead letters, and persist that they were written. If records have to be read, this is done in a
        task."""
        if not self._dead_letters.copies(group):
            self._dead_letters.write(group, cached.partition, letters)
            self._archived(group, partition_id, cached, letters, runs)
            return
        cached.share.writing += [range(letter.first, letter.last + 1) for letter in letters]
        task = create_task(self._copy(group, partition_id, cached, letters))
        self._copying.add(task)
        task.add_done_callback(self._copying.discard)

    async def _copy(
        self, group: str, partition_id: TopicIdPartition, cached: CachedSharePartition, letters: Sequence[DeadLetter]
    ) -> None:
        # The lock keeps dead letters in the order in which records were given up.
        async with self._in_order:
            await self._dead_letters.write_copies(group, cached.partition, letters, self._thread)
        # Persist this even if the share partition is no longer in the cache: otherwise the dead letters would be
        # written again when the state is loaded. If the state is out of date, its epochs fence it.
        self._archived(group, partition_id, cached, letters, cached.share.runs)
        cached.partition.wake()

    def _archived(
        self,
        group: str,
        partition_id: TopicIdPartition,
        cached: CachedSharePartition,
        letters: Sequence[DeadLetter],
        runs: InFlightRuns,
    ) -> None:
        archived = [run for letter in letters for run in overlapping(runs, letter.first, letter.last)]
        try:
            self._states.write(group, *partition_id, cached.share.persisted_state(StateTransition(runs, archived)))
        except BrokerError as error:
            # The records stay in the state ARCHIVING, and the next load writes the dead letters again.
            log.debug(
                "share group %s: archived records of %s not persisted: %s", shown(group), cached.partition.topic, error
            )
        cached.share.written([range(letter.first, letter.last + 1) for letter in letters])

    def _apply(
        self, group: str, partition_id: TopicIdPartition, cached: CachedSharePartition, transition: StateTransition
    ) -> None:
        if transition.changed:
            cached.share.apply(transition)
            self._set_timer(group, partition_id, cached)
            # Wake fetches that are waiting for available records, or for fewer records in flight.
            cached.partition.wake()

    def _set_timer(self, group: str, partition_id: TopicIdPartition, cached: CachedSharePartition) -> None:
        if cached.timer is not None:
            cached.timer.cancel()
            cached.timer = None
        # One timer for the earliest lock is enough: a member acquires thousands of records with the same deadline.
        deadline = cached.share.next_deadline
        if deadline < FOREVER:
            cached.timer = self._state.clock.call_at(deadline, self._lock_timeout, group, partition_id, cached)

    def _lock_timeout(self, group: str, partition_id: TopicIdPartition, cached: CachedSharePartition) -> None:
        # An event loop may call a timer early, by up to its clock's resolution.
        now = max(self._state.clock.time(), cached.share.next_deadline)
        transition = cached.share.expire(now, self.settings(group).config)
        try:
            self._persist(group, partition_id, cached, transition)
        except BrokerError as error:
            log.debug(
                "share group %s: expired locks of %s not persisted: %s", shown(group), cached.partition.topic, error
            )
            # The lock ends even if that can't be persisted, because no member has a confirmation that a crash could
            # contradict. If the state is out of date, _persist() has removed the share partition, and there's nothing
            # to release.
            if self._cache.get((group, partition_id)) is cached:
                self._apply(group, partition_id, cached, transition)


def _translated(error: BrokerError) -> BrokerError:
    return BrokerError(_CLIENT_ERRORS.get(error.code, ErrorCode.UNKNOWN_SERVER_ERROR), detail=error.detail)

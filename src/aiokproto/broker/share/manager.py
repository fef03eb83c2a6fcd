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
from aiokproto.broker.share.acquiring import Terms
from aiokproto.broker.share.flight import FOREVER, RecordState
from aiokproto.broker.share.partition import Acknowledgement, SharePartition, Step
from aiokproto.broker.share.session import Place, ShareSession, ShareSessions, Who
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


class Settings(NamedTuple):
    """What a share group goes by, beside its terms.

    Attributes:
        terms: How it gives out records.
        committed: Whether it reads only committed ones (``share.isolation.level``).
        reset: Where it begins (``share.auto.offset.reset``).
    """

    terms: Terms
    committed: bool
    reset: str


@dataclass(eq=False)
class Held:
    """A share partition.

    Attributes:
        share: What the group has done with it.
        partition: The partition.
        timer: Set for when the next lock ends.
    """

    share: SharePartition
    partition: Partition
    timer: Timer | None = None


class SharePartitions:
    """All share partitions of the cluster, whichever node leads them. No asyncio."""

    def __init__(self, state: ClusterState, persister: SharePersister, options: Callable[[str], GroupOptions]) -> None:
        """Have none yet; ``options`` gives those of a group."""
        self._state = state
        self._persister = persister
        self._options = options
        self._held: dict[tuple[str, Place], Held] = {}

    def settings(self, group: str) -> Settings:
        """What a group goes by."""
        options = self._options(group)
        terms = Terms(
            max_locks=options.number("share.partition.max.record.locks"),
            delivery_limit=options.number("share.delivery.count.limit"),
            lock_seconds=options.number("share.record.lock.duration.ms") / 1000,
            may_renew=bool(options.value("share.renew.acknowledge.enable")),
        )
        committed = options.value("share.isolation.level") == "read_committed"
        return Settings(terms, committed, str(options.value("share.auto.offset.reset")))

    def open(self, group: str, topic: Topic, partition: Partition) -> SharePartition:
        """A share partition; read, if it is asked for the first time since it has this leader.

        Raises:
            BrokerError: What is kept of it cannot be had.
        """
        place = (topic.topic_id, partition.index)
        held = self._held.get((group, place))
        if held is None:
            try:
                kept = self._persister.read(group, *place, partition.leader_epoch)
            except BrokerError as error:
                raise _translated(error) from None
            start = kept.start_offset if kept.start_offset >= 0 else self._begin(group, partition)
            held = self._held[group, place] = Held(SharePartition(kept, start), partition)
        held.share.log_starts_at(partition.log.start_offset)
        return held.share

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

    def acknowledge(self, who: Who, place: Place, said: Sequence[Acknowledgement]) -> None:
        """A member says what became of its records.

        Raises:
            BrokerError: UNKNOWN_TOPIC_OR_PARTITION, if nothing was fetched there; INVALID_RECORD_STATE or
                INVALID_REQUEST; or why it cannot be kept. Then nothing has changed.
        """
        held = self._held.get((who.group, place))
        if held is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        terms, now = self.settings(who.group).terms, self._state.clock.time()
        self._keep(who.group, place, held, held.share.acknowledge(who.member, said, terms, now))

    def end_session(self, sessions: ShareSessions, session: ShareSession, node_id: int) -> None:
        """End a session on a node, which with a group's last one has nothing more to do with the group."""
        sessions.end(session)
        self._release(session, node_id)
        if not sessions.knows(session.who.group):
            group = session.who.group
            self._forget(
                key for key, held in self._held.items() if key[0] == group and held.partition.leader == node_id
            )

    def acquired(self, group: str, place: Place) -> None:
        """Somebody has acquired records: their locks end some time."""
        held = self._held.get((group, place))
        if held is not None:
            self._set_timer(group, place, held)

    # ---- what happens to them

    def forget(self, group: str, topic_id: bytes, partition: int) -> None:
        """Somebody else has changed what is kept of it, or there is nothing to be kept any more: read it anew."""
        held = self._held.pop((group, (topic_id, partition)), None)
        if held is not None:
            self._drop(held)

    def leader_changed(self, partition: Partition) -> None:
        """A partition has another leader, who begins with what is kept of it."""
        self._forget(key for key, held in self._held.items() if held.partition is partition)

    def topic_deleted(self, topic: Topic) -> None:
        """There is nothing more to be had of its partitions."""
        self._forget(key for key in self._held if key[1][0] == topic.topic_id)

    def close(self) -> None:
        """Stop the timers and forget everything."""
        for held in self._held.values():
            if held.timer is not None:
                held.timer.cancel()
        self._held.clear()

    # ---- inside

    def _forget(self, keys: Iterator[tuple[str, Place]]) -> None:
        for group, (topic_id, index) in list(keys):
            self.forget(group, topic_id, index)

    def _release(self, session: ShareSession, node_id: int) -> None:
        """What a member had by a session others may have. Of what another node leads by now, it has none by this."""
        who = session.who
        terms = self.settings(who.group).terms
        for place in session.places:
            held = self._held.get((who.group, place))
            if held is not None and held.partition.leader == node_id:
                try:
                    self._keep(who.group, place, held, held.share.release(who.member, terms))
                except BrokerError as error:
                    log.debug("what %r had of %s stays locked: %s", who, held.partition.topic, error)

    def _drop(self, held: Held) -> None:
        if held.timer is not None:
            held.timer.cancel()
        held.partition.wake()

    def _keep(self, group: str, place: Place, held: Held, step: Step) -> None:
        """Have a step kept, so that it counts."""
        if any(run.state is not RecordState.ACQUIRED for run in step.changed):
            try:
                self._persister.write(group, *place, held.share.state(step))
            except BrokerError as error:
                told = _translated(error)
                if told.code in _OUT_OF_DATE:
                    self.forget(group, *place)
                raise told from None
        self._take(group, place, held, step)

    def _take(self, group: str, place: Place, held: Held, step: Step) -> None:
        if step.changed:
            held.share.taken(step)
            self._set_timer(group, place, held)
            # Somebody may wait for what is available now, or for room in flight.
            held.partition.wake()

    def _set_timer(self, group: str, place: Place, held: Held) -> None:
        if held.timer is not None:
            held.timer.cancel()
            held.timer = None
        deadline = held.share.next_deadline
        if deadline < FOREVER:
            held.timer = self._state.clock.call_at(deadline, self._time_out, group, place, held)

    def _time_out(self, group: str, place: Place, held: Held) -> None:
        # The loop may call a timer early by its clock's resolution.
        now = max(self._state.clock.time(), held.share.next_deadline)
        step = held.share.expire(now, self.settings(group).terms)
        try:
            self._keep(group, place, held, step)
        except BrokerError as error:
            log.debug("what happened to %s is not kept: %s", held.partition.topic, error)
            # The lock has ended all the same.
            if self._held.get((group, place)) is held:
                self._take(group, place, held, step)


def _translated(error: BrokerError) -> BrokerError:
    return BrokerError(_TOLD.get(error.code, ErrorCode.UNKNOWN_SERVER_ERROR), detail=error.detail)

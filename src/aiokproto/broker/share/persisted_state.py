"""The state of a share partition, as its records define it: the newest snapshot plus the updates since then.

Every request that changes a state becomes a record, and :func:`replay` builds the state in memory from the records. So
a new coordinator that reads the log arrives at the same state. After a number of updates
(``share.coordinator.snapshot.update.records.per.snapshot``), the next record is a snapshot, which makes all earlier
records of the share partition redundant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from aiokproto.broker.share.records import ShareGroupOffset, Snapshot, StateBatch, Update
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError


@dataclass(frozen=True, slots=True)
class PersistedState:
    """The state of a share partition at the share coordinator.

    Attributes:
        state: The current state.
        snapshot: The newest snapshot.
        offset: The offset of the newest snapshot's record. Earlier records are redundant.
        updates: The number of updates since that snapshot.
        leader_epoch: The highest leader epoch that has read or written the state. A reset sets the leader epoch in
            ``state`` to 0, but this one keeps fenced leaders fenced.
    """

    state: ShareGroupOffset
    snapshot: Snapshot
    offset: int
    updates: int
    leader_epoch: int

    @property
    def is_unchanged(self) -> bool:
        """Whether the newest snapshot only replaced one with the same state, and no update followed."""
        return self.snapshot.created != self.snapshot.written and not self.updates

    def check_leader_epoch(self, leader_epoch: int) -> None:
        """Check that a leader has not been replaced by one with a newer epoch.

        Raises:
            BrokerError: FENCED_LEADER_EPOCH.
        """
        if leader_epoch < self.leader_epoch:
            raise BrokerError(
                ErrorCode.FENCED_LEADER_EPOCH,
                detail=f"the leader epoch is {leader_epoch}, the newest is {self.leader_epoch}",
            )

    def check_state_epoch(self, state_epoch: int) -> None:
        """Check that a caller knows about the latest reset of the state.

        Raises:
            BrokerError: FENCED_STATE_EPOCH.
        """
        if state_epoch < self.state.state_epoch:
            raise BrokerError(
                ErrorCode.FENCED_STATE_EPOCH,
                detail=f"the state epoch is {state_epoch}, the newest is {self.state.state_epoch}",
            )

    def record_for_write(self, wanted: ShareGroupOffset, updates_per_snapshot: int, now: int) -> Snapshot | Update:
        """Return the record for a write: an update, or a snapshot after enough updates. ``now`` is in ms.

        The start offset never moves back. While it stays the same, the delivery complete count never shrinks.
        """
        known = self.state
        # A late write by the same leader must not bring back records that are done.
        start, count = max(wanted.start_offset, known.start_offset), wanted.delivery_complete_count
        if wanted.start_offset == known.start_offset:
            count = max(count, known.delivery_complete_count)
        elif wanted.start_offset < known.start_offset:
            count = known.delivery_complete_count
        # This limits how much a new coordinator has to read (share.coordinator.snapshot.update.records.per.snapshot).
        if self.updates < updates_per_snapshot:
            # An update carries only what was written, and replaying merges it. A snapshot has to carry the whole state.
            return Update(self.snapshot.epoch, known.leader_epoch, start, count, combine(wanted.batches, start))
        batches = combine((*known.batches, *wanted.batches), start)
        return self._snapshot(replace(known, start_offset=start, batches=batches, delivery_complete_count=count), now)

    def record_for_new_leader(self, leader_epoch: int, updates_per_snapshot: int, now: int) -> Snapshot | Update:
        """Return the record that stores a newer leader epoch. ``now`` is in ms."""
        known = replace(self.state, leader_epoch=leader_epoch)
        if self.updates < updates_per_snapshot:
            return Update(
                self.snapshot.epoch, leader_epoch, known.start_offset, known.delivery_complete_count, batches=()
            )
        return self._snapshot(known, now)

    def record_for_reset(self, state_epoch: int, start_offset: int, now: int) -> Snapshot:
        """Return the record that resets the state. ``now`` is in ms."""
        # Snapshot epochs continue: updates from before the reset must not be mistaken for updates of this state.
        return first_snapshot(state_epoch, start_offset, now)._replace(epoch=self.snapshot.epoch + 1)

    def record_for_same_state(self, now: int) -> Snapshot:
        """Return a snapshot of the unchanged state, which makes earlier records redundant. ``now`` is in ms."""
        return self._snapshot(self.state, now)._replace(created=self.snapshot.created)

    def _snapshot(self, state: ShareGroupOffset, now: int) -> Snapshot:
        return Snapshot(
            self.snapshot.epoch + 1,
            state.state_epoch,
            state.leader_epoch,
            state.start_offset,
            state.delivery_complete_count,
            now,
            now,
            state.batches,
        )


def first_snapshot(state_epoch: int, start_offset: int, now: int) -> Snapshot:
    """Return the first record of a share partition. ``now`` is in ms."""
    # The count is unknown until the start offset is decided (KIP-1226).
    done = 0 if start_offset >= 0 else -1
    return Snapshot(0, state_epoch, 0, start_offset, done, now, now, ())


def replay(before: PersistedState | None, record: Snapshot | Update, offset: int) -> PersistedState | None:
    """Return the state after applying a record. Return None for an update without a snapshot, which is ignored."""
    if isinstance(record, Snapshot):
        state = ShareGroupOffset(
            record.start_offset,
            record.state_epoch,
            record.leader_epoch,
            record.batches,
            record.delivery_complete_count,
        )
        # A reset writes leader epoch 0, but replaced leaders must stay fenced.
        newest = max(record.leader_epoch, before.leader_epoch) if before is not None else record.leader_epoch
        return PersistedState(state, record, offset, 0, newest)
    # The update's snapshot was pruned or deleted, and the update alone isn't the whole state.
    if before is None:
        return None
    start = before.state.start_offset if record.start_offset == -1 else record.start_offset
    state = replace(
        before.state,
        start_offset=start,
        leader_epoch=record.leader_epoch,
        batches=combine((*before.state.batches, *record.batches), start),
        delivery_complete_count=record.delivery_complete_count,
    )
    return replace(
        before, state=state, updates=before.updates + 1, leader_epoch=max(before.leader_epoch, record.leader_epoch)
    )


def combine(batches: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Merge state batches into an ordered list without overlaps, like Kafka's ``PersisterStateBatchCombiner``. Offsets
    before the start offset are dropped (-1: none are).

    If batches overlap, the higher delivery count wins, then the higher delivery state: both only ever grow, so the
    higher value is the later one. Adjacent batches with the same state and count are joined.

    The function sweeps over the offsets: ``waiting`` are the batches that start later, and ``reaching`` is a heap of
    the batches that cover the current offset, with the winner at its top.
    """
    waiting = [
        replace(batch, first_offset=max(batch.first_offset, start_offset))
        for batch in batches
        if batch.last_offset >= start_offset
    ]
    waiting.sort(key=lambda batch: batch.first_offset, reverse=True)
    combined: list[StateBatch] = []
    reaching: list[tuple[int, int, int]] = []
    offset = 0
    while waiting or reaching:
        if not reaching:
            offset = waiting[-1].first_offset
        while waiting and waiting[-1].first_offset == offset:
            batch = waiting.pop()
            # The numbers are negated because heapq has the smallest item on top.
            heappush(reaching, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
        count, state, last = reaching[0]
        # The winner's turn ends where another batch starts: that batch may win.
        end = min(last, waiting[-1].first_offset - 1) if waiting else last
        _extend(combined, StateBatch(offset, end, -state, -count))
        offset = end + 1
        # Batches that end inside a winner stay in the heap until they reach the top.
        while reaching and reaching[0][2] < offset:
            heappop(reaching)
    return tuple(combined)


def _extend(batches: list[StateBatch], batch: StateBatch) -> None:
    before = batches[-1] if batches else None
    if (
        before is not None
        and before.last_offset + 1 == batch.first_offset
        and (before.delivery_state, before.delivery_count) == (batch.delivery_state, batch.delivery_count)
    ):
        batches[-1] = replace(before, last_offset=batch.last_offset)
    else:
        batches.append(batch)

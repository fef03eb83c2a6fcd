"""What is kept of a share partition: its newest snapshot and the updates since, as its records make it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from aiokproto.broker.share.batches import combine
from aiokproto.broker.share.records import Snapshot, Update
from aiokproto.broker.share.state import PartitionState
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError


@dataclass(frozen=True, slots=True)
class PersistedState:
    """What is kept of a share partition.

    Attributes:
        state: Where it stands.
        snapshot: The newest snapshot.
        offset: The offset of that snapshot's record: no earlier one is needed any more.
        updates: How many updates there were since.
        leader_epoch: The newest leader that has read it: older ones are refused, whatever the state's own says.
    """

    state: PartitionState
    snapshot: Snapshot
    offset: int
    updates: int
    leader_epoch: int

    @property
    def settled(self) -> bool:
        """Whether nothing has happened to it between its last two snapshots and since."""
        return self.snapshot.created != self.snapshot.written and not self.updates

    def check_leader(self, leader_epoch: int) -> None:
        """Refuse an old leader.

        Raises:
            BrokerError: FENCED_LEADER_EPOCH.
        """
        if leader_epoch < self.leader_epoch:
            raise BrokerError(
                ErrorCode.FENCED_LEADER_EPOCH, detail=f"leader epoch {leader_epoch}, the newest is {self.leader_epoch}"
            )

    def check_state(self, state_epoch: int) -> None:
        """Refuse who does not know that the state was set anew.

        Raises:
            BrokerError: FENCED_STATE_EPOCH.
        """
        if state_epoch < self.state.state_epoch:
            raise BrokerError(
                ErrorCode.FENCED_STATE_EPOCH, detail=f"state epoch {state_epoch}, it is {self.state.state_epoch} by now"
            )

    def written(self, wanted: PartitionState, updates_per_snapshot: int, now: int) -> Snapshot | Update:
        """The record that a write makes: a snapshot after so many updates. ``now`` in ms.

        The start offset never goes back, and for the same start offset the count of what is done does not either.
        """
        known = self.state
        start, count = max(wanted.start_offset, known.start_offset), wanted.delivery_complete_count
        if wanted.start_offset == known.start_offset:
            count = max(count, known.delivery_complete_count)
        elif wanted.start_offset < known.start_offset:
            count = known.delivery_complete_count
        if self.updates < updates_per_snapshot:
            return Update(self.snapshot.epoch, known.leader_epoch, start, count, combine(wanted.batches, start))
        batches = combine((*known.batches, *wanted.batches), start)
        return self._snapshot(replace(known, start_offset=start, batches=batches, delivery_complete_count=count), now)

    def led_by(self, leader_epoch: int, updates_per_snapshot: int, now: int) -> Snapshot | Update:
        """The record that tells of a new leader. ``now`` in ms."""
        known = replace(self.state, leader_epoch=leader_epoch)
        if self.updates < updates_per_snapshot:
            return Update(
                self.snapshot.epoch, leader_epoch, known.start_offset, known.delivery_complete_count, batches=()
            )
        return self._snapshot(known, now)

    def initialized(self, state_epoch: int, start_offset: int, now: int) -> Snapshot:
        """The record that sets the state anew. ``now`` in ms."""
        return initialized(state_epoch, start_offset, now)._replace(epoch=self.snapshot.epoch + 1)

    def again(self, now: int) -> Snapshot:
        """The record that says the same once more, so that earlier ones can go. ``now`` in ms."""
        return self._snapshot(self.state, now)._replace(created=self.snapshot.created)

    def _snapshot(self, state: PartitionState, now: int) -> Snapshot:
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


def initialized(state_epoch: int, start_offset: int, now: int) -> Snapshot:
    """The first record of a share partition. ``now`` in ms."""
    done = 0 if start_offset >= 0 else -1
    return Snapshot(0, state_epoch, 0, start_offset, done, now, now, ())


def replay(before: PersistedState | None, record: Snapshot | Update, offset: int) -> PersistedState | None:
    """What is kept after a record at an offset; None after an update without a snapshot, of which nothing is known."""
    if isinstance(record, Snapshot):
        state = PartitionState(
            record.start_offset,
            record.state_epoch,
            record.leader_epoch,
            record.batches,
            record.delivery_complete_count,
        )
        newest = max(record.leader_epoch, before.leader_epoch) if before is not None else record.leader_epoch
        return PersistedState(state, record, offset, 0, newest)
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

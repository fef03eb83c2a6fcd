"""A share partition: the states of the records of a partition that are in flight to a share group (KIP-932).

Theory of operation. All records before ``start_offset`` are in a terminal state, and ``end_offset`` is the first offset
that hasn't been fetched. The records in between are in flight, as runs of offsets in the same state::

                acquire                    accept
    AVAILABLE ───────────▶ ACQUIRED ───────────────────▶ ACKNOWLEDGED
        ▲                     │  │  reject, gap, aborted, delivered too often
        └─────────────────────┘  └─────────────────────▶ ARCHIVED
          release, lock expired

A fetch acquires available records for a member until the acquisition lock expires or the member acknowledges them. The
start offset moves along with the first record that isn't in a terminal state. The KIP calls the two offsets SPSO and
SPEO.

Acknowledge, release and expire only compute a :class:`StateTransition`. The caller persists its
:meth:`~SharePartition.persisted_state`, then calls :meth:`~SharePartition.apply`: an acknowledgement must not be
confirmed to a member as long as a crash could lose it. Acquiring applies at once and isn't persisted: after a crash, or
at a new leader, acquired records are available again, with their previous delivery count.

The module doesn't use asyncio. The caller passes the current time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from aiokproto.broker.share.acquisition import (
    AcquiredRange,
    AcquireRequest,
    AcquisitionConfig,
    FetchedBatch,
    acquire_known,
    acquire_new,
    split_by_batches,
)
from aiokproto.broker.share.dead_letters import REJECTED, TOO_OFTEN, DeadLetter
from aiokproto.broker.share.in_flight import (
    FOREVER,
    InFlightRun,
    InFlightRuns,
    RecordState,
    count_terminal,
    overlapping,
    replace_runs,
)
from aiokproto.broker.share.records import ShareGroupOffset, StateBatch
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

ARCHIVING = 3
"""The persisted state of records that are being written to a dead-letter topic. After that, they are archived."""

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""The acknowledge types of the protocol. GAP is for an offset without a record, and archives it like REJECT."""

_STATES = {state.value: state for state in RecordState} | {ARCHIVING: RecordState.ARCHIVED}
"""States by their numbers in persisted batches."""

_ACKNOWLEDGED_STATES = {GAP: RecordState.ARCHIVED, ACCEPT: RecordState.ACKNOWLEDGED, REJECT: RecordState.ARCHIVED}


class Acknowledgement(NamedTuple):
    """A member's acknowledgement of consecutive offsets: ``types`` contains one type for all of them, or one for
    each."""

    first: int
    last: int
    types: Sequence[int]


class StateTransition(NamedTuple):
    """A change that has been computed, but not applied.

    Attributes:
        runs: All runs in flight after the change.
        changed: The runs that change.
        given_up: The changed runs whose records are archived because they were rejected or delivered too often.
    """

    runs: InFlightRuns
    changed: InFlightRuns
    given_up: Sequence[DeadLetter] = ()


class SharePartition:
    """The records of a partition that are in flight to a share group.

    Attributes:
        start_offset: The first offset that is not in a terminal state.
        end_offset: The first offset that has not been fetched yet.
        state_epoch: The state epoch when the state was read; it grows when the offsets are reset.
        leader_epoch: The leader epoch when the state was read.
        unwritten: Archived records that a crash may have kept from being written to the dead-letter topic.
        writing: The offsets of records that are being written to that topic. The start offset doesn't move past them:
            it is persisted with every change, and after a crash the unwritten records would be forgotten.
    """

    def __init__(self, state: ShareGroupOffset, start_offset: int) -> None:
        """Restore persisted state. ``start_offset`` is used instead of the state's, which may be -1 (undecided)."""
        self.start_offset = self.end_offset = start_offset
        self.state_epoch = state.state_epoch
        self.leader_epoch = state.leader_epoch
        self._runs: InFlightRuns = list(self._restored(state.batches))
        self.unwritten = [
            InFlightRun(batch.first_offset, batch.last_offset, RecordState.ARCHIVED, batch.delivery_count, 0)
            for batch in state.batches
            if batch.delivery_state == ARCHIVING
        ]
        self.writing = [range(run.first, run.last + 1) for run in self.unwritten]
        # Records past the last persisted batch may have been acquired before. Nothing was stored about them, so they
        # count as new.
        if self._runs:
            self.end_offset = self._runs[-1].last + 1
        self._advance_start_offset()

    def _restored(self, batches: Iterable[StateBatch]) -> Iterator[InFlightRun]:
        offset = self.start_offset
        for batch in batches:
            if batch.last_offset < offset:
                continue
            if offset < batch.first_offset:
                # Nothing was persisted about these records: they were acquired, or are between acknowledged batches.
                yield InFlightRun(offset, batch.first_offset - 1, RecordState.AVAILABLE, 0, offset)
                offset = batch.first_offset
            yield InFlightRun(offset, batch.last_offset, _STATES[batch.delivery_state], batch.delivery_count, offset)
            offset = batch.last_offset + 1

    @property
    def next_offset(self) -> int:
        """The offset at which to start reading records that can be acquired."""
        return next((run.first for run in self._runs if run.state is RecordState.AVAILABLE), self.end_offset)

    @property
    def next_deadline(self) -> float:
        """When the next acquisition lock expires."""
        return min((run.deadline for run in self._runs), default=FOREVER)

    @property
    def runs(self) -> InFlightRuns:
        """The runs in flight."""
        return self._runs

    def is_full(self, config: AcquisitionConfig) -> bool:
        """Return whether nothing can be acquired: the maximum number of records is in flight, and none is available."""
        return self.next_offset == self.end_offset and self._in_flight_count >= config.max_in_flight_records

    @property
    def _in_flight_count(self) -> int:
        return self.end_offset - self.start_offset

    # ---- transitions, which have to be persisted before they are applied

    def acknowledge(
        self, member_id: str, acknowledgements: Iterable[Acknowledgement], config: AcquisitionConfig, now: float
    ) -> StateTransition:
        """Compute the transition for a member's acknowledgements. If one is invalid, none is applied.

        Acknowledgements before the start offset are ignored, because retention or DeleteRecords has removed these
        records.

        Raises:
            BrokerError: INVALID_RECORD_STATE if the member has not acquired one of the records; INVALID_REQUEST if no
                member has fetched it.
        """
        changed: list[InFlightRun] = []
        given_up: list[DeadLetter] = []
        for acknowledgement in acknowledgements:
            # This isn't an error: the member couldn't know that the records were removed, and there's nothing left to
            # acknowledge.
            if acknowledgement.last < self.start_offset:
                continue
            # If there are no runs, the member can't have acquired anything. That is INVALID_RECORD_STATE, not
            # INVALID_REQUEST.
            if self._runs and acknowledgement.last >= self.end_offset:
                raise BrokerError(
                    ErrorCode.INVALID_REQUEST, detail=f"offset {acknowledgement.last} has not been fetched"
                )
            # As in Kafka, the second acknowledgement fails because the record is no longer acquired after the first
            # one.
            if changed and acknowledgement.first <= changed[-1].last:
                raise BrokerError(
                    ErrorCode.INVALID_RECORD_STATE, detail=f"offset {acknowledgement.first} is acknowledged twice"
                )
            runs = list(overlapping(self._runs, max(acknowledgement.first, self.start_offset), acknowledgement.last))
            if not runs:
                raise BrokerError(
                    ErrorCode.INVALID_RECORD_STATE, detail=f"offset {acknowledgement.first} is not in flight"
                )
            for run in runs:
                # The member's lock may have expired, and another member may be processing the record now.
                if run.state is not RecordState.ACQUIRED or run.member_id != member_id:
                    raise BrokerError(
                        ErrorCode.INVALID_RECORD_STATE, detail=f"offset {run.first} is not acquired by {member_id!r}"
                    )
                for part, ack_type in _split_by_type(run, acknowledgement):
                    new = self._acknowledged(part, ack_type, config, now)
                    changed.append(new)
                    if new.state is RecordState.ARCHIVED and ack_type != GAP:
                        given_up.append(_dead_letter(new, REJECTED if ack_type == REJECT else TOO_OFTEN))
        # The transition is computed only here: an error in any batch must leave all records as they are.
        return self._transition(changed, given_up)

    def release(self, member_id: str, config: AcquisitionConfig) -> StateTransition:
        """Compute the transition that releases all records that a member has acquired."""
        return self._all_released([run for run in self._runs if run.member_id == member_id], config)

    def expire(self, now: float, config: AcquisitionConfig) -> StateTransition:
        """Compute the transition that releases records whose acquisition lock has expired."""
        return self._all_released([run for run in self._runs if run.deadline <= now], config)

    def resume(self, config: AcquisitionConfig) -> StateTransition:
        """Compute the transition that archives the :attr:`unwritten` records once they have been written."""
        # The reason isn't persisted, so it's inferred, as in Kafka.
        letters = [
            _dead_letter(run, TOO_OFTEN if run.delivery_count >= config.max_delivery_count else REJECTED)
            for run in self.unwritten
        ]
        return StateTransition(self._runs, self.unwritten, letters)

    def persisted_state(self, transition: StateTransition, *, archiving: bool = False) -> ShareGroupOffset:
        """Return the state to persist for a transition: the changed runs that no member has acquired.

        If ``archiving`` is set, the records that are given up aren't archived yet: they will be written to a
        dead-letter topic first.
        """
        unlocked = (run for run in transition.changed if run.state is not RecordState.ACQUIRED)
        unwritten = {letter.first for letter in transition.given_up} if archiving else set()
        batches = tuple(
            StateBatch(run.first, run.last, ARCHIVING if run.first in unwritten else run.state, run.delivery_count)
            for run in unlocked
        )
        return ShareGroupOffset(
            self.start_offset, self.state_epoch, self.leader_epoch, batches, count_terminal(transition.runs)
        )

    def written(self, offsets: Sequence[range]) -> None:
        """Remove offsets from ``writing`` once their records have been written."""
        self.writing = [each for each in self.writing if each not in offsets]
        self._advance_start_offset()

    def apply(self, transition: StateTransition) -> None:
        """Apply a transition that has been persisted."""
        self._runs = transition.runs
        self._advance_start_offset()

    # ---- changes that are not persisted

    def acquire(
        self, request: AcquireRequest, batches: Sequence[FetchedBatch], config: AcquisitionConfig, now: float
    ) -> list[AcquiredRange]:
        """Acquire fetched records for a member.

        Args:
            request: The member, and how many records it requests.
            batches: The batches that were read, starting at :attr:`next_offset`; at least one.
            config: The group's options.
            now: The current time (s).

        Returns:
            The ranges that were acquired. Records of aborted transactions are archived instead.
        """
        # The first batch may start before the first record that can be acquired. acquire_known() considers only records
        # in flight.
        first, last = batches[0].first, batches[-1].last
        max_acquired = min(request.max_records, config.max_in_flight_records - self._in_flight_count)
        if max_acquired <= 0:
            # The limit of records in flight has been reached. Records that were released already count.
            last = min(last, self.end_offset - 1)
            max_acquired = min(request.max_records, self.end_offset - self.next_offset)
        if max_acquired <= 0:
            return []
        # The log didn't return these available offsets. Otherwise every fetch would try them again.
        if self.next_offset < first:
            self._archive_gaps(self.next_offset, first)
        lock = InFlightRun(0, 0, RecordState.ACQUIRED, 0, 0, request.member_id, now + config.lock_duration)
        known = list(overlapping(self._runs, first, last))
        acquired, more = acquire_known(known, self._batch_size, lock, request, config, max_acquired)
        runs = replace_runs(self._runs, acquired)
        max_acquired -= sum(run.size for run in acquired)
        # Offsets before the end offset have a state already, and were handled above.
        first_new = max(first, self.end_offset)
        if more and max_acquired > 0 and first_new <= last:
            new_batches = [batch for batch in batches if batch.last >= first_new]
            new_runs = acquire_new(new_batches, first_new, lock, request, max_acquired)
            runs += new_runs
            acquired += [run for run in new_runs if run.state is RecordState.ACQUIRED]
            self.end_offset = new_runs[-1].last + 1
        # Aborted records are archived but not persisted: a new leader reads them again, and sees again that their
        # transaction was aborted.
        persisted, aborted = split_by_batches(acquired, [batch for batch in batches if batch.aborted])
        self._runs = replace_runs(runs, [run.unlocked(RecordState.ARCHIVED) for run in aborted])
        self._advance_start_offset()
        return [AcquiredRange(run.first, run.last, run.delivery_count) for run in persisted]

    def advance_log_start(self, offset: int) -> None:
        """Move the start offset to the log start offset. Called after retention or DeleteRecords has removed
        records."""
        if offset <= self.start_offset:
            return
        # Acquisition locks end with the runs, and acknowledge() ignores late acknowledgements of these records. Nothing
        # has to be persisted, because a new leader gets the log start offset from the log.
        self.start_offset = offset
        # All records in flight may be gone. If so, the next fetch starts at the log start offset.
        self.end_offset = max(self.end_offset, offset)
        self._runs = list(overlapping(self._runs, offset, self.end_offset))
        self._advance_start_offset()

    # ---- internals

    def _acknowledged(self, run: InFlightRun, ack_type: int, config: AcquisitionConfig, now: float) -> InFlightRun:
        if ack_type == RENEW:
            if not config.renew_enabled:
                raise BrokerError(
                    ErrorCode.INVALID_RECORD_STATE,
                    detail="acquisition locks of this group cannot be renewed (share.renew.acknowledge.enable)",
                )
            return run._replace(deadline=now + config.lock_duration)
        return _released(run, config) if ack_type == RELEASE else run.unlocked(_ACKNOWLEDGED_STATES[ack_type])

    def _all_released(self, runs: Iterable[InFlightRun], config: AcquisitionConfig) -> StateTransition:
        changed = [_released(run, config) for run in runs]
        return self._transition(
            changed, [_dead_letter(run, TOO_OFTEN) for run in changed if run.state is RecordState.ARCHIVED]
        )

    def _transition(self, changed: InFlightRuns, given_up: Sequence[DeadLetter] = ()) -> StateTransition:
        return StateTransition(replace_runs(self._runs, changed), changed, given_up)

    def _batch_size(self, batch: int) -> int:
        return sum(run.size for run in self._runs if run.batch == batch)

    def _archive_gaps(self, start: int, end: int) -> None:
        """Archive available offsets whose records weren't in the log any more: compaction has removed them."""
        available = [run for run in overlapping(self._runs, start, end - 1) if run.state is RecordState.AVAILABLE]
        self._runs = replace_runs(self._runs, [run.unlocked(RecordState.ARCHIVED) for run in available])

    def _advance_start_offset(self) -> None:
        """Move the start offset past records in a terminal state."""
        ended = 0
        while ended < len(self._runs) and self._runs[ended].state.is_terminal and not self._is_writing(ended):
            ended += 1
        # The start offset moves past gaps too. A run in a terminal state can be dropped once all runs before it are
        # done.
        self._runs = self._runs[ended:]
        self.start_offset = self._runs[0].first if self._runs else self.end_offset

    def _is_writing(self, index: int) -> bool:
        # Runs get joined, so the run may start before the offsets that are being written.
        run = self._runs[index]
        return any(offsets.start <= run.last and run.first < offsets.stop for offsets in self.writing)


def _dead_letter(run: InFlightRun, reason: str) -> DeadLetter:
    return DeadLetter(run.first, run.last, run.delivery_count, reason)


def _released(run: InFlightRun, config: AcquisitionConfig) -> InFlightRun:
    """Return a released run: available, or archived if it was delivered as often as the limit allows."""
    # The count includes the delivery that is ending, so a record at the limit has had its last chance.
    spent = run.delivery_count >= config.max_delivery_count
    return run.unlocked(RecordState.ARCHIVED if spent else RecordState.AVAILABLE)


def _split_by_type(run: InFlightRun, acknowledgement: Acknowledgement) -> Iterator[tuple[InFlightRun, int]]:
    """Split a run into parts with the same acknowledge type."""
    if len(acknowledgement.types) == 1:
        yield run, acknowledgement.types[0]
        return
    start = run.first
    for ack_type, same_type in groupby(
        acknowledgement.types[run.first - acknowledgement.first : run.last - acknowledgement.first + 1]
    ):
        end = start + sum(1 for _ in same_type)
        yield run.within(start, end - 1), ack_type
        start = end

"""A share partition: which records of a partition a share group has been given, and what became of them (KIP-932).

Theory of operation. The offsets before ``start_offset`` are done with, those from ``end_offset`` on nobody has seen.
What is between them is in flight, in runs of offsets with one fate::

    AVAILABLE  ⇄  ACQUIRED  →  ACKNOWLEDGED or ARCHIVED

A member that fetches is given what is available, and has it until its lock ends. A step that has to outlast a crash is
computed first (:class:`Step`), then kept somewhere, and counts only once it is :meth:`~SharePartition.taken`. That
somebody has a record is never kept: after a crash it is available again. No asyncio; the time is passed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from aiokproto.broker.share.acquisition import (
    Acquired,
    AcquireRequest,
    AcquisitionConfig,
    FetchedBatch,
    acquire_known,
    acquire_new,
    without,
)
from aiokproto.broker.share.in_flight import (
    FOREVER,
    InFlightRun,
    InFlightRuns,
    RecordState,
    count_terminal,
    overlapping,
    replaced,
)
from aiokproto.broker.share.state import PartitionState, StateBatch
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""What a member says of a record; that there was none is as good as a refusal."""

_STATES = {state.value: state for state in RecordState} | {3: RecordState.ARCHIVED}
"""What is kept of a record; 3 is on its way to a queue of dead letters, where a group has one, and then archived."""

_ACKNOWLEDGED_STATES = {GAP: RecordState.ARCHIVED, ACCEPT: RecordState.ACKNOWLEDGED, REJECT: RecordState.ARCHIVED}


class Acknowledgement(NamedTuple):
    """What a member says of the records from one offset to another: one word for all, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class StateTransition(NamedTuple):
    """What would be.

    Attributes:
        runs: All that would be in flight.
        changed: The runs among them that are not as before.
    """

    runs: InFlightRuns
    changed: InFlightRuns


class SharePartition:
    """A share group's records of a partition.

    Attributes:
        start_offset: All before is done with.
        end_offset: Nobody was given this one, or any after it.
        state_epoch: That of the state which it goes on from.
        leader_epoch: That of the partition's leader.
    """

    def __init__(self, state: PartitionState, start_offset: int) -> None:
        """Go on from what was kept; ``start_offset`` is where to begin, if that had still to be found."""
        self.start_offset = self.end_offset = start_offset
        self.state_epoch = state.state_epoch
        self.leader_epoch = state.leader_epoch
        self._runs: InFlightRuns = list(self._restored(state.batches))
        if self._runs:
            self.end_offset = self._runs[-1].last + 1
        self._advance()

    def _restored(self, batches: Iterable[StateBatch]) -> Iterator[InFlightRun]:
        at = self.start_offset
        for batch in batches:
            if batch.last_offset < at:
                continue
            if at < batch.first_offset:
                # Somebody had these, or nobody yet: of neither anything was kept.
                yield InFlightRun(at, batch.first_offset - 1, RecordState.AVAILABLE, 0, at)
                at = batch.first_offset
            yield InFlightRun(at, batch.last_offset, _STATES[batch.delivery_state], batch.delivery_count, at)
            at = batch.last_offset + 1

    @property
    def next_offset(self) -> int:
        """Where to read what can be acquired."""
        return next((run.first for run in self._runs if run.state is RecordState.AVAILABLE), self.end_offset)

    @property
    def next_deadline(self) -> float:
        """When the next lock ends."""
        return min((run.deadline for run in self._runs), default=FOREVER)

    @property
    def runs(self) -> InFlightRuns:
        """What is in flight."""
        return self._runs

    def full(self, config: AcquisitionConfig) -> bool:
        """Whether nothing can be acquired, because too much is in flight."""
        return self.next_offset == self.end_offset and self._in_flight_count >= config.max_in_flight_records

    @property
    def _in_flight_count(self) -> int:
        return self.end_offset - self.start_offset

    # ---- to be kept before they count

    def acknowledge(
        self, member: str, acknowledgements: Iterable[Acknowledgement], config: AcquisitionConfig, now: float
    ) -> StateTransition:
        """What a member says of its records: all of it holds, or nothing.

        Raises:
            BrokerError: INVALID_RECORD_STATE, if one of them is not its own; INVALID_REQUEST, if nobody was given one.
        """
        changed: list[InFlightRun] = []
        for said in acknowledgements:
            if said.last < self.start_offset:
                continue
            if self._runs and said.last >= self.end_offset:
                raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"offset {said.last} was given to nobody")
            if changed and said.first <= changed[-1].last:
                raise BrokerError(ErrorCode.INVALID_RECORD_STATE, detail=f"offset {said.first} is acknowledged twice")
            runs = list(overlapping(self._runs, max(said.first, self.start_offset), said.last))
            if not runs:
                raise BrokerError(ErrorCode.INVALID_RECORD_STATE, detail=f"offset {said.first} is not in flight")
            for run in runs:
                if run.state is not RecordState.ACQUIRED or run.member != member:
                    raise BrokerError(
                        ErrorCode.INVALID_RECORD_STATE, detail=f"offset {run.first} is not acquired by {member!r}"
                    )
                changed += [
                    self._acknowledged(part, ack_type, config, now) for part, ack_type in _split_by_type(run, said)
                ]
        return self._step(changed)

    def release(self, member: str, config: AcquisitionConfig) -> StateTransition:
        """A member is gone: others may have what it had."""
        return self._step([_released(run, config) for run in self._runs if run.member == member])

    def expire(self, now: float, config: AcquisitionConfig) -> StateTransition:
        """The locks end whose time has come."""
        return self._step([_released(run, config) for run in self._runs if run.deadline <= now])

    def state(self, transition: StateTransition) -> PartitionState:
        """What has to be kept of a step."""
        unlocked = (run for run in transition.changed if run.state is not RecordState.ACQUIRED)
        batches = tuple(StateBatch(run.first, run.last, run.state, run.delivery_count) for run in unlocked)
        return PartitionState(
            self.start_offset, self.state_epoch, self.leader_epoch, batches, count_terminal(transition.runs)
        )

    def apply(self, transition: StateTransition) -> None:
        """The step is kept: from now on it counts."""
        self._runs = transition.runs
        self._advance()

    # ---- at once

    def acquire(
        self, acquire_request: AcquireRequest, batches: Sequence[FetchedBatch], config: AcquisitionConfig, now: float
    ) -> list[Acquired]:
        """Give a member records that were read.

        Args:
            demand: Who wants how much.
            extents: The batches that were read from :attr:`next_offset` on; at least one.
            terms: The group's.
            now: The time (s).

        Returns:
            What the member has now. Of aborted transactions it has nothing: these are archived.
        """
        first, last = batches[0].first, batches[-1].last
        most = min(acquire_request.max_records, config.max_in_flight_records - self._in_flight_count)
        if most <= 0:
            # Nothing new: only what was released and is to be had again.
            last = min(last, self.end_offset - 1)
            most = min(acquire_request.max_records, self.end_offset - self.next_offset)
        if most <= 0:
            return []
        if self.next_offset < first:
            self._archive_missing(self.next_offset, first)
        lock = InFlightRun(0, 0, RecordState.ACQUIRED, 0, 0, acquire_request.member, now + config.lock_duration)
        known = list(overlapping(self._runs, first, last))
        acquired, more = acquire_known(known, self._batch_size, lock, acquire_request, config, most)
        runs = replaced(self._runs, acquired)
        most -= sum(run.size for run in acquired)
        begin = max(first, self.end_offset)
        if more and most > 0 and begin <= last:
            fresh = acquire_new([each for each in batches if each.last >= begin], begin, lock, acquire_request, most)
            runs += fresh
            acquired += [run for run in fresh if run.state is RecordState.ACQUIRED]
            self.end_offset = fresh[-1].last + 1
        kept, aborted = without(acquired, [batch for batch in batches if batch.aborted])
        self._runs = replaced(runs, [run.unlocked(RecordState.ARCHIVED) for run in aborted])
        self._advance()
        return [Acquired(run.first, run.last, run.delivery_count) for run in kept]

    def log_starts_at(self, offset: int) -> None:
        """The log has lost what was before: so has the group."""
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset)
        self._runs = list(overlapping(self._runs, offset, self.end_offset))
        self._advance()

    # ---- inside

    def _acknowledged(self, run: InFlightRun, ack_type: int, config: AcquisitionConfig, now: float) -> InFlightRun:
        if ack_type == RENEW:
            if not config.renew_enabled:
                raise BrokerError(ErrorCode.INVALID_RECORD_STATE, detail="the group does not let locks be renewed")
            return run._replace(deadline=now + config.lock_duration)
        return _released(run, config) if ack_type == RELEASE else run.unlocked(_ACKNOWLEDGED_STATES[ack_type])

    def _step(self, changed: InFlightRuns) -> StateTransition:
        return StateTransition(replaced(self._runs, changed), changed)

    def _batch_size(self, batch: int) -> int:
        return sum(run.size for run in self._runs if run.batch == batch)

    def _archive_missing(self, begin: int, end: int) -> None:
        """What could be had, but was not there when it was read, compaction has removed."""
        free = [run for run in overlapping(self._runs, begin, end - 1) if run.state is RecordState.AVAILABLE]
        self._runs = replaced(self._runs, [run.unlocked(RecordState.ARCHIVED) for run in free])

    def _advance(self) -> None:
        """Have done with what is done at the start."""
        is_terminal = 0
        while is_terminal < len(self._runs) and self._runs[is_terminal].state.is_terminal:
            is_terminal += 1
        self._runs = self._runs[is_terminal:]
        self.start_offset = self._runs[0].first if self._runs else self.end_offset


def _released(run: InFlightRun, config: AcquisitionConfig) -> InFlightRun:
    """What nobody has any more others may have, unless it was delivered too often."""
    spent = run.delivery_count >= config.max_delivery_count
    return run.unlocked(RecordState.ARCHIVED if spent else RecordState.AVAILABLE)


def _split_by_type(run: InFlightRun, said: Acknowledgement) -> Iterator[tuple[InFlightRun, int]]:
    """The parts of a run, each with what was said of it."""
    if len(said.types) == 1:
        yield run, said.types[0]
        return
    at = run.first
    for ack_type, alike in groupby(said.types[run.first - said.first : run.last - said.first + 1]):
        end = at + sum(1 for _ in alike)
        yield run.within(at, end - 1), ack_type
        at = end

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

from aiokproto.broker.share.acquiring import Acquired, Demand, Extent, Terms, acquire_known, acquire_new, without
from aiokproto.broker.share.flight import FOREVER, RecordState, Run, Runs, done_in, overlapping, replaced
from aiokproto.broker.share.state import PartitionState, StateBatch
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""What a member says of a record; that there was none is as good as a refusal."""

_STATES = {state.value: state for state in RecordState} | {3: RecordState.ARCHIVED}
"""What is kept of a record; 3 is on its way to a queue of dead letters, where a group has one, and then archived."""

_BECOMES = {GAP: RecordState.ARCHIVED, ACCEPT: RecordState.ACKNOWLEDGED, REJECT: RecordState.ARCHIVED}


class Acknowledgement(NamedTuple):
    """What a member says of the records from one offset to another: one word for all, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class Step(NamedTuple):
    """What would be.

    Attributes:
        runs: All that would be in flight.
        changed: The runs among them that are not as before.
    """

    runs: Runs
    changed: Runs


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
        self._runs: Runs = list(self._restored(state.batches))
        if self._runs:
            self.end_offset = self._runs[-1].last + 1
        self._advance()

    def _restored(self, batches: Iterable[StateBatch]) -> Iterator[Run]:
        at = self.start_offset
        for batch in batches:
            if batch.last_offset < at:
                continue
            if at < batch.first_offset:
                # Somebody had these, or nobody yet: of neither anything was kept.
                yield Run(at, batch.first_offset - 1, RecordState.AVAILABLE, 0, at)
                at = batch.first_offset
            yield Run(at, batch.last_offset, _STATES[batch.delivery_state], batch.delivery_count, at)
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
    def runs(self) -> Runs:
        """What is in flight."""
        return self._runs

    def full(self, terms: Terms) -> bool:
        """Whether nothing can be acquired, because too much is in flight."""
        return self.next_offset == self.end_offset and self._in_flight >= terms.max_locks

    @property
    def _in_flight(self) -> int:
        return self.end_offset - self.start_offset

    # ---- to be kept before they count

    def acknowledge(self, member: str, acknowledgements: Iterable[Acknowledgement], terms: Terms, now: float) -> Step:
        """What a member says of its records: all of it holds, or nothing.

        Raises:
            BrokerError: INVALID_RECORD_STATE, if one of them is not its own; INVALID_REQUEST, if nobody was given one.
        """
        changed: list[Run] = []
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
                changed += [self._acknowledged(part, word, terms, now) for part, word in _by_word(run, said)]
        return self._step(changed)

    def release(self, member: str, terms: Terms) -> Step:
        """A member is gone: others may have what it had."""
        return self._step([_released(run, terms) for run in self._runs if run.member == member])

    def expire(self, now: float, terms: Terms) -> Step:
        """The locks end whose time has come."""
        return self._step([_released(run, terms) for run in self._runs if run.deadline <= now])

    def state(self, step: Step) -> PartitionState:
        """What has to be kept of a step."""
        ended = (run for run in step.changed if run.state is not RecordState.ACQUIRED)
        batches = tuple(StateBatch(run.first, run.last, run.state, run.deliveries) for run in ended)
        return PartitionState(self.start_offset, self.state_epoch, self.leader_epoch, batches, done_in(step.runs))

    def taken(self, step: Step) -> None:
        """The step is kept: from now on it counts."""
        self._runs = step.runs
        self._advance()

    # ---- at once

    def acquire(self, demand: Demand, extents: Sequence[Extent], terms: Terms, now: float) -> list[Acquired]:
        """Give a member records that were read.

        Args:
            demand: Who wants how much.
            extents: The batches that were read from :attr:`next_offset` on; at least one.
            terms: The group's.
            now: The time (s).

        Returns:
            What the member has now. Of aborted transactions it has nothing: these are archived.
        """
        first, last = extents[0].first, extents[-1].last
        most = min(demand.max_records, terms.max_locks - self._in_flight)
        if most <= 0:
            # Nothing new: only what was released and is to be had again.
            last = min(last, self.end_offset - 1)
            most = min(demand.max_records, self.end_offset - self.next_offset)
        if most <= 0:
            return []
        if self.next_offset < first:
            self._archive_missing(self.next_offset, first)
        lock = Run(0, 0, RecordState.ACQUIRED, 0, 0, demand.member, now + terms.lock_seconds)
        known = list(overlapping(self._runs, first, last))
        acquired, more = acquire_known(known, self._batch_size, lock, demand, terms, most)
        runs = replaced(self._runs, acquired)
        most -= sum(run.size for run in acquired)
        begin = max(first, self.end_offset)
        if more and most > 0 and begin <= last:
            fresh = acquire_new([each for each in extents if each.last >= begin], begin, lock, demand, most)
            runs += fresh
            acquired += [run for run in fresh if run.state is RecordState.ACQUIRED]
            self.end_offset = fresh[-1].last + 1
        kept, aborted = without(acquired, [extent for extent in extents if extent.aborted])
        self._runs = replaced(runs, [run.ended(RecordState.ARCHIVED) for run in aborted])
        self._advance()
        return [Acquired(run.first, run.last, run.deliveries) for run in kept]

    def log_starts_at(self, offset: int) -> None:
        """The log has lost what was before: so has the group."""
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset)
        self._runs = list(overlapping(self._runs, offset, self.end_offset))
        self._advance()

    # ---- inside

    def _acknowledged(self, run: Run, word: int, terms: Terms, now: float) -> Run:
        if word == RENEW:
            if not terms.may_renew:
                raise BrokerError(ErrorCode.INVALID_RECORD_STATE, detail="the group does not let locks be renewed")
            return run._replace(deadline=now + terms.lock_seconds)
        return _released(run, terms) if word == RELEASE else run.ended(_BECOMES[word])

    def _step(self, changed: Runs) -> Step:
        return Step(replaced(self._runs, changed), changed)

    def _batch_size(self, batch: int) -> int:
        return sum(run.size for run in self._runs if run.batch == batch)

    def _archive_missing(self, begin: int, end: int) -> None:
        """What could be had, but was not there when it was read, compaction has removed."""
        free = [run for run in overlapping(self._runs, begin, end - 1) if run.state is RecordState.AVAILABLE]
        self._runs = replaced(self._runs, [run.ended(RecordState.ARCHIVED) for run in free])

    def _advance(self) -> None:
        """Have done with what is done at the start."""
        done = 0
        while done < len(self._runs) and self._runs[done].state.done:
            done += 1
        self._runs = self._runs[done:]
        self.start_offset = self._runs[0].first if self._runs else self.end_offset


def _released(run: Run, terms: Terms) -> Run:
    """What nobody has any more others may have, unless it was delivered too often."""
    spent = run.deliveries >= terms.delivery_limit
    return run.ended(RecordState.ARCHIVED if spent else RecordState.AVAILABLE)


def _by_word(run: Run, said: Acknowledgement) -> Iterator[tuple[Run, int]]:
    """The parts of a run, each with what was said of it."""
    if len(said.types) == 1:
        yield run, said.types[0]
        return
    at = run.first
    for word, alike in groupby(said.types[run.first - said.first : run.last - said.first + 1]):
        end = at + sum(1 for _ in alike)
        yield run.within(at, end - 1), word
        at = end

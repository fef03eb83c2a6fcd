"""Which of the records that were read a member is given: as many as it wants, by whole batches if it likes (KIP-1206).

Records that were delivered often may be what makes a consumer fail. They are given out in ever smaller numbers, and for
the last time one by one, so that in the end only those are archived with which something is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from aiokproto.broker.share.in_flight import InFlightRun, InFlightRuns, RecordState


class AcquisitionConfig(NamedTuple):
    """What a share group goes by.

    Attributes:
        max_locks: How many records of a partition can be in flight (``share.partition.max.record.locks``).
        delivery_limit: How often a record is delivered at most (``share.delivery.count.limit``).
        lock_seconds: How long a member has it (``share.record.lock.duration.ms``).
        may_renew: Whether that can be made longer (``share.renew.acknowledge.enable``).
    """

    max_in_flight_records: int
    max_delivery_count: int
    lock_duration: float
    renew_enabled: bool = True

    @property
    def throttle_delivery_count(self) -> int:
        """The number of deliveries from which on a record is given out with fewer others."""
        return max(2, -(-self.max_delivery_count // 2))

    def is_last_delivery(self, delivery_count: int) -> bool:
        """Whether a record that was delivered so often is delivered once more, and alone."""
        return self.max_delivery_count > 2 and delivery_count == self.max_delivery_count - 1


class AcquireRequest(NamedTuple):
    """Who wants how much.

    Attributes:
        member: The member.
        max_records: As many records; more only to have the last batch whole.
        batch_size: Into ranges of how many records what is new is divided, where batches end.
        by_record: Whether not even the last batch may be a reason for more.
    """

    member: str
    max_records: int
    batch_size: int
    record_limit: bool = False


class FetchedBatch(NamedTuple):
    """A batch of the log: its first offset, its last, and whether its transaction was aborted."""

    first: int
    last: int
    aborted: bool = False


class Acquired(NamedTuple):
    """Records that a member has, and how often they were delivered with that."""

    first: int
    last: int
    delivery_count: int


def acquire_known(
    runs: InFlightRuns,
    batch_size: Callable[[int], int],
    lock: InFlightRun,
    acquire_request: AcquireRequest,
    config: AcquisitionConfig,
    most: int,
) -> tuple[list[InFlightRun], bool]:
    """Acquire what is available of records that were delivered before.

    Args:
        runs: What is in flight of that which was read.
        batch_size: How many offsets a batch in flight has.
        lock: Whose the records become, and until when.
        demand: What is wanted.
        terms: The group's.
        most: How many records at most, save to have a batch whole.

    Returns:
        What was acquired, and whether there may be more than that.
    """
    taken: list[InFlightRun] = []
    got = 0
    for batch, of_batch in groupby(runs, key=lambda run: run.batch):
        free = [run for run in of_batch if run.state is RecordState.AVAILABLE]
        if not free:
            continue
        if got >= most:
            return taken, False
        suspicious = max(run.delivery_count for run in free) >= config.throttle_delivery_count
        if suspicious and got:
            return taken, False
        room = most - got if acquire_request.record_limit else free[-1].last - free[0].first + 1
        some = list(_carefully(free, room, batch_size(batch), config) if suspicious else _up_to(free, room))
        taken += [
            run._replace(
                state=RecordState.ACQUIRED,
                delivery_count=run.delivery_count + 1,
                member=lock.member,
                deadline=lock.deadline,
            )
            for run in some
        ]
        got += sum(run.size for run in some)
        if suspicious:
            return taken, False
    return taken, True


def _up_to(runs: Iterable[InFlightRun], room: int) -> Iterator[InFlightRun]:
    for run in runs:
        if room <= 0:
            return
        some = run.within(run.first, run.first + room - 1)
        room -= some.size
        yield some


def _carefully(
    runs: Iterable[InFlightRun], room: int, batch_size: int, config: AcquisitionConfig
) -> Iterator[InFlightRun]:
    """Fewer, the oftener they were delivered; for the last time, one."""
    got = 0
    limit: int | None = None
    for run in runs:
        alone = config.is_last_delivery(run.delivery_count)
        if alone and got:
            return
        if limit is None and run.delivery_count >= config.throttle_delivery_count:
            limit = max(1, batch_size >> (run.delivery_count - config.throttle_delivery_count + 1))
        most = 1 if alone else room - got if limit is None else min(room - got, limit - got)
        if most <= 0:
            return
        some = run.within(run.first, run.first + most - 1)
        got += some.size
        yield some
        if alone:
            return


def acquire_new(
    batches: Sequence[FetchedBatch], first: int, lock: InFlightRun, acquire_request: AcquireRequest, most: int
) -> list[InFlightRun]:
    """Acquire what nobody was given before.

    Args:
        extents: The batches to acquire from.
        first: From which offset on.
        lock: Whose the records become, and until when.
        demand: What is wanted.
        most: How many records at most, save to have a batch whole.

    Returns:
        What is in flight by that; of the last batch, what was too much is available.
    """
    wanted = min(first + most - 1, batches[-1].last)
    holder = next(batch for batch in batches if batch.last >= wanted)
    last = holder.last if holder.first <= wanted else wanted
    new = lock._replace(first=first, last=last, delivery_count=1, batch=first)
    if acquire_request.record_limit:
        if wanted == last:
            return [new]
        rest = InFlightRun(wanted + 1, last, RecordState.AVAILABLE, 0, first)
        return [new._replace(last=wanted), rest]
    runs: list[InFlightRun] = []
    for batch in batches:
        if batch.first > last:
            break
        if batch.first - new.first >= max(acquire_request.batch_size, 1):
            runs.append(new._replace(last=batch.first - 1))
            new = new._replace(first=batch.first, batch=batch.first)
    return [*runs, new]


def without(runs: InFlightRuns, batches: Sequence[FetchedBatch]) -> tuple[list[InFlightRun], list[InFlightRun]]:
    """Divide runs in what is outside of some batches, and what is within."""
    outside: list[InFlightRun] = []
    inside: list[InFlightRun] = []
    for run in runs:
        rest: InFlightRun | None = run
        for batch in batches:
            if rest is None or batch.last < rest.first or rest.last < batch.first:
                continue
            if rest.first < batch.first:
                outside.append(rest._replace(last=batch.first - 1))
            inside.append(rest.within(batch.first, batch.last))
            rest = rest._replace(first=batch.last + 1) if batch.last < rest.last else None
        if rest is not None:
            outside.append(rest)
    return outside, inside

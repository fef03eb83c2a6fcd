"""Decides which of the fetched records a member acquires (KIP-932; acquire modes: KIP-1206).

Records that were delivered before and released come first, then new ones. By default a member gets whole batches, and
the last batch can exceed ``max_records`` (batch-optimized). With ``record_limit``, that can't happen.

Throttling: a record that makes consumers fail would cause its whole batch to be archived when the delivery count
reaches the limit. Once a record has been delivered at least half as often as the limit allows, it's therefore acquired
in ever smaller groups, and on its own for the last delivery, so that only the bad record is archived in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from aiokproto.broker.share.in_flight import InFlightRun, InFlightRuns, RecordState


class AcquisitionConfig(NamedTuple):
    """The options of a share group for acquiring records.

    Attributes:
        max_in_flight_records: Maximum number of records of a partition in flight
            (``share.partition.max.record.locks``).
        max_delivery_count: Maximum number of deliveries of a record (``share.delivery.count.limit``).
        lock_duration: How long an acquisition lock lasts, in seconds (``share.record.lock.duration.ms``).
        renew_enabled: Whether members can renew acquisition locks (``share.renew.acknowledge.enable``).
    """

    max_in_flight_records: int
    max_delivery_count: int
    lock_duration: float
    renew_enabled: bool = True

    @property
    def throttle_delivery_count(self) -> int:
        """The delivery count at which throttling starts: half of the limit, rounded up, but at least 2."""
        return max(2, -(-self.max_delivery_count // 2))

    def is_last_delivery(self, delivery_count: int) -> bool:
        """Return whether the next delivery of a record with this delivery count is the last. If so, the record is
        delivered on its own."""
        return self.max_delivery_count > 2 and delivery_count == self.max_delivery_count - 1


class AcquireRequest(NamedTuple):
    """A member's request for records (ShareFetch).

    Attributes:
        member_id: The member.
        max_records: Maximum number of records to acquire. Without ``record_limit``, the last batch can exceed it.
        batch_size: New records are divided into in-flight batches of about this size, at batch boundaries of the log.
        record_limit: Whether ``max_records`` is a strict limit (acquire mode RECORD_LIMIT).
    """

    member_id: str
    max_records: int
    batch_size: int
    record_limit: bool = False


class FetchedBatch(NamedTuple):
    """A record batch that was read from the log. ``aborted`` means that its transaction was aborted (``read_committed``
    only)."""

    first: int
    last: int
    aborted: bool = False


class AcquiredRange(NamedTuple):
    """Records that were acquired for a member, and their delivery count including this delivery."""

    first: int
    last: int
    delivery_count: int


def acquire_known(
    runs: InFlightRuns,
    batch_size: Callable[[int], int],
    lock: InFlightRun,
    request: AcquireRequest,
    config: AcquisitionConfig,
    max_acquired: int,
) -> tuple[list[InFlightRun], bool]:
    """Acquire available records that are already in flight because they were delivered before.

    Args:
        runs: The runs in flight within the offsets that were read.
        batch_size: Returns the number of offsets of an in-flight batch.
        lock: A run with the member id and deadline for the acquired runs.
        request: The member's request.
        config: The group's options.
        max_acquired: Maximum number of records to acquire. Without ``record_limit``, the last batch can exceed it.

    Returns:
        The runs that were acquired, and whether more records can be acquired. Throttled records end the response:
        nothing else is delivered with them.
    """
    taken: list[InFlightRun] = []
    count = 0
    # The loop is over in-flight batches, as in Kafka's SharePartition, because either a whole batch is throttled or
    # none of it.
    for batch, of_batch in groupby(runs, key=lambda run: run.batch):
        available = [run for run in of_batch if run.state is RecordState.AVAILABLE]
        if not available:
            continue
        if count >= max_acquired:
            return taken, False
        # The batch is throttled by its most delivered record, which may be the bad one.
        throttled = max(run.delivery_count for run in available) >= config.throttle_delivery_count
        # A throttled batch is alone in its response: if it makes the member fail, nothing else has to be delivered
        # again.
        if throttled and count:
            return taken, False
        # The rest of the batch doesn't need another read, and splitting the batch would need more state
        # (batch-optimized).
        max_records = max_acquired - count if request.record_limit else available[-1].last - available[0].first + 1
        part = list(
            _take_throttled(available, max_records, batch_size(batch), config)
            if throttled
            else _take(available, max_records)
        )
        taken += [
            run._replace(
                state=RecordState.ACQUIRED,
                delivery_count=run.delivery_count + 1,
                member_id=lock.member_id,
                deadline=lock.deadline,
            )
            for run in part
        ]
        count += sum(run.size for run in part)
        if throttled:
            return taken, False
    return taken, True


def _take(runs: Iterable[InFlightRun], max_records: int) -> Iterator[InFlightRun]:
    for run in runs:
        if max_records <= 0:
            return
        part = run.within(run.first, run.first + max_records - 1)
        max_records -= part.size
        yield part


def _take_throttled(
    runs: Iterable[InFlightRun], max_records: int, batch_size: int, config: AcquisitionConfig
) -> Iterator[InFlightRun]:
    """Take throttled records: half of the batch, then a quarter, and so on. For the last delivery, take only one
    record."""
    count = 0
    limit: int | None = None
    for run in runs:
        last_delivery = config.is_last_delivery(run.delivery_count)
        if last_delivery and count:
            return
        if limit is None and run.delivery_count >= config.throttle_delivery_count:
            # The limit is set once: the first throttled run determines how much of the batch is delivered at a time.
            limit = max(1, batch_size >> (run.delivery_count - config.throttle_delivery_count + 1))
        max_acquired = (
            1 if last_delivery else max_records - count if limit is None else min(max_records - count, limit - count)
        )
        if max_acquired <= 0:
            return
        part = run.within(run.first, run.first + max_acquired - 1)
        count += part.size
        yield part
        if last_delivery:
            return


def acquire_new(
    batches: Sequence[FetchedBatch], first: int, lock: InFlightRun, request: AcquireRequest, max_acquired: int
) -> list[InFlightRun]:
    """Acquire records that haven't been in flight yet.

    Args:
        batches: The batches that were read, starting at ``first``.
        first: The first offset to acquire.
        lock: A run with the member id and deadline for the acquired runs.
        request: The member's request.
        max_acquired: Maximum number of records to acquire. Without ``record_limit``, the last batch can exceed it.

    Returns:
        The new runs in flight. With ``record_limit``, they include the rest of the last batch as available, so that
        in-flight batches end where batches of the log end.
    """
    # Offsets are counted, not records: offsets removed by compaction have a state like any other.
    wanted = min(first + max_acquired - 1, batches[-1].last)
    holder = next(batch for batch in batches if batch.last >= wanted)
    # ``wanted`` may be in a gap between batches, where there is no batch to complete.
    last = holder.last if holder.first <= wanted else wanted
    new = lock._replace(first=first, last=last, delivery_count=1, batch=first)
    if request.record_limit:
        if wanted == last:
            return [new]
        # The delivery count is 0 because the rest was fetched but not delivered.
        rest = InFlightRun(wanted + 1, last, RecordState.AVAILABLE, 0, first)
        return [new._replace(last=wanted), rest]
    runs: list[InFlightRun] = []
    for batch in batches:
        if batch.first > last:
            break
        # A new in-flight batch starts only where a batch of the log does: a member gets and acknowledges whole batches.
        if batch.first - new.first >= max(request.batch_size, 1):
            runs.append(new._replace(last=batch.first - 1))
            new = new._replace(first=batch.first, batch=batch.first)
    return [*runs, new]


def split_by_batches(
    runs: InFlightRuns, batches: Sequence[FetchedBatch]
) -> tuple[list[InFlightRun], list[InFlightRun]]:
    """Split runs into the parts outside the batches and the parts inside them."""
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

"""Merging of persisted state batches (what Kafka's ``PersisterStateBatchCombiner`` does)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from heapq import heappop, heappush

from aiokproto.broker.share.state import StateBatch


def combine(batches: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Merge state batches into an ordered list without overlaps, from the start offset on (-1: from any offset).

    Where batches overlap, the higher delivery count wins, then the higher delivery state: both only ever grow, so that
    the higher one is the later one. Adjacent batches with the same state and count are joined.

    A sweep over the offsets: ``waiting`` are the batches that begin later, ``reaching`` a heap of those that cover the
    current offset, with the winner at its top.
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
            # Negative, because heapq has the smallest item on top.
            heappush(reaching, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
        count, state, last = reaching[0]
        # Up to where another batch begins, which may win from there on.
        end = min(last, waiting[-1].first_offset - 1) if waiting else last
        _extend(combined, StateBatch(offset, end, -state, -count))
        offset = end + 1
        # Batches that end inside of a winner stay in the heap until they come to its top.
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

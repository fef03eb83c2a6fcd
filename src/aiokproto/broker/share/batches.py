"""Runs of offsets of one state: several lists of them made one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from heapq import heappop, heappush

from aiokproto.broker.share.state import StateBatch


def combine(batches: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """The batches in order, without overlap and without what is before the start offset (-1: nothing is).

    Where several overlap, the one that was delivered more often counts, and among these the one further on its way:
    states only ever grow. Neighbours of one state become one batch.
    """
    waiting = [
        replace(batch, first_offset=max(batch.first_offset, start_offset))
        for batch in batches
        if batch.last_offset >= start_offset
    ]
    waiting.sort(key=lambda batch: batch.first_offset, reverse=True)
    combined: list[StateBatch] = []
    # Those that reach the offset at hand, the one that counts first.
    reaching: list[tuple[int, int, int]] = []
    offset = 0
    while waiting or reaching:
        if not reaching:
            offset = waiting[-1].first_offset
        while waiting and waiting[-1].first_offset == offset:
            batch = waiting.pop()
            heappush(reaching, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
        count, state, last = reaching[0]
        end = min(last, waiting[-1].first_offset - 1) if waiting else last
        _extend(combined, StateBatch(offset, end, -state, -count))
        offset = end + 1
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

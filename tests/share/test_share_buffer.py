"""Acquired offsets become records, gaps, or damage: none is left without an acknowledgement."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.codec.messages.share_fetch import AcquiredRecords
from aiokproto.errors import CorruptRecordError
from aiokproto.records import BatchRecord, decode, encode
from aiokproto.share.buffer import (
    AcquiredRange,
    AcquireLimit,
    FetchedPart,
    Offsets,
    OpenAcquired,
    ShareBuffer,
    acquired_ranges,
    missing,
)
from aiokproto.share.ledger import AcquiredPartition, AcquisitionLock
from aiokproto.types import TopicPartition


def lock(at: float = 0.0) -> AcquisitionLock:
    return AcquisitionLock(AcquiredPartition(None, TopicPartition("t", 0)), at, at, 10.0)


def ranges(*pairs: tuple[int, int]) -> list[AcquiredRange]:
    return [AcquiredRange(first, last, number) for number, (first, last) in enumerate(pairs, 1)]


@st.composite
def acquired(draw: Any) -> list[AcquiredRange]:
    bounds = sorted(draw(st.lists(st.integers(0, 40), min_size=2, max_size=8, unique=True)))
    return ranges(*zip(bounds[::2], bounds[1::2], strict=False))


@given(acquired(), st.sets(st.integers(0, 45)), st.integers(0, 45), st.integers(0, 45))
def test_missing_offsets_are_acquired_and_have_no_record(
    found: list[AcquiredRange], present: set[int], begin: int, end: int
) -> None:
    expected = {offset for each in found for offset in range(each.first, each.last + 1)}
    expected = {offset for offset in expected if begin <= offset < end} - present
    gaps = list(missing(found, begin, end, sorted(present)))
    assert {offset for first, last in gaps for offset in range(first, last + 1)} == expected
    assert all(one.last < other.first for one, other in pairwise(gaps))


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ([], []),
        ([(3, 5, 2), (0, 1, 1)], [(0, 1, 1), (3, 5, 2)]),
        ([(0, 3, 1), (2, 5, 2)], [(0, 3, 1), (4, 5, 2)]),
        ([(0, 3, 1), (1, 2, 2)], [(0, 3, 1)]),
        ([(4, 3, 1), (-5, -1, 1)], []),
        ([(-5, 2, 0)], [(0, 2, 1)]),
        ([(0, 2**62, 1)], [(0, 2**62, 1)]),
    ],
)
def test_acquired_ranges_are_in_order_even_if_a_broker_sends_others(
    reported: list[tuple[int, int, int]], expected: list[tuple[int, int, int]]
) -> None:
    sent = [
        AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count) for first, last, count in reported
    ]
    assert [tuple(each) for each in acquired_ranges(sent)] == expected


def stored(*batches: range) -> bytes:
    return b"".join(
        encode([BatchRecord(0, 0, None, b"%d" % offset) for offset in each], base_offset=each.start) for each in batches
    )


def test_only_acquired_records_are_opened_with_their_delivery_counts() -> None:
    (batch,) = decode(stored(range(10, 20)))
    opened = OpenAcquired(batch, lock(), ranges((8, 11), (15, 15), (18, 30)), 11, True).read()
    assert [(record.offset, record.delivery_count) for record in opened] == [(11, 1), (15, 2), (18, 3), (19, 3)]


def test_a_part_accounts_for_every_acquired_offset() -> None:
    # 3 and 4 were compacted away; 8 and 9 are behind the last batch.
    part = FetchedPart(lock(), ranges((1, 9)), memoryview(stored(range(3), range(5, 8))))
    gaps, delivered = [], []
    while part.chunk is not None:
        gaps += part.take(part.read().read())
        delivered += [record.offset for record in reversed(part.opened)]
    gaps += part.pass_until(None)
    assert delivered == [1, 2, 5, 6, 7]
    assert gaps == [Offsets(3, 4), Offsets(8, 9)]


def test_a_damaged_batch_is_not_a_gap_even_if_its_header_says_so() -> None:
    hidden = bytearray(stored(range(3, 6)))
    hidden[22] ^= 0x20  # a control batch
    data = memoryview(stored(range(3)) + hidden + stored(range(6, 9)))
    part = FetchedPart(lock(), ranges((0, 8)), data)
    gaps = []
    while part.chunk is not None:
        if part.position == 3:
            with pytest.raises(CorruptRecordError, match="offset 3: checksum"):
                part.read().read()
            assert part.take_batch() == [Offsets(3, 5)]
        else:
            gaps += part.take(part.read().read())
    assert gaps == []
    assert part.position == 9
    unchecked = FetchedPart(lock(), ranges((0, 8)), data, check_crcs=False)
    assert unchecked.chunk is not None
    assert [batch.base_offset for batch in unchecked.chunk.batches] == [0, 6]


def test_what_is_left_of_a_part_can_be_released() -> None:
    part = FetchedPart(lock(), ranges((0, 1), (3, 9)), memoryview(stored(range(5), range(5, 10))))
    assert part.chunk is not None
    part.take(part.read().read())
    assert part.opened.pop().offset == 0
    assert [(each.first, each.last) for each in part.undelivered()] == [(1, 1), (3, 3), (4, 4), (5, 9)]


def test_gaps_are_not_released_as_well() -> None:
    """They are acknowledged when their batch is opened, and no offset may be acknowledged twice."""
    part = FetchedPart(lock(), ranges((0, 9)), memoryview(stored(range(5), range(5, 10))))
    assert part.chunk is not None
    records = part.read().read()
    assert part.take([record for record in records if record.offset != 2]) == [Offsets(2, 2)]
    assert part.opened.pop().offset == 0
    left = {offset for each in part.undelivered() for offset in range(each.first, each.last + 1)}
    assert left == {1, 3, 4, 5, 6, 7, 8, 9}


def test_parts_whose_lock_is_lost_are_dropped() -> None:
    limit = AcquireLimit(100)
    buffer = ShareBuffer(limit)
    data = memoryview(stored(range(3)))
    parts = [FetchedPart(lock(at), ranges((0, 2)), data) for at in (0.0, 5.0)]
    for part in parts:
        buffer.put(part)
    assert buffer.head(9.9) is parts[0]
    assert buffer.next_check(9.9) == 10.0
    parts[0].delivered = 8
    assert buffer.head(10.0) is parts[1]
    assert limit.current == 6
    parts[1].lock.acquired.lose(ValueError())  # type: ignore[arg-type]
    assert buffer.head(10.0) is None
    assert limit.current == 6, "the application is not slow because a broker is gone"


def test_the_limit_follows_the_application() -> None:
    limit = AcquireLimit(500)
    limit.expired(30)
    assert limit.current == 22
    limit.expired(0)
    assert limit.current == 1
    limit.taken(5.0, 10.0)
    assert limit.current == 1, "not fast"
    for expected in (2, 4, 8, 16, 32, 64, 128, 256, 500, 500):
        limit.taken(0.1, 10.0)
        assert limit.current == expected

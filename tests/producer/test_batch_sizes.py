"""How many bytes fill a batch before it's compressed: estimates, their limits, and the sizes of batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.producer.limits import BATCH_OVERHEAD, BatchSizes, BufferLimits

LIMITS = BufferLimits(
    batch_size=10_000, buffer_memory=1_000_000, max_request_size=100_000, linger=1.0, delivery_timeout=30.0, in_flight=5
)


def sizes(*ratios: float, limits: BufferLimits = LIMITS) -> BatchSizes:
    """Return the sizes after full batches of a topic that were compressed with this ratio."""
    made = BatchSizes(limits)
    for ratio in ratios:
        before = made.most("t")
        made.written("t", before, BATCH_OVERHEAD + int((before - BATCH_OVERHEAD) * ratio))
    return made


def test_batches_are_filled_until_they_have_their_size_after_compression() -> None:
    for ratio in (0.9, 0.5, 0.2):
        most = sizes(*[ratio] * 100).most("t")
        assert 0.9 * LIMITS.batch_size < most * ratio <= LIMITS.batch_size


def test_one_batch_that_compresses_badly_counts_at_once_and_one_that_compresses_well_little() -> None:
    learned = sizes(*[0.25] * 100)
    most = learned.most("t")
    learned.written("t", most, most)
    assert learned.most("t") == LIMITS.batch_size
    learned.written("t", LIMITS.batch_size, LIMITS.batch_size // 4)
    assert learned.most("t") < 1.1 * LIMITS.batch_size


def test_topics_are_independent() -> None:
    assert sizes(*[0.1] * 50).most("other") == LIMITS.batch_size


def test_small_batches_say_nothing() -> None:
    learned = sizes(*[0.25] * 100)
    most = learned.most("t")
    learned.written("t", LIMITS.batch_size // 2 - 1, LIMITS.batch_size)
    assert learned.most("t") == most


def test_a_batch_that_a_broker_finds_too_large_starts_the_estimate_again() -> None:
    learned = sizes(*[0.25] * 100)
    learned.too_large("t")
    learned.too_large("never written")
    assert learned.most("t") == LIMITS.batch_size


@pytest.mark.parametrize("limit", ["max_request_size", "buffer_memory"])
def test_a_batch_that_would_not_compress_at_all_can_still_be_sent(limit: str) -> None:
    limits = LIMITS._replace(**{limit: 15_000})
    assert sizes(*[0.001] * 200, limits=limits).most("t") == 15_000


@given(st.lists(st.tuples(st.integers(0, 200_000), st.integers(0, 200_000)), max_size=50))
def test_the_size_is_always_between_its_limits(batches: list[tuple[int, int]]) -> None:
    learned = BatchSizes(LIMITS)
    for before, after in batches:
        learned.written("t", before, max(after, BATCH_OVERHEAD + 1))
        assert LIMITS.batch_size <= learned.most("t") <= LIMITS.max_request_size

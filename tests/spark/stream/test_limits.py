"""How much a batch of a stream reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.spark.stream.planner import Patience, divide
from aiokproto.types import TopicPartition

A, B, C = (TopicPartition("t", number) for number in range(3))

logs = st.dictionaries(
    st.sampled_from([TopicPartition("t", number) for number in range(9)]),
    st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 40)),
)


@pytest.mark.parametrize(
    ("sizes", "limit", "shares"),
    [
        ((100, 100, 100), 30, (10, 10, 10)),
        ((100, 200, 300), 60, (10, 20, 30)),
        ((1_000_000, 1, 0), 10, (9, 1, 0)),
        ((5, 5, 5), 15, (5, 5, 5)),
        ((5, 5, 5), 16, (5, 5, 5)),
        ((10, 10, 10), 1, (1, 1, 1)),
        ((0, 0, 0), 1, (0, 0, 0)),
    ],
)
def test_a_limit_is_divided_in_proportion(sizes: tuple[int, ...], limit: int, shares: tuple[int, ...]) -> None:
    begins = dict(zip((A, B, C), (7, 0, 50), strict=True))
    ends = {one: begins[one] + size for one, size in zip(begins, sizes, strict=True)}
    assert divide(begins, ends, limit) == {one: begins[one] + share for one, share in zip(begins, shares, strict=True)}


@given(logs, st.integers(1, 1 << 41))
def test_no_partition_starves_and_the_limit_holds(logs: dict[TopicPartition, tuple[int, int]], limit: int) -> None:
    begins = {one: begin for one, (begin, _) in logs.items()}
    ends = {one: begin + size for one, (begin, size) in logs.items()}
    until = divide(begins, ends, limit)
    for one, end in ends.items():
        assert begins[one] <= until[one] <= end
        assert until[one] > begins[one] or end == begins[one]
    assert sum(until[one] - begins[one] for one in logs) <= limit + len(logs)


def test_a_batch_waits_for_the_least_number_or_the_delay() -> None:
    patience = Patience(10, 60.0)
    assert not patience.waits(3, 100.0), "the first never waits"
    assert patience.waits(9, 130.0)
    assert not patience.waits(10, 131.0)
    assert patience.waits(9, 190.0), "the delay counts from the batch before"
    assert not patience.waits(9, 191.0)
    assert patience.waits(0, 192.0)

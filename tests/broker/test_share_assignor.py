"""The assignor of share groups."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.broker.groups.assignment import TopicIdPartition, TopicIdPartitions
from aiokproto.broker.groups.share.assignor import simple
from tests.broker.epoch_harness import A, B, partition_ids

NOTHING: TopicIdPartitions = frozenset()


def spread(targets: dict[str, TopicIdPartitions]) -> Counter[TopicIdPartition]:
    return Counter(partition for target in targets.values() for partition in target)


def test_each_partition_has_one_reader_while_there_are_enough() -> None:
    targets = simple(dict.fromkeys("xyz", frozenset({A})), {}, {A: range(5)})
    assert sorted(map(len, targets.values())) == [1, 2, 2]
    assert spread(targets) == dict.fromkeys(partition_ids(A, *range(5)), 1)


def test_more_members_than_partitions_share_them_evenly() -> None:
    targets = simple(dict.fromkeys("vwxyz", frozenset({A})), {}, {A: range(2)})
    assert set(spread(targets)) == partition_ids(A, 0, 1)
    assert max(spread(targets).values()) == 3
    assert all(targets.values())


def test_assignments_are_sticky() -> None:
    before = {"x": partition_ids(A, 0, 1, 2, 3)}
    targets = simple(dict.fromkeys("xy", frozenset({A})), before, {A: range(4)})
    assert targets == {"x": partition_ids(A, 0, 1), "y": partition_ids(A, 2, 3)}
    assert simple(dict.fromkeys("xy", frozenset({A})), targets, {A: range(4)}) == targets


def test_different_subscriptions_are_assigned_topic_by_topic() -> None:
    subscriptions = {"x": frozenset({A}), "y": frozenset({A, B})}
    targets = simple(subscriptions, {}, {A: range(2), B: range(2)})
    assert targets["y"] >= partition_ids(B, 0, 1)
    assert {len(targets["x"]), len(targets["y"] & partition_ids(A, 0, 1))} == {1}


@pytest.mark.parametrize("assignable", [{}, {A: ()}, {B: (0, 1)}])
def test_partitions_without_a_state_are_not_assigned(assignable: dict[bytes, tuple[int, ...]]) -> None:
    assert simple({"x": frozenset({A})}, {"x": partition_ids(A, 0)}, assignable) == {"x": NOTHING}


def test_no_members_means_an_empty_assignment() -> None:
    assert simple({}, {}, {A: range(3)}) == {}


WISHES = st.dictionaries(st.sampled_from("uvwxyz"), st.frozensets(st.sampled_from([A, B])), max_size=6)
SOME = st.dictionaries(st.sampled_from([A, B]), st.frozensets(st.integers(0, 4)), max_size=2)
BEFORE = st.dictionaries(
    st.sampled_from("uvwxyz"), st.frozensets(st.tuples(st.sampled_from([A, B]), st.integers(0, 6)), max_size=6)
)


@given(WISHES, BEFORE, SOME)
def test_every_subscribed_partition_has_a_reader(
    subscriptions: dict[str, frozenset[bytes]],
    before: dict[str, TopicIdPartitions],
    assignable: dict[bytes, frozenset[int]],
) -> None:
    targets = simple(subscriptions, before, assignable)
    assert targets.keys() == subscriptions.keys()
    for member_id, target in targets.items():
        assert {topic_id for topic_id, _ in target} <= subscriptions[member_id]
    wanted = frozenset().union(*subscriptions.values())
    assert set(spread(targets)) == {
        (topic_id, index) for topic_id, indexes in assignable.items() if topic_id in wanted for index in indexes
    }
    for topic_id, indexes in assignable.items():
        readers = sum(topic_id in subscription for subscription in subscriptions.values())
        for index in indexes:
            assert spread(targets)[topic_id, index] <= -(-readers // len(indexes))


@given(st.integers(1, 6), st.integers(1, 12), BEFORE)
def test_assignments_differ_by_at_most_one_partition(
    members: int, partitions: int, before: dict[str, TopicIdPartitions]
) -> None:
    targets = simple(dict.fromkeys("uvwxyz"[:members], frozenset({A})), before, {A: range(partitions)})
    sizes = [len(target) for target in targets.values()]
    if partitions >= members:
        assert max(sizes) - min(sizes) <= 1
        assert set(spread(targets).values()) == {1}
    again = simple(dict.fromkeys("uvwxyz"[:members], frozenset({A})), targets, {A: range(partitions)})
    assert again == targets

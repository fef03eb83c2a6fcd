"""The server-side assignors of consumer groups."""

from __future__ import annotations

import random
import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.broker.groups.assignment import TopicIdPartitions
from aiokproto.broker.groups.consumer import assignors
from aiokproto.broker.groups.consumer.assignors import ASSIGNORS, MemberSpec, range_, uniform
from tests.broker import plain_assignors
from tests.broker.epoch_harness import A, B, partition_ids

TOPICS = (A, B, b"c" * 16)
_SUBSCRIPTIONS = st.dictionaries(st.sampled_from("vwxyz"), st.frozensets(st.sampled_from(TOPICS)), min_size=1)
_SIZES = st.fixed_dictionaries({A: st.integers(0, 7), B: st.integers(0, 7), b"c" * 16: st.integers(0, 7)})


@pytest.mark.parametrize("name", ASSIGNORS)
@given(subscriptions=_SUBSCRIPTIONS, sizes=_SIZES)
def test_every_subscribed_partition_is_assigned_to_one_subscriber(
    name: str, subscriptions: dict[str, frozenset[bytes]], sizes: dict[bytes, int]
) -> None:
    targets = ASSIGNORS[name]({member: MemberSpec(topics) for member, topics in subscriptions.items()}, sizes)
    given_out = [place for target in targets.values() for place in target]
    wanted = frozenset().union(*subscriptions.values())
    assert sorted(given_out) == sorted((topic, index) for topic in wanted for index in range(sizes[topic]))
    assert all(place[0] in subscriptions[member] for member, target in targets.items() for place in target)


@pytest.mark.parametrize("name", ["uniform", "range_"])
@given(seed=st.integers(0, 1 << 32))
def test_assignments_are_the_same_as_of_the_plain_assignors(name: str, seed: int) -> None:
    """The subscriptions and the owners before are random."""
    random_ = random.Random(seed)
    sizes = {topic_id: random_.randrange(random_.choice([2, 9, 30])) for topic_id in random_.sample(TOPICS, 3)}
    kinds = [frozenset(random_.sample(TOPICS, random_.randrange(4))) for _ in range(random_.choice([1, 2, 5]))]
    free = [(topic_id, index) for topic_id in TOPICS for index in range(35)]
    random_.shuffle(free)
    specs = {}
    for member_id in random_.sample("stuvwxyz", random_.randrange(9)):
        owned = random_.choice([0, 0, 3, 50])
        instance_id = random_.choice([None, None, "1", "2"])
        specs[member_id] = MemberSpec(random_.choice(kinds), frozenset(free[:owned]), instance_id)
        free = free[owned:]
    expected = getattr(plain_assignors, name)(specs, sizes)
    assert getattr(assignors, name)(specs, sizes) == expected


def steps(subscriptions: list[frozenset[bytes]], targets: list[TopicIdPartitions], partitions: int) -> int:
    """How many lines of the assignors run, of "uniform" and "range" together."""
    counted = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal counted
        counted += event == "line"
        return trace if frame.f_code.co_filename == assignors.__file__ else None

    sizes = dict.fromkeys(sorted(frozenset().union(*subscriptions)), partitions)
    specs = {
        f"m{at}": MemberSpec(topics, targets[at] if at < len(targets) else frozenset())
        for at, topics in enumerate(subscriptions)
    }
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for assign in ASSIGNORS.values():
            assign(specs, sizes)
    finally:
        sys.settrace(before)
    return counted


@pytest.mark.parametrize("owned", [False, True], ids=["nobody had them", "one had them all"])
@pytest.mark.parametrize("topics", [1, 100])
def test_the_work_to_assign_is_of_members_and_partitions_not_of_their_product(topics: int, owned: bool) -> None:
    members, partitions = 100, 1000
    topic_ids = [number.to_bytes(16, "big") for number in range(topics)]
    everything = frozenset().union(*(partition_ids(topic_id, *range(partitions // topics)) for topic_id in topic_ids))
    took = steps([frozenset(topic_ids)] * members, [everything] * owned, partitions // topics)
    assert took < 30 * (members + partitions)


def test_balancing_different_subscriptions_takes_a_scan_of_the_members_for_each_move() -> None:
    members, partitions = 100, 500
    everything = partition_ids(A, *range(partitions)) | partition_ids(B, *range(partitions))
    kinds = [frozenset({A, B}), frozenset({A})]
    took = steps(kinds * (members // 2), [everything], partitions)
    assert took < 100 * (members + 2 * partitions)


@given(members=st.integers(1, 6), changed=st.integers(1, 6), sizes=_SIZES)
def test_uniform_is_even_and_moves_as_few_partitions_as_possible(
    members: int, changed: int, sizes: dict[bytes, int]
) -> None:
    topics = frozenset(sizes)
    before = uniform({str(number): MemberSpec(topics) for number in range(members)}, sizes)
    specs = {str(number): MemberSpec(topics, before.get(str(number), frozenset())) for number in range(changed)}
    after = uniform(specs, sizes)
    lengths = [len(target) for target in after.values()]
    assert max(lengths) - min(lengths) <= 1
    share = sum(sizes.values()) // changed
    for member, target in after.items():
        retained = target & specs[member].target
        assert len(retained) >= min(len(specs[member].target), share)


def test_uniform_balances_as_far_as_the_subscriptions_allow() -> None:
    """A member with one topic gets its share, though members that subscribe to both topics were assigned first."""
    specs = {
        "x": MemberSpec(frozenset({A, B}), partition_ids(A, 0, 1) | partition_ids(B, 0, 1)),
        "y": MemberSpec(frozenset({A})),
        "z": MemberSpec(frozenset({A})),
    }
    targets = uniform(specs, {A: 2, B: 2})
    assert targets == {"x": partition_ids(B, 0, 1), "y": partition_ids(A, 1), "z": partition_ids(A, 0)}


def test_range_assigns_contiguous_partitions_in_the_order_of_instance_ids() -> None:
    specs = {
        "x": MemberSpec(frozenset({A, B})),
        "z": MemberSpec(frozenset({A, B}), instance_id="2"),
        "y": MemberSpec(frozenset({A})),
    }
    specs["w"] = MemberSpec(frozenset({A, B}), instance_id="1")
    assert range_(specs, {A: 6, B: 4}) == {
        "w": partition_ids(A, 0, 1) | partition_ids(B, 0, 1),
        "z": partition_ids(A, 2, 3) | partition_ids(B, 2),
        "x": partition_ids(A, 4) | partition_ids(B, 3),
        "y": partition_ids(A, 5),
    }

"""The server-side assignors of consumer groups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.broker.groups.consumer.assignors import ASSIGNORS, MemberSpec, range_, uniform
from tests.broker.consumer_harness import A, B, places

# ---- assignors

_SUBSCRIPTIONS = st.dictionaries(
    st.sampled_from("vwxyz"), st.frozensets(st.sampled_from([A, B, b"c" * 16])), min_size=1
)
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
        "x": MemberSpec(frozenset({A, B}), places(A, 0, 1) | places(B, 0, 1)),
        "y": MemberSpec(frozenset({A})),
        "z": MemberSpec(frozenset({A})),
    }
    targets = uniform(specs, {A: 2, B: 2})
    assert targets == {"x": places(B, 0, 1), "y": places(A, 1), "z": places(A, 0)}


def test_range_assigns_contiguous_partitions_in_the_order_of_instance_ids() -> None:
    specs = {
        "x": MemberSpec(frozenset({A, B})),
        "z": MemberSpec(frozenset({A, B}), instance_id="2"),
        "y": MemberSpec(frozenset({A})),
    }
    specs["w"] = MemberSpec(frozenset({A, B}), instance_id="1")
    assert range_(specs, {A: 6, B: 4}) == {
        "w": places(A, 0, 1) | places(B, 0, 1),
        "z": places(A, 2, 3) | places(B, 2),
        "x": places(A, 4) | places(B, 3),
        "y": places(A, 5),
    }

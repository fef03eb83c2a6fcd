"""The assignors that the coordinator has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.broker.groups.consumer.assignors import ASSIGNORS, MemberSpec, range_, uniform
from tests.broker.consumer_scene import A, B, places

# ---- assignors

_SUBSCRIPTIONS = st.dictionaries(
    st.sampled_from("vwxyz"), st.frozensets(st.sampled_from([A, B, b"c" * 16])), min_size=1
)
_SIZES = st.fixed_dictionaries({A: st.integers(0, 7), B: st.integers(0, 7), b"c" * 16: st.integers(0, 7)})


@pytest.mark.parametrize("name", ASSIGNORS)
@given(subscriptions=_SUBSCRIPTIONS, sizes=_SIZES)
def test_everything_wanted_is_assigned_once_to_somebody_who_wants_it(
    name: str, subscriptions: dict[str, frozenset[bytes]], sizes: dict[bytes, int]
) -> None:
    targets = ASSIGNORS[name]({member: MemberSpec(topics) for member, topics in subscriptions.items()}, sizes)
    given_out = [place for target in targets.values() for place in target]
    wanted = frozenset().union(*subscriptions.values())
    assert sorted(given_out) == sorted((topic, index) for topic in wanted for index in range(sizes[topic]))
    assert all(place[0] in subscriptions[member] for member, target in targets.items() for place in target)


@given(members=st.integers(1, 6), changed=st.integers(1, 6), sizes=_SIZES)
def test_uniform_is_even_and_moves_no_more_than_it_must(members: int, changed: int, sizes: dict[bytes, int]) -> None:
    topics = frozenset(sizes)
    before = uniform({str(number): MemberSpec(topics) for number in range(members)}, sizes)
    wishes = {str(number): MemberSpec(topics, before.get(str(number), frozenset())) for number in range(changed)}
    after = uniform(wishes, sizes)
    lengths = [len(target) for target in after.values()]
    assert max(lengths) - min(lengths) <= 1
    share = sum(sizes.values()) // changed
    for member, target in after.items():
        kept = target & wishes[member].target
        assert len(kept) >= min(len(wishes[member].target), share)


def test_uniform_levels_what_subscriptions_allow() -> None:
    """Who reads only one topic is not left without because others, who read both, were first."""
    wishes = {
        "x": MemberSpec(frozenset({A, B}), places(A, 0, 1) | places(B, 0, 1)),
        "y": MemberSpec(frozenset({A})),
        "z": MemberSpec(frozenset({A})),
    }
    targets = uniform(wishes, {A: 2, B: 2})
    assert targets == {"x": places(B, 0, 1), "y": places(A, 1), "z": places(A, 0)}


def test_range_gives_runs_in_the_order_of_the_instance_ids() -> None:
    wishes = {
        "x": MemberSpec(frozenset({A, B})),
        "z": MemberSpec(frozenset({A, B}), instance_id="2"),
        "y": MemberSpec(frozenset({A})),
    }
    wishes["w"] = MemberSpec(frozenset({A, B}), instance_id="1")
    assert range_(wishes, {A: 6, B: 4}) == {
        "w": places(A, 0, 1) | places(B, 0, 1),
        "z": places(A, 2, 3) | places(B, 2),
        "x": places(A, 4) | places(B, 3),
        "y": places(A, 5),
    }

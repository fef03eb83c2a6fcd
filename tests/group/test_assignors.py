"""Assignors: `range` and `roundrobin` by tables worked out from Kafka's description, the sticky ones by property."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.consumer import Consumer
from aiokproto.errors import ConfigurationError
from aiokproto.group import assignors
from aiokproto.group.assignors import (
    _BY_NAME,
    Assignment,
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    Subscription,
    make_assignors,
)
from aiokproto.group.assignors.member_data import decode_member_data, encode_member_data
from aiokproto.types import TopicPartition

NAMES = list(_BY_NAME)


def members(**topics: str) -> dict[str, Subscription]:
    """``a="xy"``: member a reads topics x and y."""
    return {name: Subscription(frozenset(wanted)) for name, wanted in topics.items()}


def short(assignment: Assignment) -> dict[str, str]:
    """``{"a": "x0 x1"}``"""
    return {who: " ".join(f"{topic}{number}" for topic, number in given) for who, given in assignment.items()}


@pytest.mark.parametrize(
    ("partitions", "who", "expected"),
    [
        ({}, members(a="x"), {"a": ""}),
        ({"x": 3}, members(a=""), {"a": ""}),
        ({"x": 3}, members(a="x"), {"a": "x0 x1 x2"}),
        ({"x": 3}, members(a="x", b="x"), {"a": "x0 x1", "b": "x2"}),
        ({"x": 3, "y": 3}, members(a="xy", b="xy"), {"a": "x0 x1 y0 y1", "b": "x2 y2"}),
        ({"x": 1}, members(a="x", b="x"), {"a": "x0", "b": ""}),
        ({"x": 2, "y": 2}, members(a="x", b="xy", c="x"), {"a": "x0", "b": "x1 y0 y1", "c": ""}),
        ({"x": 7}, members(c="x", a="x", b="x"), {"a": "x0 x1 x2", "b": "x3 x4", "c": "x5 x6"}),
    ],
)
def test_range(partitions: Mapping[str, int], who: dict[str, Subscription], expected: dict[str, str]) -> None:
    assert short(RangeAssignor().assign(partitions, who)) == expected


@pytest.mark.parametrize(
    ("partitions", "who", "expected"),
    [
        ({}, members(a="x"), {"a": ""}),
        ({"x": 3, "y": 3}, members(a="xy", b="xy"), {"a": "x0 x2 y1", "b": "x1 y0 y2"}),
        # This is the example of unequal subscriptions in Kafka's documentation.
        ({"x": 1, "y": 2, "z": 3}, members(a="x", b="xy", c="xyz"), {"a": "x0", "b": "y0", "c": "y1 z0 z1 z2"}),
        ({"x": 2}, members(b="x", a="x", c="x"), {"a": "x0", "b": "x1", "c": ""}),
        ({"x": 2, "unwanted": 5}, members(a="x"), {"a": "x0 x1"}),
    ],
)
def test_roundrobin(partitions: Mapping[str, int], who: dict[str, Subscription], expected: dict[str, str]) -> None:
    assert short(RoundRobinAssignor().assign(partitions, who)) == expected


def test_static_members_come_first_and_by_their_instance_id() -> None:
    """A restart changes the member id; the assignment must stay."""
    who = {
        "m1": Subscription(frozenset("x")),
        "m2": Subscription(frozenset("x"), group_instance_id="two"),
        "m3": Subscription(frozenset("x"), group_instance_id="one"),
    }
    expected = {"m1": "x2", "m2": "x1", "m3": "x0"}
    assert short(RangeAssignor().assign({"x": 3}, who)) == expected
    assert short(RoundRobinAssignor().assign({"x": 3}, who)) == expected


sizes = st.dictionaries(st.sampled_from("uvwxyz"), st.integers(0, 12), max_size=6)
groups = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3), st.frozensets(st.sampled_from("uvwxyz")), max_size=8
)


def declared_assignors() -> set[str]:
    """Return the names of all assignor classes in the modules of the package."""
    folder = Path(assignors.__file__ or "").parent
    modules = [import_module(f"{assignors.__name__}.{path.stem}") for path in folder.glob("*.py")]
    classes = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    names = {getattr(kind, "name", None) for kind in classes if kind is not Assignor}
    return {name for name in names if isinstance(name, str)}


def test_every_assignor_can_be_named_and_is_documented() -> None:
    """The docstring of `Consumer` is the reference of its options."""
    assert sorted(NAMES) == sorted(declared_assignors())
    option = (Consumer.__doc__ or "").partition("partition_assignment_strategy: ")[2]
    assert [name for name in NAMES if f'``"{name}"``' not in option[:400]] == []


@pytest.mark.parametrize("name", NAMES)
@given(partitions=sizes, topics=groups)
def test_every_partition_goes_to_one_member_that_wants_it(
    name: str, partitions: dict[str, int], topics: dict[str, frozenset[str]]
) -> None:
    [assignor] = make_assignors([name])
    dealt = assignor.assign(partitions, {who: Subscription(wanted) for who, wanted in topics.items()}, {})
    assert dealt.keys() == topics.keys()
    given_out = [(who, partition) for who, given in dealt.items() for partition in given]
    assert all(partition.topic in topics[who] for who, partition in given_out)
    wanted = {topic for wants in topics.values() for topic in wants}
    expected = [TopicPartition(topic, number) for topic in wanted for number in range(partitions.get(topic, 0))]
    assert Counter(partition for _, partition in given_out) == Counter(expected)


def after(
    assignor: StickyAssignor, dealt: Assignment, topics: Mapping[str, frozenset[str]], generation: int
) -> dict[str, Subscription]:
    """The subscriptions in the rebalance after ``dealt``; new members own nothing."""
    return {
        who: Subscription(wanted, encode_member_data(dealt[who], generation) if who in dealt else None)
        for who, wanted in topics.items()
    }


@given(partitions=sizes, first=groups, second=groups)
def test_sticky_is_balanced_so_that_no_single_move_helps(
    partitions: dict[str, int], first: dict[str, frozenset[str]], second: dict[str, frozenset[str]]
) -> None:
    assignor = StickyAssignor()
    dealt = assignor.assign(partitions, after(assignor, {}, first, 1))
    for topics in (first, second):
        dealt = assignor.assign(partitions, after(assignor, dealt, topics, 1))
        load = {who: len(given) for who, given in dealt.items()}
        for who, given_out in dealt.items():
            for partition in given_out:
                assert all(load[who] - load[other] <= 1 for other in topics if partition.topic in topics[other])


@given(partitions=sizes, count=st.integers(1, 8), joining=st.integers(0, 3), leaving=st.integers(0, 3))
def test_sticky_moves_no_more_than_balance_needs(
    partitions: dict[str, int], count: int, joining: int, leaving: int
) -> None:
    """With equal subscriptions, a remaining member keeps as many partitions as its new share allows."""
    everything = frozenset("uvwxyz")
    names = [f"m{number}" for number in range(count + joining)]
    assignor = StickyAssignor()
    before = assignor.assign(partitions, after(assignor, {}, dict.fromkeys(names[:count], everything), 1))
    staying = names[min(leaving, count - 1) :]
    now = assignor.assign(partitions, after(assignor, before, dict.fromkeys(staying, everything), 1))
    sizes_now = [len(given_out) for given_out in now.values()]
    assert max(sizes_now) - min(sizes_now) <= 1
    for who in set(staying) & before.keys():
        kept = len(set(before[who]) & set(now[who]))
        assert kept == min(len(before[who]), len(now[who]))
    again = assignor.assign(partitions, after(assignor, now, dict.fromkeys(staying, everything), 2))
    assert {who: set(given_out) for who, given_out in again.items()} == {who: set(now[who]) for who in staying}


def test_sticky_believes_the_latest_generation() -> None:
    """A member that was away claims partitions that were assigned to others since."""
    x = [TopicPartition("x", number) for number in range(4)]
    who = {
        "back": Subscription(frozenset("x"), encode_member_data(x, 1), generation=1),
        "a": Subscription(frozenset("x"), encode_member_data(x[:2], 2), generation=2),
        "b": Subscription(frozenset("x"), encode_member_data(x[2:], 2), generation=2),
    }
    dealt = StickyAssignor().assign({"x": 4}, who)
    assert set(dealt["a"]) <= set(x[:2])
    assert set(dealt["b"]) <= set(x[2:])
    assert len(dealt["back"]) == 1


@given(partitions=sizes, counts=st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_cooperative_never_assigns_an_owned_partition_and_ends_in_two_rebalances(
    partitions: dict[str, int], counts: list[int]
) -> None:
    assignor = CooperativeStickyAssignor()
    everything = frozenset("uvwxyz")
    owned: Assignment = {}
    generation = 0
    for count in counts:
        for round_number in range(2):
            generation += 1
            names = [f"m{number}" for number in range(count)]
            who = {
                name: Subscription(everything, None, owned.get(name, ()), generation - 1 if name in owned else -1)
                for name in names
            }
            dealt = assignor.assign(partitions, who)
            for name, given_out in dealt.items():
                others = {one for other in names if other != name for one in owned.get(other, ())}
                assert others.isdisjoint(given_out)
            revoked = any(set(owned.get(name, ())) - set(dealt[name]) for name in names)
            owned = dealt
            if not revoked:
                break
            assert round_number == 0, "the second round has nothing to revoke"
        loads = [len(given_out) for given_out in owned.values()]
        assert max(loads) - min(loads) <= 1
        assert sum(loads) == sum(partitions.values())


@given(st.lists(st.builds(TopicPartition, st.text(max_size=5), st.integers(0, 99)), unique=True), st.integers(-1, 99))
def test_owned_partitions_are_decoded_as_encoded(claimed: list[TopicPartition], generation: int) -> None:
    partitions, decoded = decode_member_data(encode_member_data(claimed, generation))
    assert (sorted(partitions), decoded) == (sorted(claimed), generation)


def test_owned_partitions_are_encoded_as_in_java() -> None:
    claimed = [TopicPartition("ab", 1), TopicPartition("ab", 2)]
    data = bytes.fromhex("00000001 0002 6162 00000002 00000001 00000002 00000007")
    assert encode_member_data(claimed, 7) == data
    assert decode_member_data(data[:-4]) == (claimed, -1)


@given(st.binary(max_size=60))
def test_malformed_user_data_claims_no_partitions(data: bytes) -> None:
    claimed, _ = decode_member_data(data)
    assert len(claimed) <= len(data)


def test_invalid_strategies_are_refused() -> None:
    own: Assignor = RangeAssignor()
    assert [one.name for one in make_assignors(["sticky", own])] == ["sticky", "range"]
    with pytest.raises(ConfigurationError, match="'stickie' is unknown"):
        make_assignors(["stickie"])
    with pytest.raises(ConfigurationError, match="one or more different"):
        make_assignors(["range", own])
    with pytest.raises(ConfigurationError, match="one or more different"):
        make_assignors([])

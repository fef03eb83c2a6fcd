"""Members of the classic protocol in consumer groups, and the migration of groups between the protocols."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.broker.groups.classic_group import ClassicGroup
from aiokproto.broker.groups.classic_member import ClassicGroupState, Identity, JoinRequest
from aiokproto.broker.groups.consumer import classic_protocol
from aiokproto.broker.groups.consumer.member import ClassicProtocolMetadata
from aiokproto.broker.groups.consumer.migration import can_downgrade, downgrade, upgrade
from aiokproto.broker.groups.consumer_protocol import decode_assignment, decode_subscription, encode_assignment
from aiokproto.broker.groups.reconciliation import LEAVE_GROUP_MEMBER_EPOCH
from aiokproto.codec.payloads.consumer_protocol import ConsumerProtocolSubscription, TopicPartition
from aiokproto.error_codes import ErrorCode
from tests.broker.consumer_scene import REBALANCE, A, Client, Scene, places, refused

# ---- members of the classic protocol


def metadata(*topics: str, owned: Iterable[tuple[str, int]] = (), version: int = 1) -> bytes:
    subscription = ConsumerProtocolSubscription(
        topics=list(topics),
        owned_partitions=[TopicPartition(topic=topic, partitions=[index]) for topic, index in owned],
    )
    return version.to_bytes(2, "big") + subscription.encode(version)


def classic_join(member_id: str, data: bytes, instance_id: str | None = None, name: str = "cooperative") -> JoinRequest:
    return JoinRequest(member_id, instance_id, "consumer", ((name, data),), 10.0, REBALANCE, "client", "/host", True)


def test_a_classic_member_shares_the_group_with_consumer_members() -> None:
    scene = Scene()
    modern = Client("x")
    scene.join(modern)
    scene.work(modern)
    asked = classic_protocol.join(scene.group, classic_join("", metadata("a")), scene.now)
    assert asked.error is ErrorCode.MEMBER_ID_REQUIRED
    old = asked.member_id
    joined = classic_protocol.join(scene.group, classic_join(old, metadata("a")), scene.now)
    assert (joined.error, joined.generation, joined.protocol, joined.leader) == (0, 3, "cooperative", "")
    synced = classic_protocol.sync(scene.group, Identity(old, 3), "consumer", "cooperative", scene.now)
    assert (synced.error, decode_assignment(synced.assignment)) == (0, set())
    assert classic_protocol.heartbeat(scene.group, Identity(old, 3), scene.now) is ErrorCode.NONE
    scene.work(modern)
    assert classic_protocol.heartbeat(scene.group, Identity(old, 3), scene.now) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = classic_protocol.join(scene.group, classic_join(old, metadata("a")), scene.now)
    synced = classic_protocol.sync(scene.group, Identity(old, joined.generation), None, None, scene.now)
    mine = decode_assignment(synced.assignment)
    assert len(mine) == 2
    assert {(A, index) for _, index in mine}.isdisjoint(modern.owned)
    assert classic_protocol.heartbeat(scene.group, Identity(old, 3), scene.now) is ErrorCode.NONE
    assert not can_downgrade(scene.group)


def test_a_classic_member_that_does_not_rejoin_is_removed() -> None:
    scene = Scene()
    scene.join(Client("x"))
    classic_protocol.join(scene.group, classic_join("old", metadata("a")), scene.now)
    classic_protocol.sync(scene.group, Identity("old", 3), None, None, scene.now)
    scene.join(Client("y"))
    for _ in range(int(REBALANCE / 9)):
        assert classic_protocol.heartbeat(scene.group, Identity("old", 3), scene.now) is ErrorCode.REBALANCE_IN_PROGRESS
        scene.wait(9)
    classic_protocol.heartbeat(scene.group, Identity("old", 3), scene.now)
    scene.wait(REBALANCE % 9 + 1)
    assert "old" not in scene.group.members


@pytest.mark.parametrize("synced", [True, False])
def test_a_classic_member_must_sync_after_joining(synced: bool) -> None:
    """Within its rebalance timeout, whether it sends heartbeats or not; after that only heartbeats are needed."""
    scene = Scene()
    classic_protocol.join(scene.group, classic_join("old", metadata("a")), scene.now)
    identity = Identity("old", scene.group.epoch)
    if synced:
        assert (
            len(decode_assignment(classic_protocol.sync(scene.group, identity, None, None, scene.now).assignment)) == 4
        )
    for _ in range(int(REBALANCE / 9) + 1):
        classic_protocol.heartbeat(scene.group, identity, scene.now)
        scene.wait(9)
    assert ("old" in scene.group.members) is synced


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (classic_join("old", metadata("a"), name="other"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (classic_join("new", b"\0"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (JoinRequest("new", protocol_type="connect", protocols=(("p", b""),)), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (JoinRequest("new"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (classic_join("new", metadata("a"), "nobody"), ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_invalid_classic_joins_are_refused(request_: JoinRequest, error: ErrorCode) -> None:
    scene = Scene()
    scene.join(Client("x"))
    classic_protocol.join(scene.group, classic_join("first", metadata("a")), scene.now)
    assert classic_protocol.join(scene.group, request_, scene.now).error is error


def test_classic_requests_of_consumer_or_unknown_members_are_refused() -> None:
    scene = Scene()
    scene.join(Client("x"))
    classic_protocol.join(scene.group, classic_join("old", metadata("a")), scene.now)
    cases = [
        (Identity("x", 2), ErrorCode.UNKNOWN_MEMBER_ID),
        (Identity("old", 2), ErrorCode.ILLEGAL_GENERATION),
        (Identity("nobody", 2), ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    for identity, error in cases:
        assert classic_protocol.heartbeat(scene.group, identity, scene.now) is error
        assert classic_protocol.sync(scene.group, identity, None, None, scene.now).error is error
    wrong = classic_protocol.sync(scene.group, Identity("old", 3), "consumer", "other", scene.now)
    assert wrong.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert classic_protocol.leave(scene.group, "x", None) is ErrorCode.UNKNOWN_MEMBER_ID
    assert classic_protocol.leave(scene.group, "old", None) is ErrorCode.NONE


def stable_classic_group(now: float) -> ClassicGroup:
    """Two members: the first has all partitions of topic a, and the second has its last partition as well."""
    ids = count()
    group = ClassicGroup("g", now, make_id=lambda prefix: f"m{next(ids)}")
    group.join("j0", classic_join("", metadata("a"), "i0"), now)
    assert len(group.drain()) == 1
    group.join("j1", classic_join("", metadata("a"), "i1"), now)
    group.join("j0", classic_join("m0", metadata("a"), "i0"), now)
    assert len(group.drain()) == 2
    assignments = {
        "m0": encode_assignment([("a", index) for index in range(4)], 1),
        "m1": encode_assignment([("a", 3)], 1),
    }
    group.sync("s0", Identity("m0", 2, "i0"), assignments, now)
    group.sync("s1", Identity("m1", 2, "i1"), {}, now)
    assert group.state is ClassicGroupState.STABLE
    group.drain()
    return group


def test_a_classic_group_becomes_a_consumer_group_and_back() -> None:
    scene = Scene()
    scene.group = upgrade(stable_classic_group(scene.now), scene.topics, scene.settings, scene.now)
    assert (scene.group.epoch, scene.group.state) == (2, "Stable")
    assert scene.group.members["m0"].assigned.keys() == places(A, 0, 1, 2, 3)
    assert scene.group.members["m1"].assigned == {}, "a partition has one owner"
    modern = Client("x")
    scene.join(modern)
    assert (
        classic_protocol.heartbeat(scene.group, Identity("m0", 2, "i0"), scene.now) is ErrorCode.REBALANCE_IN_PROGRESS
    )
    assert not can_downgrade(scene.group)
    scene.group.leave("x", None, LEAVE_GROUP_MEMBER_EPOCH)
    assert can_downgrade(scene.group)
    into = ClassicGroup("g", scene.now)
    downgrade(scene.group, into, scene.now)
    assert (into.state, into.generation, into.protocol, into.protocol_type) == (
        ClassicGroupState.STABLE,
        scene.group.epoch,
        "cooperative",
        "consumer",
    )
    into.rebalance(scene.now)
    assert into.heartbeat(Identity("m0", into.generation, "i0"), scene.now) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_changes_from_the_classic_to_the_consumer_protocol() -> None:
    """It joins with its instance id, and gets the assignment of the member it replaces, which is fenced."""
    scene = Scene()
    scene.group = upgrade(stable_classic_group(scene.now), scene.topics, scene.settings, scene.now)
    modern = Client("x", instance_id="i0")
    assert scene.join(modern).assigned == places(A, 0, 1)
    assert classic_protocol.heartbeat(scene.group, Identity("m0", 2, "i0"), scene.now) is ErrorCode.FENCED_INSTANCE_ID
    assert scene.group.members["x"].classic is None


@given(st.sets(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 9))), st.integers(0, 5))
def test_an_assignment_round_trips(assigned: set[tuple[str, int]], version: int) -> None:
    assert decode_assignment(encode_assignment(assigned, version)) == assigned


@pytest.mark.parametrize("data", [b"\0", b"\0\1\xff\xff\xff", b"\0\0\0\0\0\1"])
def test_malformed_subscriptions_and_assignments_raise(data: bytes) -> None:
    for read in (decode_subscription, decode_assignment):
        with refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
            read(data)


def test_classic_protocol_metadata_survives_in_the_records() -> None:
    scene = Scene()
    scene.join(Client("x"))
    classic_protocol.join(scene.group, classic_join("old", metadata("a")), scene.now)
    scene.restart()
    assert scene.group.members["old"].classic == ClassicProtocolMetadata(10.0, (("cooperative", metadata("a")),))

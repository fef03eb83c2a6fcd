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
from tests.broker.consumer_harness import Client, Harness
from tests.broker.epoch_harness import REBALANCE, A, partition_ids, refused

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
    harness = Harness()
    modern = Client("x")
    harness.join(modern)
    harness.work(modern)
    joined = classic_protocol.join(harness.group, classic_join("", metadata("a")), harness.now)
    assert joined.error is ErrorCode.MEMBER_ID_REQUIRED
    old = joined.member_id
    joined = classic_protocol.join(harness.group, classic_join(old, metadata("a")), harness.now)
    assert (joined.error, joined.generation, joined.protocol, joined.leader) == (0, 3, "cooperative", "")
    synced = classic_protocol.sync(harness.group, Identity(old, 3), "consumer", "cooperative", harness.now)
    assert (synced.error, decode_assignment(synced.assignment)) == (0, set())
    assert classic_protocol.heartbeat(harness.group, Identity(old, 3), harness.now) is ErrorCode.NONE
    harness.work(modern)
    assert classic_protocol.heartbeat(harness.group, Identity(old, 3), harness.now) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = classic_protocol.join(harness.group, classic_join(old, metadata("a")), harness.now)
    synced = classic_protocol.sync(harness.group, Identity(old, joined.generation), None, None, harness.now)
    mine = decode_assignment(synced.assignment)
    assert len(mine) == 2
    assert {(A, index) for _, index in mine}.isdisjoint(modern.owned)
    assert classic_protocol.heartbeat(harness.group, Identity(old, 3), harness.now) is ErrorCode.NONE
    assert not can_downgrade(harness.group)


def test_a_classic_member_that_does_not_rejoin_is_removed() -> None:
    harness = Harness()
    harness.join(Client("x"))
    classic_protocol.join(harness.group, classic_join("old", metadata("a")), harness.now)
    classic_protocol.sync(harness.group, Identity("old", 3), None, None, harness.now)
    harness.join(Client("y"))
    for _ in range(int(REBALANCE / 9)):
        error = classic_protocol.heartbeat(harness.group, Identity("old", 3), harness.now)
        assert error is ErrorCode.REBALANCE_IN_PROGRESS
        harness.wait(9)
    classic_protocol.heartbeat(harness.group, Identity("old", 3), harness.now)
    harness.wait(REBALANCE % 9 + 1)
    assert "old" not in harness.group.members


@pytest.mark.parametrize("synced", [True, False])
def test_a_classic_member_must_sync_after_joining(synced: bool) -> None:
    """It must sync within its rebalance timeout, whether it sends heartbeats or not. After that it needs only
    heartbeats."""
    harness = Harness()
    classic_protocol.join(harness.group, classic_join("old", metadata("a")), harness.now)
    identity = Identity("old", harness.group.epoch)
    if synced:
        synced_assignment = classic_protocol.sync(harness.group, identity, None, None, harness.now).assignment
        assert len(decode_assignment(synced_assignment)) == 4
    for _ in range(int(REBALANCE / 9) + 1):
        classic_protocol.heartbeat(harness.group, identity, harness.now)
        harness.wait(9)
    assert ("old" in harness.group.members) is synced


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (classic_join("old", metadata("a"), name="other"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (classic_join("new", b"\0"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (JoinRequest("new", protocol_type="connect", protocols=(("p", b""),)), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (JoinRequest("new"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (classic_join("new", metadata("a"), "unknown"), ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_invalid_classic_joins_are_refused(request_: JoinRequest, error: ErrorCode) -> None:
    harness = Harness()
    harness.join(Client("x"))
    classic_protocol.join(harness.group, classic_join("first", metadata("a")), harness.now)
    assert classic_protocol.join(harness.group, request_, harness.now).error is error


def test_classic_requests_of_consumer_or_unknown_members_are_refused() -> None:
    harness = Harness()
    harness.join(Client("x"))
    classic_protocol.join(harness.group, classic_join("old", metadata("a")), harness.now)
    cases = [
        (Identity("x", 2), ErrorCode.UNKNOWN_MEMBER_ID),
        (Identity("old", 2), ErrorCode.ILLEGAL_GENERATION),
        (Identity("unknown", 2), ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    for identity, error in cases:
        assert classic_protocol.heartbeat(harness.group, identity, harness.now) is error
        assert classic_protocol.sync(harness.group, identity, None, None, harness.now).error is error
    wrong = classic_protocol.sync(harness.group, Identity("old", 3), "consumer", "other", harness.now)
    assert wrong.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert classic_protocol.leave(harness.group, "x", None) is ErrorCode.UNKNOWN_MEMBER_ID
    assert classic_protocol.leave(harness.group, "old", None) is ErrorCode.NONE


def stable_classic_group(now: float) -> ClassicGroup:
    """Return a group with two members: the first has all partitions of topic a, and the second has its last partition
    as well."""
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
    harness = Harness()
    harness.group = upgrade(stable_classic_group(harness.now), harness.topics, harness.settings, harness.now)
    assert (harness.group.epoch, harness.group.state) == (2, "Stable")
    assert harness.group.members["m0"].assigned.keys() == partition_ids(A, 0, 1, 2, 3)
    assert harness.group.members["m1"].assigned == {}, "a partition has one owner"
    modern = Client("x")
    harness.join(modern)
    error = classic_protocol.heartbeat(harness.group, Identity("m0", 2, "i0"), harness.now)
    assert error is ErrorCode.REBALANCE_IN_PROGRESS
    assert not can_downgrade(harness.group)
    harness.group.leave("x", None, LEAVE_GROUP_MEMBER_EPOCH)
    assert can_downgrade(harness.group)
    into = ClassicGroup("g", harness.now)
    downgrade(harness.group, into, 7, harness.now)
    assert (into.state, into.generation, into.protocol, into.protocol_type) == (
        ClassicGroupState.STABLE,
        7,
        "cooperative",
        "consumer",
    )
    into.rebalance(harness.now)
    assert into.heartbeat(Identity("m0", into.generation, "i0"), harness.now) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_changes_from_the_classic_to_the_consumer_protocol() -> None:
    """It joins with its instance id, and gets the assignment of the member that it replaces, which is fenced."""
    harness = Harness()
    harness.group = upgrade(stable_classic_group(harness.now), harness.topics, harness.settings, harness.now)
    modern = Client("x", instance_id="i0")
    assert harness.join(modern).assigned == partition_ids(A, 0, 1)
    error = classic_protocol.heartbeat(harness.group, Identity("m0", 2, "i0"), harness.now)
    assert error is ErrorCode.FENCED_INSTANCE_ID
    assert harness.group.members["x"].classic is None


@given(st.sets(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 9))), st.integers(0, 5))
def test_an_assignment_round_trips(assigned: set[tuple[str, int]], version: int) -> None:
    assert decode_assignment(encode_assignment(assigned, version)) == assigned


@pytest.mark.parametrize("data", [b"\0", b"\0\1\xff\xff\xff", b"\0\0\0\0\0\1"])
def test_malformed_subscriptions_and_assignments_raise(data: bytes) -> None:
    for read in (decode_subscription, decode_assignment):
        with refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
            read(data)


def test_classic_protocol_metadata_survives_in_the_records() -> None:
    harness = Harness()
    harness.join(Client("x"))
    classic_protocol.join(harness.group, classic_join("old", metadata("a")), harness.now)
    harness.restart()
    assert harness.group.members["old"].classic == ClassicProtocolMetadata(10.0, (("cooperative", metadata("a")),))

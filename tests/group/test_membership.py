"""The member's state machine: every response in every phase."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import DecodeError
from aiokproto.failures import Action, Situation, classify
from aiokproto.group.membership import Membership, Phase
from aiokproto.group.protocol import decode_assignment, decode_subscription, encode_assignment, encode_subscription
from aiokproto.types import TopicPartition


def answer(code: int = 0, member_id: str = "me", leader: str = "me", generation: int = 1) -> JoinGroupResponse:
    members = [JoinGroupResponseMember(member_id=member_id, metadata=b"said")]
    return JoinGroupResponse(
        error_code=code,
        generation_id=generation,
        protocol_name="range",
        leader=leader,
        member_id=member_id,
        members=members,
    )


HEARTBEAT, OFFSET_COMMIT = HeartbeatRequest.api_key, OffsetCommitRequest.api_key


def joining(instance_id: str | None = None) -> Membership:
    """A member of generation 1 that joins the next."""
    member = stable(instance_id)
    member.join({"range": b""}, "test")
    assert member.phase is Phase.JOINING
    return member


def syncing() -> Membership:
    member = Membership("g", None, 45.0, 300.0)
    member.join({"range": b""}, "test")
    assert member.joined(answer()) is Action.ACCEPT
    assert member.phase is Phase.SYNCING
    return member


def stable(instance_id: str | None = None) -> Membership:
    member = Membership("g", instance_id, 45.0, 300.0)
    member.join({"range": b""}, "test")
    assert member.joined(answer()) is Action.ACCEPT
    assert member.synced(0) is Action.ACCEPT
    assert member.phase is Phase.STABLE
    return member


def test_joining_and_syncing() -> None:
    member = Membership("g", None, 45.0, 300.0)
    request = member.join({"range": b"said"}, "first join")
    assert (request.member_id, request.session_timeout_ms, request.rebalance_timeout_ms) == ("", 45_000, 300_000)
    # The coordinator assigns the member id first (KIP-394); the member joins again with it.
    assert member.joined(answer(ErrorCode.MEMBER_ID_REQUIRED)) is Action.REJOIN
    assert member.join({"range": b"said"}, "first join").member_id == "me"
    assert member.joined(answer()) is Action.ACCEPT
    assert (member.phase, member.leads, member.generation) == (Phase.SYNCING, True, 1)
    assert member.members == {"me": (None, b"said")}
    request_sync = member.sync({"me": b"part"})
    assert (request_sync.generation_id, request_sync.protocol_name) == (1, "range")
    assert member.synced(0) is Action.ACCEPT


MEANINGS = [
    (ErrorCode.REBALANCE_IN_PROGRESS, Action.REJOIN, "me", 1),
    (ErrorCode.NOT_COORDINATOR, Action.FIND_COORDINATOR, "me", 1),
    (ErrorCode.COORDINATOR_NOT_AVAILABLE, Action.FIND_COORDINATOR, "me", 1),
    (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Action.BACKOFF, "me", 1),
    (ErrorCode.ILLEGAL_GENERATION, Action.REJOIN_LOST, "me", -1),
    (ErrorCode.UNKNOWN_MEMBER_ID, Action.REJOIN_AS_NEW, "", -1),
    (ErrorCode.FENCED_INSTANCE_ID, Action.STOP, "me", 1),
    (ErrorCode.GROUP_AUTHORIZATION_FAILED, Action.STOP, "me", 1),
    (ErrorCode.INVALID_SESSION_TIMEOUT, Action.STOP, "me", 1),
    (ErrorCode.GROUP_MAX_SIZE_REACHED, Action.STOP, "me", 1),
]


@pytest.mark.parametrize(("code", "action", "member_id", "generation"), MEANINGS)
def test_how_each_error_changes_the_member(code: ErrorCode, action: Action, member_id: str, generation: int) -> None:
    joins, syncs, beats = joining(), syncing(), stable()
    assert joins.joined(answer(code)) is action
    assert syncs.synced(code) is action
    assert beats.responded(code, 1, HEARTBEAT) is action
    for member in (joins, syncs, beats):
        assert (member.member_id, member.generation) == (member_id, generation)
        assert (member.phase is Phase.UNJOINED) == (generation == -1)


def test_a_group_that_has_chosen_another_assignor_since_the_join_is_joined_again() -> None:
    """A consumer group that becomes a classic one in between chooses one that all members have."""
    syncs, joins = syncing(), joining()
    assert syncs.synced(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) is Action.REJOIN
    assert (syncs.member_id, syncs.generation) == ("me", 1)
    assert joins.joined(answer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)) is Action.STOP


@pytest.mark.parametrize("code", [ErrorCode.NONE, *(code for code, *_ in MEANINGS)])
@pytest.mark.parametrize("make", [joining, syncing, stable])
@pytest.mark.parametrize("generation", [0, 1])
@pytest.mark.parametrize("api", [HEARTBEAT, OFFSET_COMMIT])
def test_a_heartbeat_or_commit_response_counts_only_in_its_own_stable_generation(
    code: ErrorCode, make: Callable[[], Membership], generation: int, api: int
) -> None:
    member = make()
    before = replace(member)
    action = member.responded(code, generation, api)
    if make is stable and generation == 1:
        assert action is classify(code, Situation(api, member=True))
    else:
        assert action is Action.ACCEPT
        assert member == before


def test_a_response_from_before_a_rebalance_does_not_end_the_new_generation() -> None:
    member = joining()
    assert member.joined(answer(generation=2)) is Action.ACCEPT
    assert member.synced(0) is Action.ACCEPT
    assert member.responded(ErrorCode.ILLEGAL_GENERATION, 1, HEARTBEAT) is Action.ACCEPT
    assert member.generation == 2


def test_leaving() -> None:
    request = stable().leave("done")
    assert request is not None
    assert [(one.member_id, one.reason) for one in request.members] == [("me", "done")]
    assert stable("static").leave("done") is None
    member = stable()
    member.forget()
    assert member.leave("again") is None


def test_subscriptions_are_decoded_as_encoded() -> None:
    owned = [TopicPartition("a", 1), TopicPartition("a", 3), TopicPartition("b", 0)]
    data = encode_subscription({"b", "a"}, b"data", owned, 7, "rack")
    said = decode_subscription(data, "instance")
    assert (said.topics, said.user_data, said.owned_partitions) == (frozenset("ab"), b"data", owned)
    assert (said.generation, said.rack_id, said.group_instance_id) == (7, "rack", "instance")
    # A later version only adds to the end.
    assert decode_subscription(b"\x00\x09" + data[2:] + b"more", "instance") == said


def test_assignments_are_decoded_as_encoded() -> None:
    given = [TopicPartition("a", 1), TopicPartition("b", 0)]
    assert decode_assignment(encode_assignment(given)) == given
    assert decode_assignment(b"") == []
    for damaged in (b"\x00", b"\xff\xff", b"\x00\x00\x7f\xff\xff\xff"):
        with pytest.raises(DecodeError):
            decode_assignment(damaged)

"""The member's state machine: each row of its table."""

from __future__ import annotations

import pytest

from aiokproto.codec.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import DecodeError
from aiokproto.group.membership import Membership, Phase, Verdict, verdict
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


def stable(instance_id: str | None = None) -> Membership:
    member = Membership("g", instance_id, 45.0, 300.0)
    member.join({"range": b""}, "test")
    assert member.joined(answer()) is Verdict.PROCEED
    assert member.synced(0) is Verdict.PROCEED
    assert member.phase is Phase.STABLE
    return member


def test_the_way_in() -> None:
    member = Membership("g", None, 45.0, 300.0)
    request = member.join({"range": b"said"}, "first join")
    assert (request.member_id, request.session_timeout_ms, request.rebalance_timeout_ms) == ("", 45_000, 300_000)
    # The coordinator names the member first (KIP-394), and is asked again under that name.
    assert member.joined(answer(ErrorCode.MEMBER_ID_REQUIRED)) is Verdict.REJOIN
    assert member.join({"range": b"said"}, "first join").member_id == "me"
    assert member.joined(answer()) is Verdict.PROCEED
    assert (member.phase, member.leads, member.generation) == (Phase.SYNCING, True, 1)
    assert member.members == {"me": (None, b"said")}
    request_sync = member.sync({"me": b"part"})
    assert (request_sync.generation_id, request_sync.protocol_name) == (1, "range")
    assert member.synced(0) is Verdict.PROCEED


@pytest.mark.parametrize(
    ("code", "judged", "member_id", "generation"),
    [
        (ErrorCode.NONE, Verdict.PROCEED, "me", 1),
        (ErrorCode.REBALANCE_IN_PROGRESS, Verdict.REJOIN, "me", 1),
        (ErrorCode.NOT_COORDINATOR, Verdict.FIND_COORDINATOR, "me", 1),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Verdict.FIND_COORDINATOR, "me", 1),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Verdict.RETRY, "me", 1),
        (ErrorCode.ILLEGAL_GENERATION, Verdict.LOST, "me", -1),
        (ErrorCode.UNKNOWN_MEMBER_ID, Verdict.LOST, "", -1),
        (ErrorCode.FENCED_INSTANCE_ID, Verdict.FATAL, "me", 1),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, Verdict.FATAL, "me", 1),
    ],
)
def test_what_an_answer_makes_of_a_member(code: ErrorCode, judged: Verdict, member_id: str, generation: int) -> None:
    beating, syncing = stable(), stable()
    assert beating.beaten(code, 1) is judged
    assert syncing.synced(code) is judged
    for member in (beating, syncing):
        assert (member.member_id, member.generation) == (member_id, generation)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ],
)
def test_refusals_are_final(code: ErrorCode) -> None:
    assert verdict(code) is Verdict.FATAL


def test_an_answer_to_an_earlier_generation_says_nothing() -> None:
    """A heartbeat overtaken by a rebalance must not throw the member out of the new generation."""
    member = stable()
    assert member.joined(answer(generation=2)) is Verdict.PROCEED
    assert member.beaten(ErrorCode.ILLEGAL_GENERATION, 1) is Verdict.PROCEED
    assert member.generation == 2


def test_leaving() -> None:
    request = stable().leave("done")
    assert request is not None
    assert [(one.member_id, one.reason) for one in request.members] == [("me", "done")]
    assert stable("static").leave("done") is None
    member = stable()
    member.forget()
    assert member.leave("again") is None


def test_subscriptions_survive_the_wire() -> None:
    owned = [TopicPartition("a", 1), TopicPartition("a", 3), TopicPartition("b", 0)]
    data = encode_subscription({"b", "a"}, b"data", owned, 7, "rack")
    said = decode_subscription(data, "instance")
    assert (said.topics, said.user_data, said.owned_partitions) == (frozenset("ab"), b"data", owned)
    assert (said.generation, said.rack_id, said.group_instance_id) == (7, "rack", "instance")
    # A later version only adds to the end.
    assert decode_subscription(b"\x00\x09" + data[2:] + b"more", "instance") == said


def test_assignments_survive_the_wire() -> None:
    given = [TopicPartition("a", 1), TopicPartition("b", 0)]
    assert decode_assignment(encode_assignment(given)) == given
    assert decode_assignment(b"") == []
    for damaged in (b"\x00", b"\xff\xff", b"\x00\x00\x7f\xff\xff\xff"):
        with pytest.raises(DecodeError):
            decode_assignment(damaged)

"""The membership loop: the changes it passes to the owner, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import pytest

from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.messages.join_group import JoinGroupRequest, JoinGroupResponse
from aiokproto.codec.messages.leave_group import LeaveGroupRequest
from aiokproto.codec.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    AuthorizationError,
    BrokerConnectionError,
    DecodeError,
    FencedError,
    GroupError,
    KafkaError,
)
from aiokproto.group.assignors import Assignor, make_assignors
from aiokproto.group.changes import ChangeKind
from aiokproto.group.classic_member import ClassicMember
from aiokproto.group.config import GroupConfig
from aiokproto.group.protocol import decode_subscription
from aiokproto.runtime.timeouts import timeout
from aiokproto.simulation import Simulation
from tests.group.fake import CONFIG, FakeCluster, FakeOwner, partitions, run
from tests.group.harness import MemberHarness, running

ALL = partitions("t", 0, 1)


class Harness(MemberHarness):
    """The only member of a classic group."""

    heartbeats = HeartbeatRequest
    member: ClassicMember

    def __init__(self, assignors: Sequence[Assignor], config: GroupConfig) -> None:
        cluster: Any = FakeCluster(t=2, u=1)
        self.group, self.owner = cluster.group, FakeOwner()
        super().__init__(cluster, ClassicMember(cluster, config, assignors, self.owner))


def harness(*strategies: str, config: GroupConfig = CONFIG) -> AbstractAsyncContextManager[Harness]:
    return running(Harness(make_assignors(strategies or ("range",)), config))


def test_a_member_joins_when_it_has_a_subscription_and_leaves_without_one() -> None:
    async def program() -> None:
        async with harness() as it:
            await asyncio.sleep(1)
            assert it.member.outside
            assert it.cluster.sent(JoinGroupRequest) == []
            await it.subscribe("t")
            assert it.owner.changes == [("LEFT", []), ("ASSIGN", ALL)]
            assert (it.member.owned, it.member.outside) == (set(ALL), False)
            await it.subscribe()
            assert it.owner.changes[2:] == [("REVOKE", ALL), ("LEFT", [])]
            assert it.member.outside
            assert len(it.cluster.sent(LeaveGroupRequest)) == 1

    run(program())


def test_an_eager_member_revokes_all_partitions_before_it_joins_again() -> None:
    async def program() -> None:
        async with harness("range") as it:
            await it.subscribe("t")
            it.group.rebalancing = True
            await asyncio.sleep(4)
            assert it.owner.changes[1:] == [("ASSIGN", ALL), ("REVOKE", ALL), ("ASSIGN", ALL)]

    run(program())


def test_a_cooperative_member_revokes_only_the_partitions_it_loses_and_then_joins_again() -> None:
    async def program() -> None:
        async with harness("cooperative-sticky") as it:
            await it.subscribe("t", "u")
            it.group.rebalancing = True
            await asyncio.sleep(4)
            assert it.owner.changes[1:] == [("ASSIGN", [*ALL, *partitions("u", 0)]), ("ASSIGN", [])]
            joined = len(it.cluster.sent(JoinGroupRequest))
            await it.subscribe("t")
            assert it.owner.changes[3:] == [("REVOKE", partitions("u", 0)), ("ASSIGN", [])]
            assert len(it.cluster.sent(JoinGroupRequest)) == joined + 1

    run(program())


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_removed_member_loses_all_partitions_and_joins_again(strategy: str) -> None:
    async def program() -> None:
        async with harness(strategy) as it:
            await it.subscribe("t")
            it.group.remove()
            await asyncio.sleep(4)
            assert it.owner.changes[1:] == [("ASSIGN", ALL), ("LOST", ALL), ("ASSIGN", ALL)]
            assert it.owner.losses == 1

    run(program())


def test_a_member_removed_while_it_revokes_partitions_does_not_also_lose_them() -> None:
    async def program() -> None:
        async with harness("range") as it:
            await it.subscribe("t")
            it.owner.takes[ChangeKind.REVOKE] = 10.0
            it.group.rebalancing = True
            await asyncio.sleep(4)
            it.group.remove()
            await asyncio.sleep(4)
            assert it.owner.losses == 1
            assert it.member.removed
            await asyncio.sleep(10)
            assert it.owner.changes[1:] == [("ASSIGN", ALL), ("REVOKE", ALL), ("ASSIGN", ALL)]

    run(program())


@pytest.mark.parametrize("held", [JoinGroupRequest, SyncGroupRequest])
@pytest.mark.parametrize("why", ["unsubscribed", "away"])
def test_a_member_stops_joining_when_there_is_nothing_to_join_for(held: type, why: str) -> None:
    async def program() -> None:
        async with harness("range") as it:
            await it.subscribe("t")
            it.cluster.next[held] = [None]
            it.group.rebalancing = True
            await asyncio.sleep(4)
            assert it.owner.kinds[1:] == ["ASSIGN", "REVOKE"], "the coordinator delays its response"
            if why == "away":
                it.member.leave_on_poll_timeout("the application does not poll")
            else:
                it.member.set_topics(())
            await asyncio.sleep(1)
            assert it.owner.kinds[3:] == ["LEFT"]
            assert len(it.cluster.sent(LeaveGroupRequest)) == 1
            if why == "away":
                it.member.rejoin()
                await asyncio.sleep(1)
                assert it.owner.kinds[4:] == ["ASSIGN"]

    run(program())


@pytest.mark.parametrize(
    ("api", "failure", "forgotten"),
    [
        (JoinGroupRequest, ErrorCode.NOT_COORDINATOR, 1),
        (JoinGroupRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0),
        (JoinGroupRequest, ErrorCode.UNKNOWN_SERVER_ERROR, 0),
        (JoinGroupRequest, ErrorCode.UNKNOWN_MEMBER_ID, 0),
        (JoinGroupRequest, BrokerConnectionError("lost"), 1),
        (SyncGroupRequest, ErrorCode.REBALANCE_IN_PROGRESS, 0),
        (SyncGroupRequest, ErrorCode.ILLEGAL_GENERATION, 0),
        (SyncGroupRequest, BrokerConnectionError("lost"), 1),
        (JoinGroupRequest, DecodeError("broken"), 0),
        (SyncGroupRequest, DecodeError("broken"), 0),
    ],
    ids=str,
)
def test_joining_is_retried_after_retriable_errors(api: type, failure: object, forgotten: int) -> None:
    async def program() -> None:
        async with harness() as it:
            it.cluster.next[api] = [failure]
            await it.subscribe("t")
            assert it.owner.changes[-1] == ("ASSIGN", ALL)
            assert it.cluster.forgotten == forgotten

    run(program())


def test_repeated_error_responses_are_retried_with_a_pause() -> None:
    async def program() -> None:
        async with harness() as it:
            it.cluster.next[JoinGroupRequest] = [ErrorCode.REBALANCE_IN_PROGRESS] * 1000
            await it.subscribe("t")
            assert len(it.cluster.sent(JoinGroupRequest)) < 10

    run(program())


@pytest.mark.parametrize(
    ("api", "failure", "error"),
    [
        (JoinGroupRequest, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, GroupError),
        (JoinGroupRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED, AuthorizationError),
        (SyncGroupRequest, ErrorCode.FENCED_INSTANCE_ID, FencedError),
        (HeartbeatRequest, ErrorCode.FENCED_INSTANCE_ID, FencedError),
        (HeartbeatRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED, AuthorizationError),
    ],
    ids=str,
)
def test_a_final_error_ends_the_member(api: type, failure: object, error: type[KafkaError]) -> None:
    async def program() -> None:
        async with harness() as it:
            it.cluster.next[api] = [failure]
            await it.subscribe("t")
            with pytest.raises(error):
                await asyncio.wait_for(it.task, 10)

    run(program())


def test_a_member_joins_again_when_the_group_agrees_on_an_assignor_that_it_has_not_offered() -> None:
    async def program() -> None:
        def agree(request: JoinGroupRequest) -> JoinGroupResponse:
            return JoinGroupResponse(
                protocol_name="theirs", member_id=request.member_id, leader="other", generation_id=1
            )

        async with harness() as it:
            it.cluster.next[JoinGroupRequest] = [it.group.answer] + [agree] * 20
            await it.subscribe("t")
            assert "agreed on the assignor 'theirs'" in it.member.problem
            assert 2 < len(it.cluster.sent(JoinGroupRequest)) < 10
            it.cluster.next[JoinGroupRequest] = []
            await asyncio.sleep(3)
            assert it.owner.changes[-1] == ("ASSIGN", ALL)

    run(program())


def test_a_heartbeat_response_that_cannot_be_decoded_is_requested_again() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.cluster.next[HeartbeatRequest] = [DecodeError("broken")]
            await asyncio.sleep(4)
            assert len(it.cluster.sent(HeartbeatRequest)) >= 2
            assert it.owner.kinds == ["LEFT", "ASSIGN"]

    run(program())


# Assignments that cannot be decoded


def unreadable(it: Harness) -> Callable[[SyncGroupRequest], SyncGroupResponse]:
    """Return a response that is right except for the assignment."""

    def answer(request: SyncGroupRequest) -> SyncGroupResponse:
        response: SyncGroupResponse = it.group.answer(request)
        response.assignment = response.assignment[:3]
        return response

    return answer


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_member_joins_again_after_a_pause_when_its_assignment_cannot_be_decoded(
    strategy: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def program() -> None:
        async with harness(strategy) as it:
            it.cluster.next[SyncGroupRequest] = [unreadable(it)] * 100
            await it.subscribe("t")
            assert it.member.problem.startswith("stable in group 'g': the assignment of member member-1 cannot be")
            await asyncio.sleep(120)
            # Each generation stops the whole group.
            assert 5 <= len(it.cluster.sent(SyncGroupRequest)) <= 12
            assert it.owner.kinds == ["LEFT"]
            it.cluster.next[SyncGroupRequest] = []
            await asyncio.sleep(36)
            assert it.owner.changes[1:] == [("ASSIGN", ALL)]
            assert it.member.problem == ""

    run(program())
    first = caplog.messages[0]
    assert first.startswith(
        "group g: generation 1: the assignment of member member-1 cannot be decoded: consumer protocol"
    )
    assert "joins the next one in 0." in first


def test_a_cooperative_member_keeps_its_partitions_when_a_later_assignment_cannot_be_decoded() -> None:
    async def program() -> None:
        async with harness("cooperative-sticky") as it:
            await it.subscribe("t")
            it.group.rebalancing = True
            it.cluster.next[SyncGroupRequest] = [unreadable(it)]
            await asyncio.sleep(8)
            assert it.group.generation == 3
            assert it.owner.changes[1:] == [("ASSIGN", ALL), ("ASSIGN", [])]

    run(program())


@pytest.mark.parametrize("event", ["rebalance", "removal", "unsubscribed"])
def test_the_pause_after_an_assignment_that_cannot_be_decoded_ends_with_what_comes_first(event: str) -> None:
    async def program() -> None:
        async with harness("cooperative-sticky") as it:
            await it.subscribe("t")
            it.group.rebalancing = True
            it.cluster.next[SyncGroupRequest] = [unreadable(it)] * 6
            # The next pause would last 16 s.
            async with timeout(60):
                while len(it.cluster.sent(SyncGroupRequest)) < 7:
                    await asyncio.sleep(0.1)
            if event == "rebalance":
                it.group.rebalancing = True
            elif event == "removal":
                it.group.remove()
            else:
                it.member.set_topics(())
            await asyncio.sleep(4)
            last = {
                "rebalance": [("ASSIGN", [])],
                "removal": [("LOST", ALL), ("ASSIGN", ALL)],
                "unsubscribed": [("REVOKE", ALL), ("LEFT", [])],
            }
            assert it.owner.changes[2:] == last[event]

    run(program())


def test_a_static_member_stays_when_it_stops() -> None:
    async def program() -> None:
        async with harness(config=replace(CONFIG, group_instance_id="static")) as it:
            await it.subscribe("t")
            await it.member.leave("closed")
            assert it.cluster.sent(LeaveGroupRequest) == []
            assert it.member.owned == set()

    run(program())


def test_leaving_ends_at_its_deadline_without_a_response() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.task.cancel()
            it.cluster.next[LeaveGroupRequest] = [None]
            began = asyncio.get_running_loop().time()
            await it.member.leave("closed", 2.0)
            assert asyncio.get_running_loop().time() - began <= 2.1

    run(program())


def test_a_cooperative_member_that_cannot_reach_its_coordinator_to_join_is_unconfirmed() -> None:
    async def program() -> None:
        async with harness("cooperative-sticky") as it:
            await it.subscribe("t")
            it.cluster.next[JoinGroupRequest] = [BrokerConnectionError("lost")] * 1000
            it.group.rebalancing = True
            await asyncio.sleep(30)
            assert it.owner.sessions == [], "heartbeats keep the session"
            it.cluster.next[HeartbeatRequest] = [BrokerConnectionError("lost")] * 1000
            await asyncio.sleep(15)
            assert it.owner.sessions == [False]
            it.cluster.next[JoinGroupRequest].clear()
            it.cluster.next[HeartbeatRequest].clear()
            await asyncio.sleep(60)
            assert it.owner.sessions == [False, True]
            assert it.owner.kinds[1:] == ["ASSIGN", "ASSIGN"]

    run(program())


def test_a_rebalance_that_takes_long_keeps_the_session() -> None:
    async def program() -> None:
        async with harness("cooperative-sticky") as it:
            await it.subscribe("t")

            async def hold(request: JoinGroupRequest) -> JoinGroupResponse:
                await asyncio.sleep(40)
                response = it.group.answer(request)
                assert isinstance(response, JoinGroupResponse)
                return response

            it.cluster.next[JoinGroupRequest] = [hold]
            it.group.rebalancing = True
            await asyncio.sleep(60)
            assert it.owner.sessions == []
            assert it.owner.kinds[1:] == ["ASSIGN", "ASSIGN"]

    run(program())


def test_an_assignment_that_a_rebalance_has_overtaken_is_dropped() -> None:
    """The group goes on to another generation while a thread computes: the member joins that one."""
    simulation = Simulation(1)

    async def program() -> None:
        async with harness("sticky") as it:
            simulation.threads.hold()
            await it.subscribe("t")
            assert it.cluster.sent(SyncGroupRequest) == []
            it.group.generation += 1
            simulation.threads.release()
            await asyncio.sleep(4)
            generations = [request.generation_id for request in it.cluster.sent(SyncGroupRequest)]
            assert generations == [1, it.group.generation]
            assert it.owner.changes == [("LEFT", []), ("ASSIGN", ALL)]

    simulation.run(program())


def test_a_member_sends_heartbeats_and_can_leave_while_its_assignment_is_computed() -> None:
    simulation = Simulation(1)

    async def program() -> None:
        async with harness("sticky") as it:
            simulation.threads.hold()
            await it.subscribe("t")
            await asyncio.sleep(10)
            assert it.cluster.sent(HeartbeatRequest)
            await it.subscribe()
            assert len(it.cluster.sent(LeaveGroupRequest)) == 1
            simulation.threads.release()
            await asyncio.sleep(4)
            assert it.cluster.sent(SyncGroupRequest) == [], "the assignment is of no use any more"
            assert it.owner.kinds == ["LEFT", "LEFT"]

    simulation.run(program())


def test_a_member_can_be_closed_while_its_assignment_is_computed() -> None:
    simulation = Simulation(1)

    async def program() -> None:
        async with harness("sticky") as it:
            simulation.threads.hold()
            await it.subscribe("t")
        assert it.task.cancelled()
        assert it.cluster.sent(SyncGroupRequest) == []
        simulation.threads.release()
        await asyncio.sleep(1)

    simulation.run(program())


def test_a_member_says_its_rack_its_instance_and_what_it_owned_in_which_generation() -> None:
    async def program() -> None:
        config = replace(CONFIG, client_rack="east", group_instance_id="worker-1")
        async with harness("cooperative-sticky", config=config) as it:
            await it.subscribe("t")
            it.group.rebalancing = True
            await asyncio.sleep(4)
            *_, first, second = it.cluster.sent(JoinGroupRequest)
            said = [decode_subscription(bytes(each.protocols[0].metadata), None) for each in (first, second)]
            assert [each.rack_id for each in said] == ["east", "east"]
            assert [each.generation for each in said] == [-1, 1]
            assert [list(each.owned_partitions) for each in said] == [[], ALL]
            assert [each.user_data for each in said] == [b"\xff\xff\xff\xff", b"\0\0\0\1"]
            assert second.group_instance_id == "worker-1"

    run(program())

"""The membership loop: the changes it passes to the owner, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.messages.join_group import JoinGroupRequest, JoinGroupResponse
from aiokproto.codec.messages.leave_group import LeaveGroupRequest
from aiokproto.codec.messages.sync_group import SyncGroupRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    AuthorizationError,
    BrokerConnectionError,
    ConfigurationError,
    DecodeError,
    FencedError,
    GroupError,
    KafkaError,
)
from aiokproto.group.assignors import Assignor, make_assignors
from aiokproto.group.changes import ChangeKind
from aiokproto.group.classic_member import ClassicMember
from aiokproto.group.config import GroupConfig
from tests.group.fake import CONFIG, FakeCluster, FakeOwner, partitions, run

ALL = partitions("t", 0, 1)


class Harness:
    """The only member of a group."""

    def __init__(self, assignors: Sequence[Assignor], config: GroupConfig) -> None:
        cluster: Any = FakeCluster(t=2, u=1)
        self.cluster, self.owner = cluster, FakeOwner()
        self.group = self.cluster.group
        self.member = ClassicMember(cluster, config, assignors, self.owner)
        self.task = asyncio.create_task(self.member.run())

    async def subscribe(self, *topics: str) -> None:
        self.member.set_topics(topics)
        await asyncio.sleep(1)


@asynccontextmanager
async def harness(*strategies: str, config: GroupConfig = CONFIG) -> AsyncIterator[Harness]:
    made = Harness(make_assignors(strategies or ("range",)), config)
    await asyncio.sleep(0.1)
    try:
        yield made
    finally:
        made.task.cancel()
        await asyncio.wait([made.task])
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


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
        (HeartbeatRequest, DecodeError("broken"), DecodeError),
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


def test_a_group_that_agreed_on_another_assignor_ends_the_member() -> None:
    async def program() -> None:
        def agree(request: JoinGroupRequest) -> JoinGroupResponse:
            return JoinGroupResponse(protocol_name="theirs", member_id="m", leader="other", generation_id=1)

        async with harness() as it:
            it.cluster.next[JoinGroupRequest] = [agree]
            await it.subscribe("t")
            with pytest.raises(ConfigurationError, match="theirs"):
                await it.task

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

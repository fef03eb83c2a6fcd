"""Heartbeats: what a response, or its absence, means for the member."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from aiokproto.cluster import CoordinatorKind
from aiokproto.cluster.coordinator_requests import CoordinatorRequests
from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.messages.join_group import JoinGroupResponse
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import AuthenticationError, BrokerConnectionError, KafkaError
from aiokproto.failures import Action
from aiokproto.group.classic_member import ClassicMember
from aiokproto.group.heartbeat import Heartbeat
from aiokproto.group.membership import Membership, Phase
from tests.group.fake import CONFIG, FakeCluster, FakeOwner, run


class Harness:
    """A member in generation 1 that has a session, and its heartbeats."""

    def __init__(self) -> None:
        cluster: Any = FakeCluster()
        self.cluster, self.owner = cluster, FakeOwner()
        self.taken: list[Action] = []
        self.member = Membership("g", None, CONFIG.session_timeout, CONFIG.max_poll_interval)
        self.member.joined(JoinGroupResponse(generation_id=1, member_id="member-1", leader="member-1"))
        self.member.synced(0)
        cluster.group.member, cluster.group.generation = "member-1", 1
        requests, member = CoordinatorRequests(cluster, CoordinatorKind.GROUP, "g"), cast("ClassicMember", self)
        self.heartbeat = Heartbeat(cluster, CONFIG, self.member, requests, member, self.owner)
        self.heartbeat.session.confirm(asyncio.get_running_loop().time())
        self.task = asyncio.create_task(self.heartbeat.run())

    def heartbeat_refused(self, action: Action, error: KafkaError) -> None:
        self.taken.append(action)

    @property
    def beats(self) -> int:
        return len(self.cluster.sent(HeartbeatRequest))


@asynccontextmanager
async def harness() -> AsyncIterator[Harness]:
    made = Harness()
    try:
        yield made
    finally:
        made.task.cancel()
        await asyncio.wait([made.task])


def test_one_heartbeat_per_interval_keeps_the_session() -> None:
    async def program() -> None:
        async with harness() as it:
            await asyncio.sleep(31)
            assert it.beats == 10
            assert (it.taken, it.owner.sessions) == ([], [])

    run(program())


def test_no_heartbeat_is_sent_outside_of_a_generation() -> None:
    async def program() -> None:
        async with harness() as it:
            it.member.forget()
            it.member.join({}, "test")
            await asyncio.sleep(30)
            assert it.beats == 0
            assert it.owner.sessions == []

    run(program())


def test_heartbeats_keep_the_session_while_the_next_generation_is_joined() -> None:
    async def program() -> None:
        async with harness() as it:
            it.member.join({}, "test")
            it.cluster.group.rebalancing = True
            await asyncio.sleep(30)
            assert it.owner.sessions == []
            it.cluster.group.member = "another-member"
            await asyncio.sleep(5)
            assert it.owner.sessions == [False]
            assert it.taken == [], "only the response to JoinGroup decides"

    run(program())


@pytest.mark.parametrize(
    ("code", "action"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, Action.REJOIN),
        (ErrorCode.ILLEGAL_GENERATION, Action.REJOIN_LOST),
        (ErrorCode.UNKNOWN_MEMBER_ID, Action.REJOIN_AS_NEW),
        (ErrorCode.FENCED_INSTANCE_ID, Action.STOP),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, Action.STOP),
    ],
)
def test_an_error_code_for_the_member_is_passed_on(code: ErrorCode, action: Action) -> None:
    async def program() -> None:
        async with harness() as it:
            it.cluster.next[HeartbeatRequest] = [code]
            await asyncio.sleep(4)
            assert it.taken == [action]

    run(program())


def test_a_heartbeat_response_from_before_a_rebalance_is_ignored() -> None:
    async def program() -> None:
        async with harness() as it:
            it.cluster.group.remove()
            await asyncio.sleep(3.005)
            it.member.join({}, "test")
            await asyncio.sleep(1)
            assert it.beats == 1
            assert it.taken == []
            assert it.member.phase is Phase.JOINING

    run(program())


@pytest.mark.parametrize("failure", [BrokerConnectionError("lost"), ErrorCode.NOT_COORDINATOR], ids=str)
def test_after_a_lost_coordinator_the_heartbeat_is_sent_to_the_new_one_at_once(failure: object) -> None:
    async def program() -> None:
        async with harness() as it:
            it.cluster.next[HeartbeatRequest] = [failure]
            await asyncio.sleep(3.5)
            assert it.beats == 2
            assert it.cluster.forgotten == 1
            assert it.owner.sessions == []

    run(program())


def test_a_silent_coordinator_is_tried_again_within_the_session() -> None:
    async def program() -> None:
        async with harness() as it:
            it.cluster.next[HeartbeatRequest] = [None]
            await asyncio.sleep(9)
            assert it.beats >= 2
            assert it.owner.sessions == []

    run(program())


def test_a_session_is_unconfirmed_after_its_timeout_and_confirmed_by_the_next_response() -> None:
    async def program() -> None:
        async with harness() as it:
            it.cluster.next[HeartbeatRequest] = [None] * 4
            await asyncio.sleep(9.9)
            assert it.heartbeat.session.confirmed
            await asyncio.sleep(0.2)
            assert not it.heartbeat.session.confirmed
            await asyncio.sleep(10)
            assert it.heartbeat.session.confirmed
            assert it.owner.sessions == [False, True]

    run(program())


def test_a_suspension_is_noticed_before_the_response_to_an_earlier_heartbeat() -> None:
    async def program() -> None:
        async with harness() as it:
            loop: Any = asyncio.get_running_loop()
            await asyncio.sleep(3.005)
            assert it.beats == 1, "sent, without a response yet"
            loop.stall(20)
            it.heartbeat.session.check()
            assert not it.heartbeat.session.confirmed
            await asyncio.sleep(0.02)
            assert it.owner.sessions == [False], "that response is older than the session timeout"
            await asyncio.sleep(4)
            assert it.owner.sessions == [False, True]

    run(program())


def test_an_error_that_ends_the_client_ends_the_heartbeats() -> None:
    async def program() -> None:
        async with harness() as it:
            it.cluster.next[HeartbeatRequest] = [AuthenticationError("refused")]
            with pytest.raises(AuthenticationError):
                await it.task

    run(program())

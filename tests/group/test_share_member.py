"""A member of a share group against a coordinator in memory: failures, fencing, leaving."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from aiokproto.codec.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import AuthorizationError, BrokerConnectionError, KafkaError, UnsupportedVersionError
from aiokproto.group.share_member import ShareMember
from aiokproto.types import TopicPartition
from tests.group.epoch_fake import INTERVAL, FakeEpochGroup
from tests.group.fake import FakeCluster, partitions, run
from tests.group.harness import MemberHarness, running


class Harness(MemberHarness):
    """The only member of a share group.

    Attributes:
        seen: Its assignments, in order.
    """

    heartbeats, collection = ShareGroupHeartbeatRequest, frozenset
    member: ShareMember

    def __init__(self) -> None:
        cluster: Any = FakeCluster(t=3, u=1)
        cluster.group = self.group = FakeEpochGroup()
        self.group.assign("t", 0, 1)
        self.seen: list[list[TopicPartition]] = []
        super().__init__(cluster, ShareMember(cluster, "g", "r1", lambda each: self.seen.append(sorted(each))))


def harness() -> AbstractAsyncContextManager[Harness]:
    return running(Harness())


def test_the_first_heartbeat_says_everything_and_the_next_ones_nothing() -> None:
    async def program() -> None:
        async with harness() as it:
            assert it.beats == []
            await it.subscribe("t")
            await asyncio.sleep(3 * INTERVAL)
            first, *others = it.beats
            assert (first.member_epoch, first.rack_id, first.subscribed_topic_names) == (0, "r1", ["t"])
            assert first.member_id == it.member.member_id
            assert {(each.rack_id, each.subscribed_topic_names) for each in others} == {(None, None)}
            assert len(others) == 3
            assert it.seen == [partitions("t", 0, 1)]

    run(program())


def test_a_change_of_the_subscription_is_sent_at_once() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.group.assign("u", 0)
            it.member.set_topics(frozenset({"t", "u"}))
            await asyncio.sleep(0.1)
            assert it.beats[-1].subscribed_topic_names == ["t", "u"]
            assert it.seen[-1] == partitions("t", 0, 1) + partitions("u", 0)

    run(program())


def test_a_heartbeat_without_a_response_is_repeated_with_everything() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.script(BrokerConnectionError("lost"))
            await asyncio.sleep(INTERVAL)
            assert it.beats[-1].subscribed_topic_names == ["t"]
            assert it.cluster.forgotten == 1
            assert it.seen == [partitions("t", 0, 1)]

    run(program())


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_a_fenced_member_owns_nothing_until_it_has_joined_again(code: ErrorCode) -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            name = it.member.member_id
            it.script(code)
            await asyncio.sleep(INTERVAL)
            assert it.seen == [partitions("t", 0, 1), [], partitions("t", 0, 1)]
            assert it.beats[-1].member_epoch == 0
            assert it.member.member_id == name == it.beats[-1].member_id

    run(program())


def test_the_coordinators_problems_are_waited_out_and_named() -> None:
    async def program() -> None:
        async with harness() as it:
            it.script(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            it.member.set_topics(frozenset({"t"}))
            await asyncio.sleep(0.05)
            assert "COORDINATOR_LOAD_IN_PROGRESS" in it.member.problem
            await asyncio.sleep(0.12)
            assert "TOPIC_AUTHORIZATION_FAILED" in it.member.problem
            await asyncio.sleep(1)
            assert it.member.problem == ""
            assert it.seen == [partitions("t", 0, 1)]

    run(program())


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.INVALID_REQUEST, KafkaError),
        (ErrorCode.UNSUPPORTED_VERSION, KafkaError),
        (UnsupportedVersionError("old"), UnsupportedVersionError),
    ],
)
def test_a_refusal_for_good_ends_the_member(answer: Any, kind: type[Exception]) -> None:
    async def program() -> None:
        async with harness() as it:
            it.script(answer)
            await it.subscribe("t")
            with pytest.raises(kind):
                await it.task
            assert len(it.beats) == 1

    run(program())


def test_a_member_that_leaves_while_it_joins_does_not_stay_behind() -> None:
    async def program() -> None:
        async with harness() as it:
            it.script(None)
            it.member.set_topics(frozenset({"t"}))
            await asyncio.sleep(0.1)
            it.task.cancel()
            await asyncio.wait([it.task])
            await it.member.leave(1000)
            assert [each.member_epoch for each in it.beats] == [0, -1]
            assert it.member.member_epoch == -1

    run(program())


def test_without_topics_the_member_leaves_and_with_topics_it_joins_again() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            await it.subscribe()
            assert it.beats[-1].member_epoch == -1
            assert it.seen[-1] == []
            count = len(it.beats)
            await asyncio.sleep(5 * INTERVAL)
            assert len(it.beats) == count
            await it.subscribe("t")
            assert it.seen[-1] == partitions("t", 0, 1)

    run(program())


def test_a_leave_without_a_response_ends_in_time() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.task.cancel()
            await asyncio.wait([it.task])
            it.script(*[None] * 9)
            before = asyncio.get_running_loop().time()
            await it.member.leave(2000)
            assert asyncio.get_running_loop().time() - before == pytest.approx(2.0, abs=0.01)

    run(program())

"""Groups of the classic protocol, request by request, on the embedded broker and on real Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokproto.broker import Broker
from aiokproto.codec.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from aiokproto.codec.messages.leave_group import LeaveGroupRequest, MemberIdentity
from aiokproto.codec.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from aiokproto.codec.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from aiokproto.codec.payloads.consumer_protocol import ConsumerProtocolSubscription
from aiokproto.error_codes import ErrorCode
from tests.behaviour.coordinator import Coordinator, coordinator
from tests.broker.wire import connect
from tests.clusters import BehaviourCluster, EmbeddedCluster, RealCluster
from tests.conftest import ON_BOTH
from tests.kafka.cluster import KafkaCluster


async def join(at: Coordinator, member_id: str = "", version: int = 9, **fields: Any) -> JoinGroupResponse:
    metadata = b"\0\x01" + ConsumerProtocolSubscription(topics=["t"]).encode(1)
    defaults: dict[str, Any] = {
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=metadata)],
    }
    request = JoinGroupRequest(group_id=at.group, member_id=member_id, **defaults | fields)
    return await at.ask(request, lambda response: response.error_code, version)


async def sync(at: Coordinator, joined: JoinGroupResponse, **fields: Any) -> SyncGroupResponse:
    mine = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
    request = SyncGroupRequest(
        group_id=at.group,
        member_id=joined.member_id,
        **{
            "generation_id": joined.generation_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [mine],
            **fields,
        },
    )
    return await at.ask(request, lambda response: response.error_code)


async def heartbeat(at: Coordinator, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
    request = HeartbeatRequest(
        group_id=at.group, generation_id=generation, member_id=member_id, group_instance_id=instance_id
    )
    return ErrorCode((await at.ask(request, lambda response: response.error_code)).error_code)


async def leave(at: Coordinator, member_id: str, instance_id: str | None = None) -> ErrorCode:
    member = MemberIdentity(member_id=member_id, group_instance_id=instance_id)
    request = LeaveGroupRequest(group_id=at.group, members=[member])
    response = await at.ask(request, lambda response: response.error_code)
    return ErrorCode(response.error_code or response.members[0].error_code)


async def describe(at: Coordinator) -> DescribedGroup:
    request = DescribeGroupsRequest(groups=[at.group], include_authorized_operations=True)
    return (await at.ask(request, lambda response: response.groups[0].error_code)).groups[0]


async def test_a_classic_member_joins_syncs_commits_and_leaves(cluster: BehaviourCluster, topic: str) -> None:
    async with coordinator(cluster, topic) as at:
        assert (await join(at, "who")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        required = await join(at)
        assert required.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert required.member_id
        joined = await join(at, required.member_id)
        assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, required.member_id)
        assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
        assert [member.member_id for member in joined.members] == [required.member_id]
        # Kafka describes the group from its high watermark, which is 0 at first.
        while (described := await describe(at)).group_state == "Dead":
            pass
        assert (described.group_state, described.protocol_data) == ("CompletingRebalance", "")
        assert (await sync(at, joined, protocol_name=None)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert (await sync(at, joined, generation_id=7)).error_code == ErrorCode.ILLEGAL_GENERATION
        assert (await sync(at, joined, protocol_name="other")).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert (await sync(at, joined)).assignment == b"mine"
        described = await describe(at)
        assert (described.group_state, described.protocol_data) == ("Stable", "range")
        assert described.authorized_operations == 3400
        assert [member.member_assignment for member in described.members] == [b"mine"]
        assert await heartbeat(at, joined.member_id, 1) is ErrorCode.NONE
        assert await heartbeat(at, joined.member_id, 2) is ErrorCode.ILLEGAL_GENERATION
        assert await heartbeat(at, "who", 1) is ErrorCode.UNKNOWN_MEMBER_ID
        assert await leave(at, "who") is ErrorCode.UNKNOWN_MEMBER_ID
        assert await leave(at, joined.member_id) is ErrorCode.NONE
        assert (await describe(at)).group_state == "Empty"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 10_000_000}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
async def test_invalid_joins_are_refused(
    cluster: BehaviourCluster, topic: str, fields: dict[str, Any], error: ErrorCode
) -> None:
    async with coordinator(cluster, topic) as at:
        assert ErrorCode((await join(at, **fields)).error_code) is error


async def test_the_session_timeout_is_checked_before_the_coordinator(cluster3: BehaviourCluster, topic: str) -> None:
    for node in range(3):
        async with connect(cluster3, node) as wire:
            for group, error in (
                (f"{topic}-group", ErrorCode.INVALID_SESSION_TIMEOUT),
                ("", ErrorCode.INVALID_GROUP_ID),
            ):
                request = JoinGroupRequest(group_id=group, session_timeout_ms=1, rebalance_timeout_ms=1)
                assert ErrorCode((await wire.ask(request)).error_code) is error


async def test_a_group_of_another_type_refuses_a_classic_member_with_any_id(
    cluster: BehaviourCluster, topic: str
) -> None:
    async with coordinator(cluster, topic) as at:
        share = ShareGroupHeartbeatRequest(
            group_id=at.group, member_id="m" * 22, member_epoch=0, subscribed_topic_names=[topic]
        )
        assert (await at.ask(share, lambda response: response.error_code)).error_code == 0
        for member_id in ("", "who"):
            refused = await join(at, member_id)
            assert (ErrorCode(refused.error_code), refused.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")


async def test_members_need_a_common_protocol(cluster: BehaviourCluster, topic: str) -> None:
    async with coordinator(cluster, topic) as at:
        joined = await join(at, group_instance_id="i")
        assert (await sync(at, joined, group_instance_id="i")).error_code == 0
        other = [JoinGroupRequestProtocol(name="other", metadata=b"")]
        cases: list[dict[str, Any]] = [{"protocols": other}, {"protocol_type": "connect"}]
        for fields in cases:
            refused = await join(at, group_instance_id="j", **fields)
            assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_a_static_member_that_restarts_keeps_its_assignment(cluster: BehaviourCluster, topic: str) -> None:
    async with coordinator(cluster, topic) as at:
        before = await join(at, group_instance_id="i")
        assert (await sync(at, before, group_instance_id="i")).assignment == b"mine"
        after = await join(at, group_instance_id="i")
        assert (after.error_code, after.generation_id, after.skip_assignment) == (0, before.generation_id, True)
        assert after.member_id != before.member_id
        assert (await sync(at, after, group_instance_id="i", assignments=[])).assignment == b"mine"
        assert await heartbeat(at, before.member_id, 1, "i") is ErrorCode.FENCED_INSTANCE_ID
        assert await leave(at, before.member_id, "i") is ErrorCode.FENCED_INSTANCE_ID
        assert await leave(at, "", "unknown") is ErrorCode.UNKNOWN_MEMBER_ID
        assert await leave(at, "", "i") is ErrorCode.NONE


async def test_a_second_member_makes_the_first_rejoin(cluster: BehaviourCluster, topic: str) -> None:
    async with coordinator(cluster, topic) as at, coordinator(cluster, topic) as aside:
        first = await join(at, (await join(at)).member_id)
        assert (await sync(at, first)).error_code == 0
        required = await join(aside)
        second = asyncio.ensure_future(join(aside, required.member_id))
        while await heartbeat(at, first.member_id, 1) is not ErrorCode.REBALANCE_IN_PROGRESS:
            await asyncio.sleep(0)
        again = await join(at, first.member_id)
        joined = await second
        assert again.generation_id == joined.generation_id == 2
        assert (again.leader, joined.leader) == (first.member_id, first.member_id)
        assert (len(again.members), joined.members) == (2, [])
        waiting = asyncio.ensure_future(sync(aside, joined, assignments=[]))
        theirs = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"theirs")
        await sync(at, again, assignments=[theirs])
        assert (await waiting).assignment == b"theirs"


@pytest.fixture(params=ON_BOTH)
async def small_groups(request: pytest.FixtureRequest) -> AsyncIterator[BehaviourCluster]:
    """A broker of its own whose groups have at most two members: ``group.max.size`` is set at the start."""
    if request.param == "embedded":
        async with Broker(config={"group.max.size": 2}) as broker:
            yield EmbeddedCluster(broker, 1)
    else:
        kafka = KafkaCluster(1, config={"group.max.size": "2"})
        await asyncio.to_thread(kafka.start)
        try:
            yield RealCluster(kafka, 1)
        finally:
            await asyncio.to_thread(kafka.stop)


async def test_in_a_rebalance_of_a_full_group_the_first_members_to_join_get_the_places(
    small_groups: BehaviourCluster,
) -> None:
    async with (
        coordinator(small_groups, "g") as first,
        coordinator(small_groups, "g") as second,
        coordinator(small_groups, "g") as third,
    ):
        # No event but the rebalance timeout ends the rebalance after a member was rejected.
        soon = {"rebalance_timeout_ms": 2_000}
        one = (await join(first)).member_id
        joined = await join(first, one, **soon)
        two = (await join(second)).member_id
        waiting = asyncio.create_task(join(second, two, **soon))
        while await heartbeat(first, one, joined.generation_id) is not ErrorCode.REBALANCE_IN_PROGRESS:
            pass
        assert (await join(first, one, **soon)).error_code == ErrorCode.NONE
        assert (await waiting).error_code == ErrorCode.NONE
        assert (await join(third)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        # Another subscription starts a rebalance. Until the second member joins, its place is free.
        metadata = b"\0\x01" + ConsumerProtocolSubscription(topics=["other"]).encode(1)
        changed = [JoinGroupRequestProtocol(name="range", metadata=metadata)]
        rebalance = asyncio.create_task(join(first, one, protocols=changed, **soon))
        while (required := await join(third)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED:
            pass
        assert required.error_code == ErrorCode.MEMBER_ID_REQUIRED
        newcomer = asyncio.create_task(join(third, required.member_id, **soon))
        while len((await describe(second)).members) < 3:
            pass
        rejected = await join(second, two, **soon)
        assert (rejected.error_code, rejected.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        assert await leave(second, two) is ErrorCode.UNKNOWN_MEMBER_ID
        assert [each.error_code for each in (await rebalance, await newcomer)] == [ErrorCode.NONE, ErrorCode.NONE]

"""The permissions of streams group members, besides the one for the group: the topics of the topology."""

from __future__ import annotations

from typing import Any

from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.messages.streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest
from aiokproto.codec.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from aiokproto.error_codes import ErrorCode
from tests.behaviour.secured import Secured, as_user, create, revoke, rule
from tests.behaviour.test_acls import coordinator
from tests.behaviour.test_streams_groups import joining
from tests.behaviour.waiting import until
from tests.broker.secure import CLUSTER, CREATE, DESCRIBE, GROUP, PREFIXED, READ, TOPIC, grant
from tests.broker.wire import Wire


async def beat(wire: Wire, group: str, member_id: str, epoch: int, **fields: Any) -> StreamsGroupHeartbeatResponse:
    request = StreamsGroupHeartbeatRequest(
        group_id=group, member_id=member_id, member_epoch=epoch, endpoint_information_epoch=0, **fields
    )
    return await wire.ask(request)


async def describe(wire: Wire, group: str) -> DescribedGroup:
    return (await wire.ask(StreamsGroupDescribeRequest(group_ids=[group]))).groups[0]


async def test_describe_permission_is_needed_for_all_topics_of_the_topology(
    secured: Secured, topic: str, user: str
) -> None:
    group = f"g-{topic}"
    async with as_user(secured, "admin") as admin, as_user(secured, user) as client:
        await create(admin, topic)
        await coordinator(admin, group)
        assert (await beat(admin, group, "m", 0, **joining(topic))).error_code == 0
        try:
            await grant(admin, rule(user, GROUP, group, READ), rule(user, TOPIC, topic, DESCRIBE))
            refused = await beat(client, group, "a", 0, **joining(topic))
            assert (refused.error_code, refused.member_id) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "")
            # The broker checks permissions before it checks the request, whose timeout is missing here.
            refused = await beat(client, group, "a", 0, **joining(topic) | {"rebalance_timeout_ms": -1})
            assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            seen = await describe(client, group)
            assert (seen.error_code, seen.topology, seen.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, [])
            # These are the internal topics, which needn't exist.
            await grant(admin, rule(user, TOPIC, topic, DESCRIBE, pattern=PREFIXED))
            assert (await beat(client, group, "a", 0, **joining(topic))).error_code == 0
            seen = await describe(client, group)
            assert (seen.error_code, {member.member_id for member in seen.members}) == (0, {"a", "m"})
        finally:
            await revoke(admin, user)
            for member_id in "am":
                await beat(admin, group, member_id, -1)


async def test_permission_to_create_topics_on_the_cluster_creates_internal_topics(
    secured: Secured, topic: str, user: str
) -> None:
    group = f"g-{topic}"
    async with as_user(secured, "admin") as admin, as_user(secured, user) as client:
        await create(admin, topic)
        await coordinator(admin, group)
        await grant(
            admin,
            rule(user, GROUP, group, READ),
            rule(user, TOPIC, topic, DESCRIBE, pattern=PREFIXED),
            rule(user, CLUSTER, "kafka-cluster", CREATE),
        )
        try:
            assert (await beat(client, group, "a", 0, **joining(topic))).error_code == 0

            async def topics() -> set[str | None]:
                return {each.name for each in (await admin.ask(MetadataRequest(topics=None), 9)).topics}

            internal = {f"{topic}-words", f"{topic}-counts"}
            assert internal <= await until(topics, lambda found: internal <= found)
        finally:
            await revoke(admin, user)
            await beat(admin, group, "a", -1)

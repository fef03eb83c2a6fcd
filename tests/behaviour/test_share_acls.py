"""The permissions of share group members, besides the one for the group: subscribed and described topics."""

from __future__ import annotations

from aiokproto.codec.messages.share_group_describe import DescribedGroup, ShareGroupDescribeRequest
from aiokproto.codec.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from aiokproto.error_codes import ErrorCode
from tests.behaviour.secured import Secured, as_user, create, revoke, rule
from tests.behaviour.test_acls import coordinator
from tests.broker.secure import DESCRIBE, GROUP, READ, TOPIC, grant
from tests.broker.wire import Wire


async def test_describe_permission_is_needed_for_subscribed_and_described_topics(
    secured: Secured, topic: str, user: str
) -> None:
    group = f"g-{topic}"

    async def heartbeat(wire: Wire, member_id: str, epoch: int = 0) -> ShareGroupHeartbeatResponse:
        topics = [topic] if epoch == 0 else None
        return await wire.ask(
            ShareGroupHeartbeatRequest(
                group_id=group, member_id=member_id, member_epoch=epoch, subscribed_topic_names=topics
            )
        )

    async def describe(wire: Wire) -> DescribedGroup:
        request = ShareGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
        return (await wire.ask(request)).groups[0]

    async with as_user(secured, "admin") as admin, as_user(secured, user) as client:
        await create(admin, topic)
        await coordinator(admin, group)
        joined = await heartbeat(admin, "m")
        while not (await describe(admin)).members[0].assignment.topic_partitions:
            joined = await heartbeat(admin, "m", joined.member_epoch)
        await grant(admin, rule(user, GROUP, group, READ))
        try:
            refused = await heartbeat(client, "a")
            assert (refused.error_code, refused.member_id) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
            seen = await describe(client)
            assert (seen.error_code, seen.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
            await grant(admin, rule(user, TOPIC, topic, DESCRIBE))
            assert (await heartbeat(client, "a")).error_code == 0
            assert {member.member_id for member in (await describe(client)).members} == {"a", "m"}
        finally:
            await revoke(admin, user)
            for member_id in "am":
                await heartbeat(admin, member_id, -1)

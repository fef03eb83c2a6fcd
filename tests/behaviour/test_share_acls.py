"""What members of share groups have to be permitted beside their group: the topics they want, and those they see."""

from __future__ import annotations

from aiokproto.codec.messages.share_group_describe import DescribedGroup, ShareGroupDescribeRequest
from aiokproto.codec.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from aiokproto.error_codes import ErrorCode
from tests.behaviour.secured import Secured, as_user, create, revoke, rule
from tests.behaviour.test_acls import coordinator
from tests.broker.secure import DESCRIBE, GROUP, READ, TOPIC, grant
from tests.broker.wire import Wire


async def test_a_member_may_describe_what_it_reads_and_so_may_who_looks_at_it(
    secured: Secured, topic: str, user: str
) -> None:
    group = f"g-{topic}"

    async def beat(wire: Wire, member_id: str, epoch: int = 0) -> ShareGroupHeartbeatResponse:
        topics = [topic] if epoch == 0 else None
        return await wire.ask(
            ShareGroupHeartbeatRequest(
                group_id=group, member_id=member_id, member_epoch=epoch, subscribed_topic_names=topics
            )
        )

    async def describe(wire: Wire) -> DescribedGroup:
        asked = ShareGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
        return (await wire.ask(asked)).groups[0]

    async with as_user(secured, "admin") as admin, as_user(secured, user) as somebody:
        await create(admin, topic)
        await coordinator(admin, group)
        joined = await beat(admin, "m")
        while not (await describe(admin)).members[0].assignment.topic_partitions:
            joined = await beat(admin, "m", joined.member_epoch)
        await grant(admin, rule(user, GROUP, group, READ))
        try:
            refused = await beat(somebody, "a")
            assert (refused.error_code, refused.member_id) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
            seen = await describe(somebody)
            assert (seen.error_code, seen.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
            await grant(admin, rule(user, TOPIC, topic, DESCRIBE))
            assert (await beat(somebody, "a")).error_code == 0
            assert {member.member_id for member in (await describe(somebody)).members} == {"a", "m"}
        finally:
            await revoke(admin, user)
            for member_id in "am":
                await beat(admin, member_id, -1)

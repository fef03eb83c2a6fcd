"""The fake coordinator responds as the embedded broker does, which is compared with real Kafka elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from aiokproto import Client
from aiokproto.broker import Cluster
from aiokproto.codec.messages.leave_group import LeaveGroupRequest, MemberIdentity
from aiokproto.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.group.membership import Membership
from aiokproto.group.protocol import encode_subscription
from tests.group.fake import CONFIG, FakeCoordinator, run

Send = Callable[[Any], Awaitable[Any]]


def commit(member: Membership) -> OffsetCommitRequest:
    topic = OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(committed_offset=1)])
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        topics=[topic],
    )


async def life(send: Send) -> list[tuple[str, ErrorCode | int | bytes]]:
    """The responses to a member from its first request to its last."""
    said: list[tuple[str, ErrorCode | int | bytes]] = []

    async def code(name: str, request: Any) -> None:
        response = await send(request)
        topics = getattr(response, "topics", None)
        said.append((name, ErrorCode(topics[0].partitions[0].error_code if topics else response.error_code)))

    member = Membership("g", None, CONFIG.session_timeout, CONFIG.max_poll_interval)
    protocols = {"range": encode_subscription(["t"], None, [], -1, None)}
    for name in ("first", "second", "third, as leader"):
        response = await send(member.join(protocols, "test"))
        member.joined(response)
        said += [(name, ErrorCode(response.error_code)), ("generation", member.generation), ("leads", member.leads)]
        said.append(("subscriptions", b"".join(data for _, data in member.members.values())))
        if name == "first":
            continue
        await code("commit before SyncGroup", commit(member))
        again = await send(member.join(protocols, "test"))
        said.append(("the same generation again", again.generation_id))
        member.joined(again)
        synced = await send(member.sync({member.member_id: b"part"}))
        said += [("sync", ErrorCode(synced.error_code)), ("assignment", bytes(synced.assignment))]
        member.synced(0)
    await code("heartbeat", member.heartbeat())
    await code("heartbeat of an earlier generation", replace(member, generation=1).heartbeat())
    await code("heartbeat of a stranger", replace(member, member_id="stranger").heartbeat())
    await code("sync of an earlier generation", replace(member, generation=1).sync({}))
    await code("join of a stranger", replace(member, member_id="stranger").join(protocols, "test"))
    await code("commit", commit(member))
    await code("commit of a stranger", commit(replace(member, member_id="stranger")))
    identity = MemberIdentity(member_id=member.member_id)
    left = await send(LeaveGroupRequest(group_id="g", members=[identity]))
    said.append(("leave", ErrorCode(left.error_code)))
    await code("heartbeat after leaving", member.heartbeat())
    return said


def test_the_fake_coordinator_answers_as_the_embedded_broker() -> None:
    async def program() -> None:
        fake = FakeCoordinator()

        async def ask(request: Any) -> Any:
            return fake.answer(request)

        async with Cluster(1) as cluster, Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            await cluster.create_topic("t", 1)

            async def send(request: Any) -> Any:
                highest = 9 if isinstance(request, OffsetCommitRequest) else None
                return await client.request(request, max_version=highest)

            assert await life(ask) == await life(send)

    run(program())

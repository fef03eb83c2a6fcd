"""Regular expressions that members of consumer groups send: the same on the embedded broker and on real Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto.codec.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from aiokproto.codec.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from aiokproto.error_codes import ErrorCode
from tests.behaviour.coordinator import coordinator
from tests.behaviour.epoch_members import ConsumerMember, until
from tests.behaviour.requests_by_api import NO_TOPIC, OK, errors
from tests.behaviour.secured import Secured, as_user, create, revoke, rule
from tests.behaviour.test_acls import coordinator as until_coordinated
from tests.behaviour.test_consumer_groups import JOIN
from tests.broker.secure import DESCRIBE, GROUP, READ, TOPIC, grant
from tests.broker.wire import Wire
from tests.clusters import BehaviourCluster


@pytest.mark.parametrize(
    "pattern",
    [
        *("(a)\\1", "a(?=b)", "a(?!b)", "(?<=a)b", "(?<!a)b", "(?>a)", "(?x)a", "(?#a)"),
        *(
            "a++",
            "a**",
            "a{1001}",
            "a{2,1}",
            "*",
            "(",
            ")",
            "[a",
            "[z-a]",
            "\\",
            r"\p{Nothing}",
            r"\q",
            "[[:nothing:]]",
        ),
    ],
)
async def test_invalid_patterns_are_refused(cluster: BehaviourCluster, topic: str, pattern: str) -> None:
    async with coordinator(cluster, topic) as at:
        response = await at.heartbeat("m", 0, **JOIN, subscribed_topic_regex=pattern)
        assert ErrorCode(response.error_code) is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize("pattern", ["(?i:{T})-[[:alpha:]]+", r"\Q{t}\E-(?P<rest>\pL{{3}})", r"{t}-[^\d.]{{1,3}}\z"])
async def test_valid_patterns_are_accepted(cluster: BehaviourCluster, topic: str, pattern: str) -> None:
    for name in (topic, f"{topic}-abc", f"{topic}-1"):
        await cluster.create_topic(name, partitions=2)
    async with coordinator(cluster, topic) as at:
        member = ConsumerMember(at, "m", subscribed_topic_regex=pattern.format(t=topic, T=topic.upper()))
        await until(lambda: bool(member.owned), member)
        assert member.owned == {await at.topic_id(f"{topic}-abc"): [0, 1]}


async def test_a_pattern_with_exponential_backtracking_does_not_block_a_broker(
    cluster: BehaviourCluster, topic: str
) -> None:
    """Trying all alternatives of this pattern one by one would take centuries."""
    long = topic.ljust(200, "a")
    await cluster.create_topic(f"{long}.", partitions=1)
    await cluster.create_topic(long, partitions=1)
    async with coordinator(cluster, topic) as at:
        member = ConsumerMember(at, "m", subscribed_topic_regex=f"{topic}(a+)+$")
        await until(lambda: bool(member.owned), member)
        assert member.owned == {await at.topic_id(long): [0]}


async def beat(wire: Wire, group: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
    return await wire.ask(ConsumerGroupHeartbeatRequest(group_id=group, member_id="m", member_epoch=epoch, **fields))


async def test_a_pattern_does_not_match_topics_without_describe_permission(
    secured: Secured, topic: str, user: str
) -> None:
    group, seen, hidden = f"g-{topic}", f"{topic}-1", f"{topic}-2"
    async with as_user(secured, "admin") as admin, as_user(secured, user) as client:
        await create(admin, hidden)
        await create(admin, seen, 2)
        await until_coordinated(admin, group)
        await grant(admin, rule(user, GROUP, group, READ), rule(user, TOPIC, seen, DESCRIBE))
        joining = {"rebalance_timeout_ms": 60_000, "topic_partitions": []}
        response = await beat(client, group, 0, subscribed_topic_regex=f"{topic}-.*", **joining)
        while response.assignment is None or not response.assignment.topic_partitions:
            assert response.error_code == OK
            response = await beat(client, group, response.member_epoch)
        assert [each.partitions for each in response.assignment.topic_partitions] == [[0, 1]]
        described = await admin.ask(
            ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
        )
        (member,) = described.groups[0].members
        assert [each.topic_name for each in member.assignment.topic_partitions] == [seen]
        assert (await beat(client, group, -1)).error_code == OK
        await revoke(admin, user)


async def test_a_hidden_topic_cannot_be_subscribed_to_nor_seen_in_a_group(
    secured: Secured, topic: str, user: str
) -> None:
    group = f"g-{topic}"
    async with as_user(secured, "admin") as admin, as_user(secured, user) as client:
        await create(admin, topic)
        await until_coordinated(admin, group)
        await grant(admin, rule(user, GROUP, group, READ))
        joining = {"subscribed_topic_names": [topic], "rebalance_timeout_ms": 60_000, "topic_partitions": []}
        refused = await beat(client, group, 0, **joining)
        assert (refused.error_code, refused.member_id, refused.assignment) == (NO_TOPIC, None, None)
        response = await beat(admin, group, 0, **joining)
        while response.assignment is None or not response.assignment.topic_partitions:
            assert response.error_code == OK
            response = await beat(admin, group, response.member_epoch)
        request = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
        assert errors(await admin.ask(request)) == set()
        described = await client.ask(request)
        assert errors(described) == {NO_TOPIC}
        assert described.groups[0].members == []
        assert (await beat(admin, group, -1)).error_code == OK
        await revoke(admin, user)

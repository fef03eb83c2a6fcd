"""A classic group at its maximum size, on a broker of each kind that is configured for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from aiokproto.broker import Broker
from aiokproto.codec.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from aiokproto.error_codes import ErrorCode
from tests.behaviour.coordinator import Coordinator
from tests.behaviour.test_classic_groups import describe, heartbeat, join
from tests.clusters import BehaviourCluster, EmbeddedCluster, RealCluster
from tests.kafka.cluster import KafkaCluster

CONFIG = {"group.max.size": "2", "group.initial.rebalance.delay.ms": "0"}
OTHER = [JoinGroupRequestProtocol(name="range", metadata=b"other")]
WITHOUT_MEMBER_ID = 3
"""The last version of JoinGroup in which a new member joins with its first request."""


@pytest.fixture(scope="module")
def kafka_of_two() -> Iterator[KafkaCluster]:
    with KafkaCluster(1, config=CONFIG) as cluster:
        yield cluster


async def waiting_join(
    at: Coordinator, members: int, member_id: str = "", **fields: Any
) -> asyncio.Task[JoinGroupResponse]:
    """Send a JoinGroup that waits for others. Return once the group has this many members and rebalances."""
    sent = asyncio.ensure_future(join(at, member_id, WITHOUT_MEMBER_ID, **fields))
    observer = Coordinator(at.cluster, at.group)
    while True:
        described = await describe(observer)
        if (described.group_state, len(described.members)) == ("PreparingRebalance", members):
            break
    observer.close()
    return sent


async def check(cluster: BehaviourCluster) -> None:
    first, second, third, fourth = clients = [Coordinator(cluster, "g") for _ in range(4)]
    joining = await join(first, version=WITHOUT_MEMBER_ID)
    other = await waiting_join(second, 2)
    again = await join(first, joining.member_id, WITHOUT_MEMBER_ID)
    known = await other
    assert (again.error_code, known.error_code) == (0, 0)
    # The metadata differs from before. With the same metadata the member would get the generation that it has joined.
    joins = [await waiting_join(second, 2, known.member_id, protocols=OTHER), await waiting_join(third, 3)]
    refused = await join(fourth, version=WITHOUT_MEMBER_ID)
    assert (refused.error_code, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    late = await join(first, again.member_id, WITHOUT_MEMBER_ID)
    assert (late.error_code, late.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert await heartbeat(first, again.member_id, again.generation_id) is ErrorCode.UNKNOWN_MEMBER_ID
    assert not any(each.done() for each in joins)
    for each in joins:
        each.cancel()
    await asyncio.gather(*joins, return_exceptions=True)
    for client in clients:
        client.close()


async def test_the_members_that_join_last_are_refused() -> None:
    async with Broker(config=CONFIG) as broker:
        await check(EmbeddedCluster(broker, 1))


@pytest.mark.kafka
async def test_the_members_that_join_last_are_refused_by_kafka(kafka_of_two: KafkaCluster) -> None:
    await check(RealCluster(kafka_of_two, 1))

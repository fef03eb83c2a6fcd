"""Quotas: the same on the embedded broker and on real Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aiokproto.codec.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from aiokproto.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from aiokproto.codec.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from aiokproto.error_codes import ErrorCode
from tests.broker.wire import Wire, batch, connect, produce_request
from tests.clusters import BehaviourCluster

Entity = dict[str, "str | None"]
EXACT, DEFAULT, ANY = 0, 1, 2


async def alter(wire: Wire, entity: Entity, key: str, value: float | None, *, validate_only: bool = False) -> int:
    """Set or remove a quota; returns the error."""
    entry = AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None)],
    )
    response = await wire.ask(AlterClientQuotasRequest(entries=[entry], validate_only=validate_only), 1)
    assert [{each.entity_type: each.entity_name for each in response.entries[0].entity}] == [entity]
    return response.entries[0].error_code


async def described(
    wire: Wire, *components: ComponentData, strict: bool = False
) -> list[tuple[Entity, dict[str, float]]]:
    response = await wire.ask(DescribeClientQuotasRequest(components=list(components), strict=strict), 1)
    assert response.error_code == 0, response.error_message
    return [
        (
            {each.entity_type: each.entity_name for each in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in response.entries or ()
    ]


@asynccontextmanager
async def limited(cluster: BehaviourCluster, client_id: str, key: str, value: float) -> AsyncIterator[Wire]:
    """A connection of a client with its own quota."""
    mine: Entity = {"client-id": client_id}
    async with connect(cluster) as admin, connect(cluster) as wire:
        wire.client_id = client_id
        assert await alter(admin, mine, key, value) == 0
        try:
            yield wire
        finally:
            assert await alter(admin, mine, key, None) == 0


async def test_quotas_are_set_described_and_removed(cluster: BehaviourCluster, topic: str) -> None:
    both: Entity = {"user": topic, "client-id": None}
    async with connect(cluster) as wire:
        assert await alter(wire, {"user": topic}, "producer_byte_rate", 7, validate_only=True) == 0
        assert await alter(wire, {"user": topic}, "producer_byte_rate", 1000) == 0
        assert await alter(wire, {"user": topic}, "request_percentage", 12.5) == 0
        assert await alter(wire, both, "consumer_byte_rate", 2000) == 0
        user = ComponentData(entity_type="user", match_type=EXACT, match=topic)
        default = ComponentData(entity_type="client-id", match_type=DEFAULT, match=None)
        first: tuple[Entity, dict[str, float]] = (
            {"user": topic},
            {"producer_byte_rate": 1000.0, "request_percentage": 12.5},
        )
        second = (both, {"consumer_byte_rate": 2000.0})
        # A change may become visible a moment later.
        while second not in await described(wire, user):
            pass
        assert sorted(await described(wire, user), key=lambda each: len(each[0])) == [first, second]
        assert await described(wire, user, strict=True) == [first]
        assert await described(wire, user, default) == [second]
        for entity, quotas in (first, second):
            for key in quotas:
                assert await alter(wire, entity, key, None) == 0
        while await described(wire, user):
            pass
        assert await alter(wire, {"user": topic}, "producer_byte_rate", None) == 0


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        ({}, "producer_byte_rate", 1.0),
        ({"user": ""}, "producer_byte_rate", 1.0),
        ({"group": "g"}, "producer_byte_rate", 1.0),
        ({"user": "a", "ip": "10.0.0.1"}, "connection_creation_rate", 1.0),
        ({"ip": "10.0.0.1"}, "producer_byte_rate", 1.0),
        ({"user": "a"}, "connection_creation_rate", 1.0),
        ({"user": "a"}, "producer_byte_rates", 1.0),
        ({"user": "a"}, "producer_byte_rate", -1.0),
        ({"user": "a"}, "producer_byte_rate", 0.5),
        ({"user": "a"}, "producer_byte_rate", 1e30),
        ({"ip": None}, "connection_creation_rate", 1e10),
    ],
)
async def test_invalid_quotas_are_refused(cluster: BehaviourCluster, entity: Entity, key: str, value: float) -> None:
    async with connect(cluster) as wire:
        assert await alter(wire, entity, key, value) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("component", "error"),
    [
        (ComponentData(entity_type="", match_type=EXACT, match="a"), ErrorCode.INVALID_REQUEST),
        (ComponentData(entity_type="group", match_type=EXACT, match="a"), ErrorCode.UNSUPPORTED_VERSION),
        (ComponentData(entity_type="user", match_type=EXACT, match=None), ErrorCode.INVALID_REQUEST),
        (ComponentData(entity_type="user", match_type=ANY, match="a"), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_invalid_filters_are_refused(
    cluster: BehaviourCluster, component: ComponentData, error: ErrorCode
) -> None:
    async with connect(cluster) as wire:
        response = await wire.ask(DescribeClientQuotasRequest(components=[component], strict=False), 1)
        assert response.error_code == error


@pytest.mark.usefixtures("alone")
async def test_a_producer_above_its_quota_is_throttled(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    async with limited(cluster, topic, "producer_byte_rate", 20_000) as wire:
        offset = 0
        while True:
            response = await wire.ask(produce_request(topic, batch([bytes(50_000)])), 9)
            partition = response.responses[0].partition_responses[0]
            if offset == 0 and partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                # A real broker reports a new topic a moment before it accepts records for it.
                continue
            # The broker stores the records above the quota all the same.
            assert (partition.error_code, partition.base_offset) == (0, offset)
            offset += 1
            if response.throttle_time_ms:
                break


async def test_partitions_beyond_the_quota_are_refused(cluster: BehaviourCluster, topic: str) -> None:
    def asking(number: int) -> CreateTopicsRequest:
        new = CreatableTopic(name=f"{topic}-{number}", num_partitions=12, replication_factor=1)
        return CreateTopicsRequest(topics=[new])

    async with limited(cluster, topic, "controller_mutation_rate", 1) as wire:
        number = 0
        while True:
            response = await wire.ask(asking(number), 7)
            number += 1
            if response.topics[0].error_code:
                break
        # The first request may exceed the whole quota.
        assert number >= 2
        assert response.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert response.throttle_time_ms > 0

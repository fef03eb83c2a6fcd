"""Brokers that send clients back to the bootstrap addresses (KIP-1102), and brokers that no longer exist (KIP-899)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Broker
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from aiokproto.codec.schema import Request, Response
from aiokproto.error_codes import ErrorCode
from tests.clusters import BehaviourCluster
from tests.net.peer import Answer, HangUp, Peer, peer, serves


class Leaving:
    """A cluster of one broker, which can be replaced by another one at the same address."""

    def __init__(self, successor: str) -> None:
        self.left = False
        self.closes = False
        self.refusals = 0
        self.old: Peer | None = None
        self._successor = successor

    def versions(self, request: ApiVersionsRequest, version: int) -> Response | bytes | None:
        if self.closes:
            raise HangUp
        return serves(Metadata=(0, 13))(request, version)

    def metadata(self, request: MetadataRequest, version: int) -> Response:
        if self.closes:
            raise HangUp
        assert version >= 13
        if self.left:
            self.refusals += 1
            return MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
        assert self.old is not None
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=7, host="127.0.0.1", port=self.old.port)], controller_id=7
        )

    async def address(self, host: str, port: int) -> tuple[str, int]:
        assert self.old is not None
        if host != "kafka.test":
            return host, port
        address, _, number = (self._successor if self.left else self.old.address).partition(",")[0].rpartition(":")
        return address, int(number)


@pytest.mark.parametrize("closes", [False, True])
async def test_a_replaced_cluster_is_left_for_the_one_at_the_bootstrap_addresses(
    cluster: BehaviourCluster, topic: str, closes: bool
) -> None:
    """The broker says so in Metadata v13, or no longer exists. Producer and consumer continue without being created
    again."""
    await cluster.create_topic(topic, 1)
    leaving = Leaving(cluster.bootstrap_servers)
    options: Any = {"bootstrap_servers": "kafka.test:9092", "address_map": leaving.address, "retry_backoff_ms": 10}
    answers: dict[type[Request[Any]], Answer] = {
        ApiVersionsRequest: leaving.versions,
        MetadataRequest: leaving.metadata,
    }
    async with (
        peer(answers) as leaving.old,
        Producer(**options) as producer,
        Consumer(**options, auto_offset_reset="earliest") as consumer,
    ):
        leaving.left, leaving.closes = True, closes
        if closes:
            leaving.old.drop_all()
        delivered = await producer.send(topic, b"value")
        assert delivered.offset == 0
        consumer.assign((topic, 0))
        assert (await anext(consumer)).value == b"value"
    assert bool(leaving.refusals) is not closes


async def values(consumer: Consumer, count: int) -> set[bytes | None]:
    """Read so many different records."""
    found: set[bytes | None] = set()
    while len(found) < count:
        found.add((await anext(consumer)).value)
    return found


@pytest.fixture
def members() -> list[dict[str, Any]]:
    """The options of a member of each protocol."""
    return [{"group_id": "classic"}, {"group_id": "new", "group_protocol": "consumer"}]


async def test_all_clients_follow_a_cluster_whose_brokers_all_have_new_addresses(
    tmp_path: Path, members: list[dict[str, Any]]
) -> None:
    """Containers restart with other ports, so only the bootstrap name leads to the broker. Nothing is lost."""
    where: list[str] = []

    def current(host: str, port: int) -> tuple[str, int]:
        if host != "kafka.test":
            return host, port
        address, _, number = where[-1].rpartition(":")
        return address, int(number)

    options: dict[str, Any] = {"bootstrap_servers": "kafka.test:9092", "address_map": current, "retry_backoff_ms": 10}
    first = Broker(data_dir=tmp_path)
    await first.start()
    await first.create_topic("t", 1)
    where.append(first.bootstrap_servers)
    producer, transactional = Producer(**options, linger_ms=0), Producer(**options, linger_ms=0, transactional_id="x")
    consumers = [Consumer("t", **options, **member, auto_offset_reset="earliest") for member in members]
    async with producer, transactional, consumers[0], consumers[1]:
        await producer.send("t", b"1")
        async with transactional.transaction() as transaction:
            await transaction.send("t", b"2")
        for consumer in consumers:
            assert await values(consumer, 2) == {b"1", b"2"}
        await first.close()
        sending = asyncio.ensure_future(producer.send("t", b"3"))
        async with Broker(data_dir=tmp_path) as second:
            assert second.bootstrap_servers != where[0]
            where.append(second.bootstrap_servers)
            assert (await sending).offset == 3
            async with transactional.transaction() as transaction:
                await transaction.send("t", b"4")
            for consumer in consumers:
                assert await values(consumer, 2) == {b"3", b"4"}
                await consumer.commit()

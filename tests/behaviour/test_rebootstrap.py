"""Brokers that send their clients back to the bootstrap addresses (KIP-1102), and brokers that are gone (KIP-899)."""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from aiokproto.codec.schema import Request, Response
from aiokproto.error_codes import ErrorCode
from tests.clusters import BehaviourCluster
from tests.net.peer import Answer, HangUp, Peer, peer, serves


class Leaving:
    """A cluster of one broker that is about to be replaced; its address is that of the next one from then on."""

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
    """It says so in Metadata v13, or is gone. Producer and consumer go on without being created again."""
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

"""``broker_version`` says an older release than the broker is: it closes connections, and the client says why.

On the embedded broker with the versions of Kafka 4.4, and on real Kafka.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal, TypeAlias

import pytest

from aiokproto import Consumer, Producer
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.codec.releases import versions_of
from aiokproto.codec.schema import Request
from aiokproto.errors import DeadlineError
from tests.clusters import BehaviourCluster, embedded_cluster, real_cluster
from tests.conftest import ON_BOTH
from tests.timeouts import LONG_TIMEOUT

Release: TypeAlias = Literal["0.8.2", "0.9"]


@pytest.fixture(params=ON_BOTH)
async def newer(request: pytest.FixtureRequest) -> AsyncIterator[BehaviourCluster]:
    """A cluster of Kafka 4, which has dropped the oldest versions (KIP-896)."""
    if request.param == "kafka":
        async with real_cluster(request.getfixturevalue("kafka1")) as cluster:
            yield cluster
        return
    versions: dict[int | type[Request[Any]], str] = {
        api: f"{served.lowest}-{served.highest}" for api, served in versions_of("4.4").items()
    }
    # Kafka also lists the dropped versions, for librdkafka, and closes the connection on them.
    versions[ProduceRequest.api_key] = "3-13"
    async with embedded_cluster(1, as_version=versions) as cluster:
        yield cluster


async def send(servers: str, topic: str, release: Release) -> None:
    async with Producer(
        bootstrap_servers=servers, broker_version=release, enable_idempotence=False, delivery_timeout_ms=3_000
    ) as producer:
        with pytest.raises(DeadlineError, match=f"broker_version='{release}' may be wrong"):
            await producer.send(topic, b"value")


async def read(servers: str, topic: str, release: Release) -> None:
    async with Consumer(
        topic, bootstrap_servers=servers, broker_version=release, auto_offset_reset="earliest"
    ) as consumer:
        async for _ in consumer:
            raise AssertionError("there is no record")


@pytest.mark.parametrize("release", ["0.8.2", "0.9"])
@pytest.mark.parametrize(("work", "api"), [(send, "Produce"), (read, "ListOffsets")])
async def test_a_broker_that_closes_connections_on_old_versions_is_a_warning(
    newer: BehaviourCluster,
    topic: str,
    caplog: pytest.LogCaptureFixture,
    work: Callable[[str, str, Release], Awaitable[None]],
    api: str,
    release: Release,
) -> None:
    """The log says it once, long before a call fails, although the request is repeated many times."""
    await newer.create_topic(topic)

    def warned() -> list[str]:
        return [record.getMessage() for record in caplog.records if "is probably wrong" in record.getMessage()]

    async def seen() -> None:
        while not warned():
            await asyncio.sleep(0)

    with caplog.at_level(logging.WARNING, "aiokproto.cluster"):
        works = asyncio.ensure_future(work(newer.bootstrap_servers, topic, release))
        try:
            await asyncio.wait_for(seen(), LONG_TIMEOUT)
            if api == "Produce":
                await works
        finally:
            works.cancel()
            await asyncio.gather(works, return_exceptions=True)
    (text,) = warned()
    assert f"closes the connection on {api} in the version of Kafka {release}: broker_version={release!r}" in text

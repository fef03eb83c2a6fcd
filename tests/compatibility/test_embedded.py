"""The embedded broker in the place of brokers before 0.11: what tests of an application see."""

from __future__ import annotations

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Cluster
from aiokproto.errors import UnsupportedVersionError


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("release", ["0.8.2", "0.9", "0.10.0", "0.10.2"])
async def test_records_are_written_and_read(release: str, codec: str) -> None:
    async with Cluster(as_version=release) as cluster:
        await cluster.create_topic("flights")
        servers = cluster.bootstrap_servers
        values = [b"%d" % number for number in range(50)]
        async with Producer(bootstrap_servers=servers, compression_type=codec, linger_ms=5) as producer:  # type: ignore[arg-type]
            assert not producer.config.idempotent
            assert not (await producer.send_many("flights", values)).errors
            with pytest.raises(UnsupportedVersionError, match=r"headers of records need Kafka 0\.11"):
                await producer.send("flights", b"0", headers=[("a", b"b")])
        async with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign(("flights", 0))
            found: list[bytes | None] = []
            async for record in consumer:
                found.append(record.value)
                if len(found) == len(values):
                    break
        assert found == values


async def test_a_group_on_0_8_is_an_error() -> None:
    async with Cluster(as_version="0.8.2") as cluster:
        await cluster.create_topic("flights")
        async with Consumer("flights", bootstrap_servers=cluster.bootstrap_servers, group_id="g") as consumer:
            with pytest.raises(UnsupportedVersionError, match=r"membership in a group needs Kafka 0\.9 or later"):
                await anext(consumer)


@pytest.mark.parametrize("release", ["0.8.2", "0.9", "0.10.0"])
async def test_a_time_is_an_error_before_0_10_1(release: str) -> None:
    async with Cluster(as_version=release) as cluster:
        await cluster.create_topic("flights")
        async with Consumer(
            bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="by_duration:PT1H"
        ) as consumer:
            consumer.assign(("flights", 0))
            with pytest.raises(UnsupportedVersionError, match=r"offsets for a time need Kafka 0\.10\.1 or later"):
                await anext(consumer)
            consumer.seek_to_time(0)
            with pytest.raises(UnsupportedVersionError, match="offsets for a time"):
                await anext(consumer)

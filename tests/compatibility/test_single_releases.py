"""What single releases do that others do not."""

from __future__ import annotations

import pytest

from aiokproto import Client, Consumer, Producer
from aiokproto.codec.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.errors import BrokerError, InvalidTopicError
from tests.kafka.pool import KafkaPool
from tests.kafka.releases import RELEASES, cluster_of, missing

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


async def test_a_cluster_without_topics_is_used_by_its_bootstrap_address() -> None:
    """0.8 lists no brokers until the first topic exists, and a request for that topic creates it."""
    if reason := missing(RELEASES[0]):
        pytest.skip(reason)
    with cluster_of(RELEASES[0]) as cluster:
        servers = cluster.bootstrap_servers
        async with Client(bootstrap_servers=servers) as client:
            assert not client.brokers
            # The request may go to any broker, and the bootstrap address is one.
            assert (await client.request(MetadataRequest(topics=[]))).topics == []
        async with Producer(bootstrap_servers=servers) as producer:
            # The client doesn't send the name, because the broker would refuse the other topic, too.
            with pytest.raises(InvalidTopicError):
                await producer.send("not a name!", b"0")
            assert (await producer.send("first", b"0", partition=0)).offset == 0
        async with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign(("first", 0))
            async for record in consumer:
                assert record.value == b"0"
                break


async def test_a_topic_with_an_old_format_takes_records_without_idempotence(kafka_pool: KafkaPool, topic: str) -> None:
    """The error of an idempotent producer says what to do. Topics have no format of their own since Kafka 4.0."""
    if reason := missing("2.8.2"):
        pytest.skip(reason)
    with kafka_pool.lease("2.8.2") as cluster:
        servers = cluster.bootstrap_servers
        async with Client(bootstrap_servers=servers) as client:
            old = CreatableTopicConfig(name="message.format.version", value="0.10.2")
            wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, configs=[old])
            response = await client.request(CreateTopicsRequest(topics=[wanted], timeout_ms=20_000))
            assert [result.error_code for result in response.topics] == [0]
        async with Producer(bootstrap_servers=servers) as producer:
            with pytest.raises(BrokerError, match=r"message\.format\.version.*enable_idempotence=False"):
                await producer.send(topic, b"0")
        async with Producer(bootstrap_servers=servers, enable_idempotence=False) as producer:
            assert (await producer.send(topic, b"0")).offset == 0

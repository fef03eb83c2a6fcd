"""Racks of brokers, and reading from the replica in the consumer's own (KIP-392), on both kinds of cluster."""

from __future__ import annotations

from aiokproto import Client, Consumer
from aiokproto.codec.messages.describe_cluster import DescribeClusterRequest
from aiokproto.codec.messages.metadata import MetadataRequest
from tests.behaviour.feed import fill
from tests.clusters import BehaviourCluster
from tests.timeouts import LONG_TIMEOUT


async def test_brokers_report_their_racks(cluster3: BehaviourCluster) -> None:
    expected = {node: f"rack-{node}" for node in cluster3.broker_ids}
    async with Client(bootstrap_servers=cluster3.bootstrap_servers) as client:
        metadata = await client.request(MetadataRequest(topics=[]))
        assert {node.node_id: node.rack for node in metadata.brokers} == expected
        described = await client.request(DescribeClusterRequest())
        assert {node.broker_id: node.rack for node in described.brokers} == expected


async def test_each_consumer_reads_from_the_replica_in_its_rack(cluster3: BehaviourCluster, topic: str) -> None:
    await cluster3.create_topic(topic, replication=3)
    await fill(cluster3, topic, 20)
    for node in cluster3.broker_ids:
        async with Consumer(
            topic,
            bootstrap_servers=cluster3.bootstrap_servers,
            auto_offset_reset="earliest",
            client_rack=f"rack-{node}",
            default_api_timeout_ms=LONG_TIMEOUT * 1000,
        ) as consumer:
            assert [(await anext(consumer)).offset for _ in range(20)] == list(range(20))
            while consumer.partition_state((topic, 0)).detail != f"from broker {node}":
                assert await consumer.poll(10) == []


async def test_a_consumer_of_another_rack_reads_from_the_leader(cluster3: BehaviourCluster, topic: str) -> None:
    await cluster3.create_topic(topic, replication=3)
    leader = await cluster3.move_leader(topic, 0)
    await fill(cluster3, topic, 20)
    async with Consumer(
        topic, bootstrap_servers=cluster3.bootstrap_servers, auto_offset_reset="earliest", client_rack="elsewhere"
    ) as consumer:
        assert [(await anext(consumer)).offset for _ in range(20)] == list(range(20))
        while consumer.partition_state((topic, 0)).detail != f"from broker {leader}":
            assert await consumer.poll(10) == []

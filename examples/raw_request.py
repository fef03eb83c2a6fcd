"""Any request of the protocol, routed and with its version negotiated."""

import asyncio

from aiokproto import Broker, Client
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from aiokproto.codec.messages.describe_cluster import DescribeClusterRequest
from aiokproto.codec.registry import api_name


async def main() -> None:
    async with Broker() as broker, Client(bootstrap_servers=broker.bootstrap_servers) as client:
        topic = CreatableTopic(name="made", num_partitions=2, replication_factor=1)
        created = await client.request(CreateTopicsRequest(topics=[topic], timeout_ms=5_000))
        print([(result.name, result.error_code) for result in created.topics])

        cluster = await client.request(DescribeClusterRequest(include_cluster_authorized_operations=False))
        print("cluster", cluster.cluster_id, "has brokers", [node.broker_id for node in cluster.brokers])

        versions = await client.request(ApiVersionsRequest(client_software_name="example", client_software_version="1"))
        for api in versions.api_keys[:5]:
            print(f"{api_name(api.api_key)}: {api.min_version} to {api.max_version}")


asyncio.run(main())

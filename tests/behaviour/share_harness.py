"""Members of a share group, made of single requests, each on its own connection."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from aiokproto.client import Client
from aiokproto.codec.messages import share_acknowledge, share_fetch
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokproto.codec.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from aiokproto.codec.messages.share_fetch import PartitionData, ShareFetchRequest, ShareFetchResponse
from aiokproto.codec.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from aiokproto.error_codes import ErrorCode
from aiokproto.records import decode
from tests.broker.wire import Wire, batch, connect_to
from tests.clusters import BehaviourCluster
from tests.kafka.config import HEARTBEAT_MS
from tests.timeouts import LONG_TIMEOUT

GROUP_RESOURCE = 32
INTERVAL_MS = HEARTBEAT_MS + 1
"""A heartbeat interval that no group has by default."""
BROKER_CONFIG = {"group.share.min.heartbeat.interval.ms": HEARTBEAT_MS}
"""What allows it on a broker that is not one of `tests.clusters`."""

Ack = tuple[int, int, Sequence[int]]
"""First offset, last offset, and their acknowledge types."""


class Member:
    """A member of a share group that reads one topic."""

    def __init__(self, harness: ShareHarness, wire: Wire, name: str) -> None:
        self.harness = harness
        self.wire = wire
        self.name = name
        self.epoch = 0
        self.group_epoch = 0
        self.assigned: list[int] = []

    async def heartbeat(self) -> ShareGroupHeartbeatResponse:
        """Join, or stay."""
        response = await self.harness.client.request(
            ShareGroupHeartbeatRequest(
                group_id=self.harness.group,
                member_id=self.name,
                member_epoch=self.group_epoch,
                subscribed_topic_names=[self.harness.topic] if self.group_epoch == 0 else None,
            )
        )
        assert response.error_code == 0, response
        self.group_epoch = response.member_epoch
        if response.assignment is not None:
            self.assigned = [index for topic in response.assignment.topic_partitions for index in topic.partitions]
        return response

    async def leave(self) -> None:
        """Leave the group."""
        request = ShareGroupHeartbeatRequest(group_id=self.harness.group, member_id=self.name, member_epoch=-1)
        response = await self.harness.client.request(request)
        assert response.error_code == 0, response

    async def fetch(
        self,
        *acks: Ack,
        wait: int = 0,
        most: int = 500,
        partitions: Sequence[int] = (0,),
        epoch: int | None = None,
        version: int = 2,
        bytes_wanted: int = 1 << 20,
        **fields: Any,
    ) -> ShareFetchResponse:
        """Send one request, with the session's next epoch by default."""
        requested_partitions = [
            share_fetch.FetchPartition(
                partition_index=index,
                partition_max_bytes=0 if version else bytes_wanted,
                acknowledgement_batches=[
                    share_fetch.AcknowledgementBatch(
                        first_offset=first, last_offset=last, acknowledge_types=list(types)
                    )
                    for first, last, types in acks
                ],
            )
            for index in partitions
        ]
        sent = self.epoch if epoch is None else epoch
        min_bytes = fields.pop("min_bytes", 1 if wait else 0)
        forgotten = fields.pop("forgotten", [])
        fields = {"max_records": most, "batch_size": most, **fields} if version else fields
        request = ShareFetchRequest(
            group_id=self.harness.group,
            member_id=self.name,
            share_session_epoch=sent,
            max_wait_ms=wait,
            min_bytes=min_bytes,
            topics=[share_fetch.FetchTopic(topic_id=self.harness.topic_id, partitions=requested_partitions)]
            if requested_partitions
            else [],
            forgotten_topics_data=forgotten,
            **fields,
        )
        response = await self.wire.ask(request, version)
        if response.error_code == 0:
            self.epoch = sent + 1
        return response

    async def acquire(self, *acks: Ack, **fields: Any) -> dict[int, int]:
        """Fetch until records are acquired; returns their delivery counts by offset."""
        (only,) = await self.acquire_all(*acks, **fields)
        return only

    async def acquire_all(self, *acks: Ack, **fields: Any) -> list[dict[int, int]]:
        """As :meth:`acquire`, for each partition with records."""
        while True:
            response = await self.fetch(*acks, **{"wait": 500, **fields})
            assert response.error_code == 0, response
            parts = parts_of(response)
            assert not any(part.acknowledge_error_code for part in parts), response
            # Kafka's error for a partition whose state has just been initialized.
            assert all(ErrorCode(part.error_code).retriable for part in parts if part.error_code), response
            if any(part.acquired_records for part in parts):
                return [deliveries(part) for part in parts if part.acquired_records]
            acks = ()

    async def acknowledge(
        self, *acks: Ack, partition: int = 0, epoch: int | None = None, renew: bool = False, version: int = 2
    ) -> ShareAcknowledgeResponse:
        """Send one request, with the session's next epoch by default."""
        batches = [
            share_acknowledge.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
            for first, last, types in acks
        ]
        requested_partition = share_acknowledge.AcknowledgePartition(
            partition_index=partition, acknowledgement_batches=batches
        )
        topic = share_acknowledge.AcknowledgeTopic(topic_id=self.harness.topic_id, partitions=[requested_partition])
        sent = self.epoch if epoch is None else epoch
        request = ShareAcknowledgeRequest(
            group_id=self.harness.group,
            member_id=self.name,
            share_session_epoch=sent,
            is_renew_ack=renew,
            topics=[topic] if batches else [],
        )
        response = await self.wire.ask(request, version)
        if response.error_code == 0:
            self.epoch = sent + 1
        return response

    async def acknowledge_error(self, *acks: Ack, partition: int = 0, renew: bool = False) -> ErrorCode:
        """Acknowledge, and return the error code."""
        response = await self.acknowledge(*acks, partition=partition, renew=renew)
        assert response.error_code == 0, response
        return ErrorCode(response.responses[0].partitions[0].error_code)


def parts_of(response: ShareFetchResponse) -> list[PartitionData]:
    """The partitions of a response."""
    return [part for topic in response.responses for part in topic.partitions]


def deliveries(part: PartitionData) -> dict[int, int]:
    """The delivery counts of the acquired records by offset. All of these are in the response."""
    counts = {
        offset: each.delivery_count
        for each in part.acquired_records
        for offset in range(each.first_offset, each.last_offset + 1)
    }
    spans = [(found.base_offset, found.last_offset) for found in decode(part.records or b"")]
    assert all(any(first <= offset <= last for first, last in spans) for offset in counts)
    return counts


class ShareHarness:
    """A share group, a topic and its members."""

    def __init__(self, client: Client, topic: str, topic_id: bytes) -> None:
        self.client = client
        self.group = topic
        self.topic = topic
        self.topic_id = topic_id

    async def produce(self, *sizes: int, partition: int = 0, age: float = 0) -> None:
        """Write batches with given numbers of records, which are some seconds old."""
        timestamp = int((time.time() - age) * 1000)
        for size in sizes:
            data = batch([b"v%d" % number for number in range(size)], timestamp)
            written = TopicProduceData(
                topic_id=self.topic_id, partition_data=[PartitionProduceData(index=partition, records=data)]
            )
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            while code:
                assert code.retriable, code
                response = await self.client.request(
                    ProduceRequest(acks=-1, timeout_ms=int(LONG_TIMEOUT * 1000), topic_data=[written])
                )
                code = ErrorCode(response.responses[0].partition_responses[0].error_code)

    async def configure(self, **options: str) -> None:
        """Set options of the group, named with underscores; returns once all brokers have them."""
        options["heartbeat_interval_ms"] = str(INTERVAL_MS)
        changes = [
            AlterableConfig(name=f"share.{name.replace('_', '.')}", config_operation=0, value=value)
            for name, value in options.items()
        ]
        resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=self.group, configs=changes)
        response = await self.client.request(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        assert response.responses[0].error_code == 0, response
        wanted = {change.name: change.value for change in changes}
        requested_resource = DescribeConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=self.group, configuration_keys=list(wanted)
        )
        for node in self.client.brokers:
            known = None
            while known != wanted:
                found = await self.client.request(DescribeConfigsRequest(resources=[requested_resource]), node=node)
                known = {each.name: each.value for each in found.results[0].configs}

    @asynccontextmanager
    async def member(self, partition: int = 0) -> AsyncIterator[Member]:
        """A member that has joined, with a connection to the leader of a partition."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)])
        known = await self.client.request(request)
        leader = known.topics[0].partitions[partition].leader_id
        (node,) = [node for node in known.brokers if node.node_id == leader]
        async with connect_to(f"{node.host}:{node.port}") as wire:
            member = Member(self, wire, str(uuid4()))
            # A real broker describes options a moment before the group has them; heartbeats show when it does.
            while (await member.heartbeat()).heartbeat_interval_ms != INTERVAL_MS or not member.assigned:
                pass
            yield member


@asynccontextmanager
async def share_harness(
    cluster: BehaviourCluster, topic: str, partitions: int = 1, replication: int | None = None, **options: str
) -> AsyncIterator[ShareHarness]:
    """A new topic, and a group that reads it from the start."""
    await cluster.create_topic(topic, partitions=partitions, replication=replication)
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        found = (await client.metadata([topic]))[topic]
        made = ShareHarness(client, topic, found.topic_id)
        await made.configure(**{"auto_offset_reset": "earliest", **options})
        yield made

"""The verb `records` on the files of real Kafka, which are decoded in full and come back byte for byte."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from aiokproto import Client, Consumer, Producer, records
from aiokproto.codec.messages import initialize_share_group_state as initialize
from aiokproto.codec.messages import write_share_group_state as write
from aiokproto.codec.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from aiokproto.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from aiokproto.codec.messages.end_txn import EndTxnRequest
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokproto.codec.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from aiokproto.codec.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from aiokproto.codec.schema import Request
from aiokproto.error_codes import ErrorCode
from tests.clusters import real_cluster
from tests.codec.tool.conftest import Run
from tests.kafka.cluster import KafkaCluster
from tests.timeouts import LONG_TIMEOUT

pytestmark = pytest.mark.kafka

LOADING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


@contextmanager
def cluster_in(folder: Path) -> Iterator[KafkaCluster]:
    """Start a broker whose files are in a folder that the test knows."""
    with KafkaCluster(1, config={"log.dirs": str(folder)}) as cluster:
        yield cluster


async def use(cluster: KafkaCluster) -> None:
    """Make the cluster write to all of its own topics."""
    async with real_cluster(cluster) as prepared:
        await prepared.create_topic("used")
    bootstrap = cluster.bootstrap_servers
    async with Producer(bootstrap_servers=bootstrap, compression_type="gzip") as producer:
        outcomes = await producer.send_many("used", [b"first", b"second"])
        assert not outcomes.errors
    async with Consumer(
        "used", bootstrap_servers=bootstrap, group_id="classic", auto_offset_reset="earliest"
    ) as consumer:
        async for record in consumer:
            if record.value == b"second":
                break
        await consumer.commit()
    async with Client(bootstrap_servers=bootstrap) as client:
        await transaction(client, committed=True)
        await transaction(client, committed=False)
        await groups(client)
        await share_state(client)


async def transaction(client: Client, *, committed: bool) -> None:
    begun = await client.request(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=600_000))
    assert begun.error_code == 0
    who: dict[str, Any] = {"producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
    added = await client.request(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="t",
            v3_and_below_producer_id=begun.producer_id,
            v3_and_below_producer_epoch=begun.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="used", partitions=[0])],
        ),
        max_version=3,
    )
    assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    now = int(time.time() * 1000)
    data = records.encode([records.BatchRecord(0, now, b"k", b"v")], base_sequence=0, is_transactional=True, **who)
    topic = TopicProduceData(name="used", partition_data=[PartitionProduceData(index=0, records=data)])
    sent = ProduceRequest(transactional_id="t", acks=-1, timeout_ms=10_000, topic_data=[topic])
    produced = await client.request(sent, max_version=11)
    assert produced.responses[0].partition_responses[0].error_code == 0
    ended = await client.request(EndTxnRequest(transactional_id="t", committed=committed, **who), max_version=4)
    assert ended.error_code == 0


async def groups(client: Client) -> None:
    """Add a member of a group of each new kind."""
    await consuming(client)
    shared = await client.request(
        ShareGroupHeartbeatRequest(
            group_id="sharers", member_id="AAAAAAAAAAAAAAAAAAAAAg", member_epoch=0, subscribed_topic_names=["used"]
        )
    )
    assert shared.error_code == 0, shared.error_message
    topology = Topology(
        epoch=0,
        subtopologies=[
            Subtopology(
                subtopology_id="0",
                source_topics=["used"],
                source_topic_regex=[],
                state_changelog_topics=[],
                repartition_sink_topics=[],
                repartition_source_topics=[],
                copartition_groups=[],
            )
        ],
    )
    streaming = await client.request(
        StreamsGroupHeartbeatRequest(
            group_id="streamers",
            member_id="AAAAAAAAAAAAAAAAAAAAAw",
            member_epoch=0,
            endpoint_information_epoch=0,
            rebalance_timeout_ms=1000,
            topology=topology,
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id="p",
            client_tags=[],
        )
    )
    assert streaming.error_code == 0, streaming.error_message


async def consuming(client: Client) -> None:
    """Add a member whose topics match an expression. The coordinator looks them up after it has responded."""
    deadline = time.monotonic() + LONG_TIMEOUT
    who: dict[str, Any] = {"group_id": "consumers", "member_id": "AAAAAAAAAAAAAAAAAAAAAQ"}
    answer = await client.request(
        ConsumerGroupHeartbeatRequest(
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[],
            subscribed_topic_regex="us.*",
            topic_partitions=[],
            **who,
        )
    )
    while answer.assignment is None or not answer.assignment.topic_partitions:
        assert answer.error_code == 0, answer.error_message
        assert time.monotonic() < deadline
        answer = await client.request(ConsumerGroupHeartbeatRequest(member_epoch=answer.member_epoch, **who))


async def share_state(client: Client) -> None:
    """Return what the leader of a share group's partition has stored: a snapshot, and an update of it."""
    deadline = time.monotonic() + LONG_TIMEOUT
    metadata = await client.request(MetadataRequest(topics=[MetadataRequestTopic(name="used")]))
    topic_id = metadata.topics[0].topic_id
    key = f"g:{urlsafe_b64encode(topic_id).decode().rstrip('=')}:0"
    part = initialize.PartitionData(partition=0, state_epoch=1, start_offset=0)
    topic = initialize.InitializeStateData(topic_id=topic_id, partitions=[part])
    request = initialize.InitializeShareGroupStateRequest(group_id="g", topics=[topic])
    # The error of a coordinator that isn't ready yet is inside the response, and the client leaves it to the caller.
    while (code := await error_code(client, request, key)) in LOADING:
        assert time.monotonic() < deadline, code
    assert code == 0
    state = [write.StateBatch(first_offset=0, last_offset=1, delivery_state=2, delivery_count=1)]
    update = write.PartitionData(partition=0, state_epoch=1, leader_epoch=0, start_offset=0, state_batches=state)
    changed = write.WriteStateData(topic_id=topic_id, partitions=[update])
    assert await error_code(client, write.WriteShareGroupStateRequest(group_id="g", topics=[changed]), key) == 0


async def error_code(client: Client, request: Request[Any], key: str) -> int:
    answer = await client.request(request, key=key)
    code: int = answer.results[0].partitions[0].error_code
    return code


def payloads(batches: Iterable[Any]) -> set[str]:
    """Return the messages that keys and values hold."""
    contents = [record[field] for batch in batches for record in batch["records"] for field in ("key", "value")]
    return {content["payload"] for content in contents if isinstance(content, dict)}


EXPECTED = {
    "__cluster_metadata": {"RegisterBrokerRecord", "TopicRecord", "PartitionRecord", "LeaderChangeMessage"},
    "__consumer_offsets": {
        "OffsetCommitKey",
        "OffsetCommitValue",
        "GroupMetadataKey",
        "GroupMetadataValue",
        "ConsumerGroupMemberMetadataValue",
        "ConsumerGroupRegularExpressionValue",
        "ShareGroupMemberMetadataValue",
        "StreamsGroupTopologyValue",
    },
    "__transaction_state": {"TransactionLogKey", "TransactionLogValue"},
    "__share_group_state": {"ShareSnapshotKey", "ShareSnapshotValue", "ShareUpdateKey", "ShareUpdateValue"},
    "used": {"ControlRecordTypeSchema", "EndTxnMarker"},
}


async def test_segments_of_kafka(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with cluster_in(folder) as cluster:
        await use(cluster)
        # The broker stops in good order, so nothing is being written any more.
        cluster.stop_broker(1)
    opened: dict[str, set[str]] = {}
    for path in folder.glob("*/*.log"):
        if not path.stat().st_size:
            continue
        code, out, err = run("records", str(path))
        assert (code, err) == (0, ""), path
        topic = path.parent.name.rpartition("-")[0]
        opened.setdefault(topic, set()).update(payloads(map(json.loads, out.splitlines())))
        code, again, err = run("encode", "-", stdin=out.encode())
        assert (code, err) == (0, ""), path
        assert bytes.fromhex(again.replace("\n", "")) == path.read_bytes(), path
    assert {topic: names & opened[topic] for topic, names in EXPECTED.items()} == EXPECTED

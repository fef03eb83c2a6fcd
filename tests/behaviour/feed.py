"""Writes records to topics by raw Produce requests, for tests of reading."""

from __future__ import annotations

import time
from collections.abc import Sequence

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokproto.config import ClusterConfig
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerConnectionError, check
from aiokproto.records import BatchRecord, Compression, encode
from tests.clusters import BehaviourCluster
from tests.patience import PATIENCE

HOUR_MS = 3_600_000
EPOCH = int(time.time() * 1000)
"""Timestamp of the first record. Recent: brokers delete records older than the retention time."""


def value(number: int) -> bytes:
    return f"value-{number}".encode()


async def append(
    cluster: ClusterClient, topic: str, partition: int, data: bytes | bytearray, transactional_id: str | None = None
) -> int:
    """Produce a record set; returns the offset of its first record."""
    info = await cluster.topic(topic)
    partitions = [PartitionProduceData(index=partition, records=data)]
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=int(PATIENCE * 1000),
        topic_data=[TopicProduceData(name=topic, topic_id=info.topic_id, partition_data=partitions)],
    )
    while True:
        leader = cluster.snapshot.leader(topic, partition)
        if leader is not None and await _reached(cluster, leader):
            answer = (await cluster.send(request, leader)).responses[0].partition_responses[0]
            if not ErrorCode(answer.error_code).refresh_metadata:
                break
        # Just elected: a broker may not know of it yet, even if another one already reported this leader.
        generation = cluster.snapshot.generation
        cluster.metadata.invalidate("the leader moved")
        await cluster.metadata.wait_for_update(generation)
    check(answer.error_code, f"Produce to {topic}-{partition}")
    return answer.base_offset


async def _reached(cluster: ClusterClient, node: int) -> bool:
    """Whether a broker can be reached; nothing is sent that could be sent twice."""
    try:
        await cluster.version(ProduceRequest, node)
    except BrokerConnectionError:
        return False
    return True


async def fill(
    broker: BehaviourCluster,
    topic: str,
    count: int,
    partitions: Sequence[int] = (0,),
    *,
    start: int = 0,
    per_batch: int = 10,
    compression: Compression = Compression.NONE,
) -> None:
    """Records ``start`` to ``start + count`` into each partition: value ``value-N``, timestamp ``EPOCH + N``."""
    # The broker times out sooner, by its own clock: the test's clock may run ahead while the loop is busy.
    options = {"bootstrap_servers": broker.bootstrap_servers, "request_timeout_ms": HOUR_MS}
    async with ClusterClient(ClusterConfig.parse(options)) as cluster:
        for partition in partitions:
            for first in range(start, start + count, per_batch):
                numbers = range(first, min(first + per_batch, start + count))
                records = [BatchRecord(0, EPOCH + number, b"key", value(number)) for number in numbers]
                await append(cluster, topic, partition, encode(records, compression=compression))

"""Clients that want the broker's memory, time or connections; and requests that no client sends.

``tests/simulation/test_hostile_clients.py`` has those of many seeds, in virtual time.
"""

from __future__ import annotations

import asyncio
import mmap
from pathlib import Path

import pytest

from aiokproto.broker import Broker
from aiokproto.broker.server.client_connection import ClientConnection
from aiokproto.broker.server.listener import RequestMemory
from aiokproto.codec.frames import encode_request
from aiokproto.codec.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.codec.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.records import BatchBuilder, Compression
from tests.broker.wire import connect, produce_request
from tests.net.waiting import until


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


@pytest.mark.parametrize("version", range(3))
async def test_every_version_of_describe_quorum(version: int) -> None:
    request = DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequestTopicData(
                topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
            )
        ]
    )
    async with Broker() as broker, connect(broker) as wire:
        response = await wire.ask(request, version)
        assert response.topics[0].partitions[0].leader_id == 0
        assert len(response.nodes) == (version >= 2)


async def test_a_topic_that_is_named_twice_in_alter_share_group_offsets() -> None:
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name="t", partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=0)]
        )
        for index in (0, 1)
    ]
    async with Broker() as broker, connect(broker) as wire:
        await broker.create_topic("t", partitions=2)
        response = await wire.ask(AlterShareGroupOffsetsRequest(group_id="g", topics=topics))
        assert [topic.partitions[0].error_code for topic in response.responses] == [0, 0]


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (0, -1)])
async def test_a_marker_of_no_producer(producer_id: int, epoch: int) -> None:
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
    )
    async with Broker() as broker, connect(broker) as wire:
        await broker.create_topic("t", partitions=1)
        response = await wire.ask(WriteTxnMarkersRequest(markers=[marker]))
        assert response.markers[0].topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory of a process is read from /proc")
async def test_connections_that_send_little_take_little_memory() -> None:
    """A receive buffer of its full size would be 128 KiB for each."""
    before = resident()
    connections = [ClientConnection(None) for _ in range(2000)]
    assert resident() - before < len(connections) << 14


async def test_a_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that the broker had still to send."""
    monkeypatch.setattr("aiokproto.broker.server.client_connection._LINGER_SECONDS", 0.05)
    async with Broker(config={"connections.max.idle.ms": 50}) as broker:
        for number in range(30):
            await broker.create_topic(f"a-topic-with-a-long-name-{number:0200}", partitions=1)
        async with connect(broker) as wire:
            wire.reader._transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(3000):
                wire.send(MetadataRequest(topics=None))
            server = broker._servers[0]
            await until(lambda: not server._connections)


async def test_others_are_served_while_announced_frames_do_not_arrive() -> None:
    async with Broker(config={"max.connections.per.ip": 60}) as broker, connect(broker) as honest:
        writers = []
        for _ in range(50):
            _, writer = await asyncio.open_connection(*broker.bootstrap_servers.split(":"))
            writer.write((100 << 20).to_bytes(4, "big") + bytes(1000))
            writers.append(writer)
        for _ in range(10):
            assert (await honest.ask(ApiVersionsRequest(), 3)).error_code == 0
        for writer in writers:
            writer.close()


async def test_a_request_with_more_items_than_memory_is_refused() -> None:
    """Twelve million empty topics in 72 MB would take more than a gigabyte."""
    names = MetadataRequest(topics=[MetadataRequestTopic(name="")] * 100)
    frame = encode_request(names, 0, 1, "")
    head, item = bytes(frame[4:-204]), b"\0\0"
    count = 12_000_000
    body = head[:-4] if head.endswith((100).to_bytes(4, "big")) else head
    payload = body + count.to_bytes(4, "big") + item * count
    async with Broker() as broker, connect(broker) as wire, connect(broker) as honest:
        wire.writer.write(len(payload).to_bytes(4, "big") + payload)
        assert await wire.closed()
        assert (await honest.ask(ApiVersionsRequest(), 3)).error_code == 0


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD])
async def test_a_compressed_bomb_is_stored_or_refused_without_its_memory(codec: Compression) -> None:
    """A batch of kilobytes that would be 200 MB, in a topic whose records the broker must decompress."""
    builder = BatchBuilder(compression=codec)
    builder.append(0, None, bytes(200 << 20))
    bomb = bytes(builder.close())
    assert len(bomb) < 1_000_000
    async with Broker() as broker, connect(broker) as wire:
        await broker.create_topic("t", partitions=1, config={"cleanup.policy": "compact", "compression.type": "lz4"})
        response = await wire.ask(produce_request("t", bomb), 9)
        assert response.responses[0].partition_responses[0].error_code
        assert (await wire.ask(ApiVersionsRequest(), 3)).error_code == 0


# --- The budget


async def test_requests_wait_in_order_while_the_budget_is_used_up() -> None:
    memory, order = RequestMemory(100), list[int]()

    async def take(number: int, size: int) -> None:
        await memory.acquire(size)
        order.append(number)

    await take(0, 150)
    tasks = [asyncio.ensure_future(take(number, 60)) for number in range(1, 4)]
    await asyncio.sleep(0)
    assert order == [0]
    memory.release(150)
    await until(lambda: len(order) == 3)
    assert order == [0, 1, 2]
    memory.release(120)
    await tasks[2]
    assert order == [0, 1, 2, 3]


async def test_a_connection_that_ends_gives_up_its_place() -> None:
    memory = RequestMemory(10)
    await memory.acquire(10)
    tasks = [asyncio.ensure_future(memory.acquire(10)) for _ in range(2)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    memory.release(10)
    tasks[0].cancel()
    await tasks[1]
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]


async def test_a_turn_that_is_cancelled_passes_on() -> None:
    memory = RequestMemory(10)
    await memory.acquire(10)
    tasks = [asyncio.ensure_future(memory.acquire(10)) for _ in range(2)]
    await asyncio.sleep(0)
    memory.release(10)
    # Its turn has come, and it has not run yet.
    tasks[0].cancel()
    await tasks[1]
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]


async def test_the_option_queued_max_request_bytes() -> None:
    """A frame that does not arrive holds its bytes, until its connection ends."""
    async with Broker(config={"queued.max.request.bytes": 1000}) as broker, connect(broker) as honest:
        _, writer = await asyncio.open_connection(*broker.bootstrap_servers.split(":"))
        writer.write((5000).to_bytes(4, "big") + bytes(10))
        await writer.drain()
        server = broker._servers[0]
        await until(lambda: server._listener._memory is not None and server._listener._memory._used == 5000)
        asked = asyncio.ensure_future(honest.ask(ApiVersionsRequest(), 3))
        await until(lambda: server._listener._memory is not None and len(server._listener._memory._waiting) == 1)
        assert not asked.done()
        writer.close()
        assert (await asked).error_code == 0

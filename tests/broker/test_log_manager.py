"""Periodic work on logs: retention, compaction, flushing, checkpoints; and recovery after a crash."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from aiokproto.broker import Broker
from aiokproto.broker.clock import VirtualClock
from aiokproto.broker.log import checkpoints
from aiokproto.broker.log.cleaner import build_offset_map
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest
from aiokproto.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from aiokproto.codec.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from aiokproto.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokproto.records import BatchRecord, decode, encode
from aiokproto.records.patch import update_crc
from aiokproto.records.record import read_slice
from tests.broker.wire import Wire, connect
from tests.patience import PATIENCE

DAY = 86_400
COMPACT: dict[str, str | int | float] = {"cleanup.policy": "compact", "segment.bytes": 300}


async def produce(wire: Wire, pairs: list[tuple[bytes, bytes | None]], now: int) -> None:
    for key, value in pairs:
        data = [PartitionProduceData(index=0, records=encode([BatchRecord(0, now, key, value)]))]
        request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)])
        answer = await wire.ask(request, 9)
        assert not answer.responses[0].partition_responses[0].error_code


async def read(wire: Wire) -> list[tuple[int, bytes | None, bytes | None]]:
    offset, end = await offsets(wire)
    found: list[tuple[int, bytes | None, bytes | None]] = []
    while offset < end:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic="t", partitions=[partition])]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics, forgotten_topics_data=[])
        answer = (await wire.ask(request, 11)).responses[0].partitions[0]
        for batch in decode(answer.records or b""):
            found += [(each.offset, each.key, each.value) for each in batch]
            offset = batch.next_offset
    return found


async def offsets(wire: Wire) -> tuple[int, int]:
    """Where the log begins and ends."""
    found = []
    for timestamp in (-2, -1):
        partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[partition])])
        found.append((await wire.ask(request, 6)).topics[0].partitions[0].offset)
    return found[0], found[1]


async def delete_before(wire: Wire, offset: int) -> None:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[partition])], timeout_ms=1000)
    assert not (await wire.ask(request)).topics[0].partitions[0].error_code


PAIRS: list[tuple[bytes, bytes | None]] = [(b"k%d" % (number % 3), b"v%d" % number) for number in range(50)]


async def test_compaction_runs_periodically(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with Broker(data_dir=tmp_path, clock=clock) as broker, connect(broker) as wire:
        await broker.create_topic("t", config=COMPACT)
        await produce(wire, PAIRS, clock.wall())
        assert len(await read(wire)) == 50
        await clock.advance(16)
        cleaning = broker._running.log_manager._cleaning
        assert cleaning is not None
        await cleaning
        found = await read(wire)
        assert len(found) < 10
        assert {key: value for _, key, value in found} == dict(PAIRS)
        deleted = list((tmp_path / "t-0").glob("*.deleted"))
        assert deleted, "files stay for who may be reading"
        await clock.advance(76)
        assert not list((tmp_path / "t-0").glob("*.deleted"))
        assert await read(wire) == found


async def test_a_partition_that_cannot_be_compacted_is_left_alone_after_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock()
    async with Broker(clock=clock) as broker, connect(broker) as wire:
        await broker.create_topic("damaged", config=COMPACT)
        await broker.create_topic("t", config=COMPACT)
        damaged = broker._running.state.partition("damaged", 0)
        data = bytearray(encode([BatchRecord(0, clock.wall(), b"k", Random(0).randbytes(300))], compression="gzip"))
        data[-10:] = bytes(10)
        update_crc(data)
        for _ in range(3):
            damaged.append(bytes(data), clock.wall())
        for run in range(3):
            await produce(wire, PAIRS, clock.wall())
            await clock.advance(16)
            cleaning = broker._running.log_manager._cleaning
            assert cleaning is not None
            await cleaning
            assert len(await read(wire)) < 10, run
        (record,) = caplog.records
        assert record.levelname == "WARNING"
        assert record.message.startswith(
            "damaged-0 cannot be compacted, and stays as it is until the cluster is started again: record batch at"
        )
        assert damaged.log.end_offset == 3


async def test_compaction_on_demand() -> None:
    async with Broker() as broker, connect(broker) as wire:
        await broker.create_topic("t", config={**COMPACT, "min.cleanable.dirty.ratio": 1})
        await produce(wire, PAIRS, 0)
        await broker.compact("t")
        assert await read(wire) == [(47, b"k2", b"v47"), (48, b"k0", b"v48"), (49, b"k1", b"v49")]


async def test_batches_are_compacted_by_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    decoding: list[threading.Thread] = []

    def read(*args: Any) -> Any:
        decoding.append(threading.current_thread())
        return read_slice(*args)

    async with Broker() as broker, connect(broker) as wire:
        await broker.create_topic("t", config=COMPACT)
        await produce(wire, PAIRS, 0)
        monkeypatch.setattr("aiokproto.records.slices.read_slice", read)
        await broker.compact("t")
    assert decoding
    assert threading.main_thread() not in decoding


async def test_a_compaction_that_is_cancelled_ends_with_its_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    entered, leave = threading.Event(), threading.Event()

    def build(*args: Any) -> Generator[None, None, bool]:
        entered.set()
        assert leave.wait(PATIENCE)
        return (yield from build_offset_map(*args))

    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        await broker.create_topic("t", config={**COMPACT, "min.cleanable.dirty.ratio": 1})
        await produce(wire, PAIRS, 0)
        with monkeypatch.context() as patch:
            patch.setattr("aiokproto.broker.log.compaction.build_offset_map", build)
            compacting = asyncio.ensure_future(broker.compact("t"))
            while not entered.is_set():
                await asyncio.sleep(0)
            for _ in range(2):
                compacting.cancel()
                assert (await wire.ask(ApiVersionsRequest(), 0)).error_code == 0
                assert not compacting.done()
            leave.set()
            with pytest.raises(asyncio.CancelledError):
                await compacting
        assert not list((tmp_path / "t-0").glob("*.cleaned"))
        assert len(await read(wire)) == 50
        await broker.compact("t")
        assert len(await read(wire)) == 3


async def test_a_topic_with_both_cleanup_policies() -> None:
    """With ``compact,delete`` the newest of a key goes too when it is old enough."""
    clock = VirtualClock()
    async with Broker(clock=clock) as broker, connect(broker) as wire:
        await broker.create_topic(
            "t", config={**COMPACT, "cleanup.policy": "compact,delete", "retention.ms": 3_600_000}
        )
        await produce(wire, PAIRS, clock.wall())
        await clock.advance(3500)
        assert {key: value for _, key, value in await read(wire)} == dict(PAIRS)
        await clock.advance(500)
        assert await offsets(wire) == (50, 50)


@pytest.mark.parametrize("in_order", [True, False])
async def test_deleted_records_stay_deleted_after_a_restart(tmp_path: Path, in_order: bool) -> None:
    broker = Broker(data_dir=tmp_path)
    async with broker, connect(broker) as wire:
        await broker.create_topic("t")
        await produce(wire, PAIRS, 0)
        await delete_before(wire, 20)
        if not in_order:
            await broker.crash()
    async with Broker(data_dir=tmp_path) as again, connect(again) as wire:
        assert await offsets(wire) == (20, 50)
        assert [row[0] for row in await read(wire)] == list(range(20, 50))


async def test_a_topic_created_again_has_its_own_logs(tmp_path: Path) -> None:
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        await broker.create_topic("t")
        await produce(wire, PAIRS, 0)
        await delete_before(wire, 20)
        await wire.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
        await broker.create_topic("t")
        await produce(wire, PAIRS, 0)
        await broker.crash()
    assert not list(tmp_path.glob("*-delete"))
    async with Broker(data_dir=tmp_path) as again, connect(again) as wire:
        assert await offsets(wire) == (0, 50)


async def test_checkpoint_files_have_kafkas_format(tmp_path: Path) -> None:
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        await broker.create_topic("t", config=COMPACT)
        await broker.create_topic("other", 2)
        await produce(wire, PAIRS, 0)
        await broker.compact("t")
        assert not (tmp_path / checkpoints.CLEAN_SHUTDOWN).exists()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 50\n"
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 50\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n0\n"
    assert (tmp_path / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("text", ["", "0\n", "1\n1\nt 0 5\n", "0\n2\nt 0 5\n", "0\n1\nt zero 5\n", "0\n1\nt 0\n"])
def test_a_damaged_checkpoint_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "c").write_text(text)
    assert checkpoints.read(tmp_path / "c") == {}


async def test_flush_after_a_time(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with Broker(data_dir=tmp_path, clock=clock) as broker, connect(broker) as wire:
        await broker.create_topic("t", config={"flush.ms": 30_000})
        await produce(wire, PAIRS[:1], clock.wall())
        await clock.advance(DAY / 1440 + 1)
        assert checkpoints.read(tmp_path / checkpoints.RECOVERY_POINT) == {("t", 0): 1}


async def test_a_group_survives_compaction(tmp_path: Path) -> None:
    """The offsets topic is compacted like any other: what was committed last is what counts."""
    from aiokproto.codec.messages.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
    )
    from aiokproto.codec.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        await broker.create_topic("t")
        for offset in range(100):
            topic = OffsetCommitRequestTopic(
                name="t",
                partitions=[
                    OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
                ],
            )
            await wire.ask(OffsetCommitRequest(group_id="g", topics=[topic]), 5)
        await broker.compact("__consumer_offsets")
    kept = sum(len(list(decode(path.read_bytes()))) for path in tmp_path.glob("__consumer_offsets-*/*.log"))
    assert kept < 10
    async with Broker(data_dir=tmp_path) as again, connect(again) as wire:
        request = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
        answer = await wire.ask(request, 5)
        assert answer.topics[0].partitions[0].committed_offset == 99

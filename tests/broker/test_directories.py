"""The directories of partitions: whose they are, when they are opened, and how far they are on disk."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

import pytest

from aiokproto.broker import Broker
from aiokproto.broker.log import Log, LogCheckpoint, LogConfig, fsync, partition_metadata
from aiokproto.broker.metadata.topics import Partition
from aiokproto.codec.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from aiokproto.codec.messages.describe_log_dirs import DescribeLogDirsRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, ConfigurationError
from tests.broker.test_log import SMALL, values_from
from tests.broker.test_log import batch as log_batch
from tests.broker.wire import NOW, Wire, batch, connect, fetch_request, produce, records_of

# The records are from long ago, and retention would remove them.
SEGMENTS = {"segment.bytes": 300, "retention.ms": -1}


def partition(broker: Broker, topic: str = "t") -> Partition:
    return broker._running.state.partition(topic, 0)


async def topic_id(wire: Wire, topic: str = "t") -> bytes:
    answer = await wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
    return answer.topics[0].topic_id


def content(topic_id: bytes) -> str:
    return f"version: 0\ntopic_id: {urlsafe_b64encode(topic_id).decode().rstrip('=')}"


# ---- whose they are


async def test_a_directory_has_the_topic_id(tmp_path: Path) -> None:
    """It has the id from the first record on, as in Kafka."""
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        await broker.create_topic("t")
        await produce(wire, "t", batch([b"v"]))
        assert (tmp_path / "t-0" / partition_metadata.FILE).read_text() == content(await topic_id(wire))
    # An older release doesn't write the id. Such a directory gets it when it is opened.
    (tmp_path / "t-0" / partition_metadata.FILE).unlink()
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        assert [record.value for record in records_of(await wire.ask(fetch_request("t"), 12))] == [b"v"]
        assert (tmp_path / "t-0" / partition_metadata.FILE).read_text() == content(await topic_id(wire))


async def test_a_topic_takes_the_id_of_directories_that_are_there(tmp_path: Path) -> None:
    """They come from another Kafka, and were put there to be served."""
    theirs = uuid4().bytes
    for index in (0, 2):
        partition_metadata.claim(tmp_path / f"t-{index}", theirs)
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        await broker.create_topic("t", 3)
        assert await topic_id(wire) == theirs


async def test_directories_of_other_topics_are_refused(tmp_path: Path) -> None:
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        await broker.create_topic("t")
        for name in ("two", "grows"):
            partition_metadata.claim(tmp_path / f"{name}-1", uuid4().bytes)
        partition_metadata.claim(tmp_path / "two-0", uuid4().bytes)
        partition_metadata.claim(tmp_path / "same-0", await topic_id(wire))
        for name in ("two", "same"):
            with pytest.raises(BrokerError) as refused:
                await broker.create_topic(name, 2)
            assert refused.value.code is ErrorCode.INCONSISTENT_TOPIC_ID
        await broker.create_topic("grows")
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="grows", count=2, assignments=None)],
            timeout_ms=1000,
            validate_only=False,
        )
        assert (await wire.ask(request)).results[0].error_code == ErrorCode.INCONSISTENT_TOPIC_ID
        assert sorted(await broker.topics()) == ["grows", "t"]


async def test_a_replaced_directory_is_refused(tmp_path: Path) -> None:
    """After a crash this happens at the start, which checks all logs; otherwise when the log is used."""
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        await broker.create_topic("t")
        await produce(wire, "t", batch([b"v"]))
    (tmp_path / "t-0" / partition_metadata.FILE).write_text(content(uuid4().bytes))
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        (answer,) = (await wire.ask(fetch_request("t"), 12)).responses[0].partitions
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await produce(wire, "t", batch([b"v"]))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await broker.crash()
    with pytest.raises(ConfigurationError, match=r"t-0 has topic id .*, expected "):
        await Broker(data_dir=tmp_path).start()


@pytest.mark.parametrize(
    "text", ["version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", "version: 0", "nonsense", "version: 0\ntopic_id: AAAA"]
)
def test_an_unreadable_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / partition_metadata.FILE).write_text(text)
    with pytest.raises(ConfigurationError, match=r"partition\.metadata"):
        partition_metadata.read(tmp_path)


def test_an_empty_partition_metadata_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / partition_metadata.FILE).write_text("")
    partition_metadata.claim(tmp_path, bytes(15) + b"\1")
    assert partition_metadata.read(tmp_path) == bytes(15) + b"\1"


# ---- when logs are opened


async def test_a_cleanly_closed_log_is_opened_when_it_is_used(tmp_path: Path) -> None:
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        await broker.create_topic("t")
        for number in range(5):
            await produce(wire, "t", batch([b"%d" % number]))
        partition(broker).log.delete_before(2, NOW)
        partition(broker).log.cleaned_to = 3
    # It was closed again before it was used.
    async with Broker(data_dir=tmp_path) as broker:
        assert partition(broker).opened is None
        unopened = partition(broker).checkpoint
    async with Broker(data_dir=tmp_path) as broker:
        assert partition(broker).checkpoint == unopened
        log = partition(broker).log
        assert (log.start_offset, log.end_offset, log.cleaned_to, log.recovery_point) == (2, 5, 3, 5)
        assert log.end_of_epoch(partition(broker).leader_epoch).end_offset == 5
        assert partition(broker).append(bytearray(batch([b"5"])), NOW).base_offset == 5
        assert log.epoch_of(5) == partition(broker).leader_epoch > log.epoch_of(4)


async def test_unused_logs_are_opened_in_the_background(tmp_path: Path) -> None:
    """Retention applies to them too."""
    async with Broker(data_dir=tmp_path) as broker:
        for number in range(20):
            await broker.create_topic(f"t{number}")
            partition(broker, f"t{number}").append(bytearray(batch([b"v"])), NOW)
    async with Broker(data_dir=tmp_path) as broker:
        while any(partition(broker, f"t{number}").opened is None for number in range(20)):
            await asyncio.sleep(0)


async def test_after_a_crash_all_logs_are_opened_at_once(tmp_path: Path) -> None:
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        await broker.create_topic("t")
        await produce(wire, "t", batch([b"v"]))
        await broker.crash()
    async with Broker(data_dir=tmp_path) as broker:
        assert partition(broker).opened is not None


# ---- how far they are on disk


def test_complete_segments_can_be_flushed_separately(tmp_path: Path) -> None:
    log = Log(tmp_path / "t-0", SMALL)
    rolled: list[int] = []
    log.on_roll = lambda log: rolled.append(log.end_offset)
    for number in range(20):
        log.append(log_batch([b"%d" % number * 40]), 0, NOW)
    newest = log.segments[-1].base_offset
    assert rolled[-1] == newest
    unflushed = log.unflushed_files()
    assert unflushed.end == newest
    assert {file.name for file in unflushed.files if file.exists()} == {
        *(
            f"{segment.base_offset:020}{kind}"
            for segment in log.segments[:-1]
            for kind in (".log", ".index", ".timeindex")
        ),
        f"{newest:020}.snapshot",
    }
    assert log.recovery_point == 0
    unflushed.sync()
    log.mark_flushed(unflushed.end)
    assert log.recovery_point == newest
    assert log.unflushed_files().files == []
    log.mark_flushed(3)
    assert log.recovery_point == newest, "what is on disk stays there"
    log.close_handlers()
    # Batches before this offset aren't checked any more, so a reader finds the damaged one.
    first = tmp_path / "t-0" / f"{0:020}.log"
    first.write_bytes(first.read_bytes()[:-1] + b"?")
    log = Log(tmp_path / "t-0", SMALL, NOW, LogCheckpoint(recovery_point=newest))
    assert log.end_offset == 20
    log.close_handlers()
    assert Log(tmp_path / "t-0", SMALL, NOW).end_offset < newest


async def test_segments_are_flushed_when_they_are_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread does it, and after a failure it's tried again with the next segment."""
    failed = False

    def fail(*args: object) -> NoReturn:
        nonlocal failed
        failed = True
        raise OSError("the disk is gone")

    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        await broker.create_topic("t", config=SEGMENTS)
        log = partition(broker).log
        with monkeypatch.context() as patched:
            patched.setattr(fsync, "sync", fail)
            while not failed:
                await produce(wire, "t", batch([b"v" * 100]))
        assert log.recovery_point == 0
        for _ in range(5):
            await produce(wire, "t", batch([b"v" * 100]))
        while log.recovery_point < log.segments[-1].base_offset:
            await asyncio.sleep(0)
        await broker.crash()
    async with Broker(data_dir=tmp_path) as broker:
        assert len(values_from(partition(broker).log, 0)) == log.end_offset


def test_a_log_from_another_broker_is_checked_once(tmp_path: Path) -> None:
    """It has no snapshots of producers. After the first opening the newest segment has one."""
    log = Log(tmp_path / "t-0", SMALL)
    for number in range(20):
        log.append(log_batch([b"%d" % number * 40], producer_id=7, producer_epoch=0, base_sequence=number), 0, NOW)
    log.close()
    for snapshot in (tmp_path / "t-0").glob("*.snapshot"):
        snapshot.unlink()
    Log(tmp_path / "t-0", LogConfig(), NOW, LogCheckpoint(clean_shutdown=True)).close_handlers()
    assert [int(snapshot.stem) for snapshot in (tmp_path / "t-0").glob("*.snapshot")] == [log.segments[-1].base_offset]
    log = Log(tmp_path / "t-0", LogConfig(), NOW, LogCheckpoint(clean_shutdown=True))
    assert [entry.last_sequence for entry in log.producers.snapshot()] == [19]
    log.close_handlers()


async def test_a_topic_with_a_log_that_cannot_be_opened_is_not_half_deleted(tmp_path: Path) -> None:
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        await broker.create_topic("t", 2)
        for index in (0, 1):
            await produce(wire, "t", batch([b"v"]), partition=index)
    (tmp_path / "t-1" / partition_metadata.FILE).write_text(content(uuid4().bytes))
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
        assert (await wire.ask(request)).responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert await broker.topics() == ["t"]
        assert [record.value for record in records_of(await wire.ask(fetch_request("t"), 12))] == [b"v"]


async def test_the_sizes_of_the_other_logs_are_reported_if_one_cannot_be_opened(tmp_path: Path) -> None:
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        await broker.create_topic("t", 2)
        for index in (0, 1):
            await produce(wire, "t", batch([b"v"]), partition=index)
    (tmp_path / "t-1" / partition_metadata.FILE).write_text(content(uuid4().bytes))
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        (found,) = (await wire.ask(DescribeLogDirsRequest(topics=None))).results
        assert found.error_code == ErrorCode.NONE
        sizes = {
            topic.name: {each.partition_index: each.partition_size for each in topic.partitions}
            for topic in found.topics
        }
        assert sizes["t"].keys() == {0}
        assert sizes["t"][0] > 0

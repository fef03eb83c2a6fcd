"""Segments change hands: real Kafka serves a log that this broker wrote, and this broker serves real Kafka's log."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Broker
from aiokproto.broker.log import Log, LogCheckpoint
from aiokproto.broker.log.compaction import Compaction
from aiokproto.types import TopicPartition
from tests.broker.test_compaction import CONFIG, batch, marker
from tests.kafka import admin
from tests.kafka.pool import RunningKafka

NOW = 1_700_000_000_000
KEPT_FOREVER = {"retention.ms": "-1", "segment.bytes": "1048576"}

Isolation = Literal["read_committed", "read_uncommitted"]
ISOLATIONS: tuple[Isolation, ...] = ("read_committed", "read_uncommitted")

Row = tuple[int, int, bytes | None, bytes | None]


def write(directory: Path) -> int:
    """Write a log with everything: transactions, tombstones, the results of compaction. Return its end."""
    log = Log(directory, replace(CONFIG, segment_bytes=3000), NOW)
    sequence = 0
    for number in range(200):
        pairs = [(b"k%d" % (number % 30), b"v" * 20 if number % 7 else None), (b"x%d" % number, b"y")]
        log.append(batch(pairs, NOW + 3 * number, producer=7, sequence=2 * number), 0, NOW)
        if number % 10 == 3:
            own = batch([(b"t%d" % number, b"v")], NOW + 3 * number, transactional=True, producer=8, sequence=sequence)
            log.append(own, 0, NOW)
            sequence += 1
        elif number % 10 == 5:
            log.append(marker(8, committed=number % 20 == 5), 0, NOW)
        elif number in (101, 151):
            log.roll(NOW)
            list(Compaction(log, NOW + 86_400_000 * (number > 120)).run(1 << 20))
    log.close()
    return log.end_offset


async def read(bootstrap: str, topic: str, end: int, isolation: Isolation) -> list[Row]:
    """All records before an offset."""
    rows: list[Row] = []
    async with Consumer(bootstrap_servers=bootstrap, isolation_level=isolation) as consumer:
        consumer.assign(TopicPartition(topic, 0))
        consumer.seek_to_beginning((topic, 0))
        while await consumer.position((topic, 0)) < end:
            rows += [(each.offset, each.timestamp, each.key, each.value) for each in await consumer.poll(1000)]
    return rows


@asynccontextmanager
async def embedded(directory: Path) -> AsyncIterator[Broker]:
    """Start a broker that finds the log of a topic ``t`` in its directory."""
    async with Broker(data_dir=directory) as broker:
        await broker.create_topic("t", config=KEPT_FOREVER)
        yield broker


@pytest.mark.kafka
@pytest.mark.exclusive
@pytest.mark.parametrize("in_order", [True, False])
async def test_real_kafka_serves_our_log(kafka1: RunningKafka, topic: str, tmp_path: Path, in_order: bool) -> None:
    """Kafka can also recover the log, and then makes its own indexes and producer states."""
    end = write(tmp_path / "t-0")
    admin.create_topic(kafka1, topic, 1, 1, KEPT_FOREVER)
    kafka1.stop_broker(1)
    try:
        data = kafka1.data_folder(1)
        theirs = data / f"{topic}-0"
        for path in theirs.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        shutil.copytree(tmp_path / "t-0", theirs, dirs_exist_ok=True)
        if not in_order:
            (data / ".kafka_cleanshutdown").unlink()
            (data / "recovery-point-offset-checkpoint").unlink()
    finally:
        kafka1.start_broker(1)
    async with embedded(tmp_path) as broker:
        for isolation in ISOLATIONS:
            found = await read(kafka1.bootstrap_servers, topic, end, isolation)
            assert found == await read(broker.bootstrap_servers, "t", end, isolation)
            assert len(found) > 100


@pytest.mark.kafka
@pytest.mark.exclusive
async def test_a_log_of_real_kafka_is_served(kafka1: RunningKafka, topic: str, tmp_path: Path) -> None:
    admin.create_topic(kafka1, topic, 1, 1, KEPT_FOREVER)
    async with Producer(bootstrap_servers=kafka1.bootstrap_servers, compression_type="zstd") as producer:
        await producer.send_many(topic, [b"%d" % number + b"x" * 100 for number in range(20_000)])
    expected = await read(kafka1.bootstrap_servers, topic, 20_000, "read_committed")
    kafka1.stop_broker(1)
    try:
        shutil.copytree(kafka1.data_folder(1) / f"{topic}-0", tmp_path / "t-0")
    finally:
        kafka1.start_broker(1)
    async with embedded(tmp_path) as broker:
        found = await read(broker.bootstrap_servers, "t", 20_000, "read_committed")
    assert len(found) == 20_000
    assert found == expected
    log = Log(tmp_path / "t-0", CONFIG, NOW, LogCheckpoint(clean_shutdown=True))
    assert [entry.last_offset for entry in log.producers.snapshot()] == [19_999]
    log.close()

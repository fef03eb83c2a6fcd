"""A broker process is killed while it writes, and its files are damaged as a power cut would; then it starts again.

Acknowledged records stay; after a power cut, flushed ones do. The broker serves nothing invalid, and the next record
follows the last one. ``--crash-runs`` says how often this runs. Each run has its own seed, which a failure names.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from aiokproto.broker import Broker
from aiokproto.codec.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from aiokproto.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from aiokproto.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokproto.records import RecordBatch, decode
from tests.broker.wire import Wire, batch, connect_to

PRODUCER = 4711
BATCHES = 60


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(int(metafunc.config.getoption("--crash-runs", 5) or 0)))


class Written(NamedTuple):
    """The records that a producer wrote, in its order, how many were acknowledged, and the end of the flushed part."""

    batches: list[list[bytes]]
    acknowledged: int
    flushed: int

    @property
    def values(self) -> list[bytes]:
        return [value for values in self.batches for value in values]

    @property
    def acknowledged_records(self) -> int:
        return sum(map(len, self.batches[: self.acknowledged]))


@contextmanager
def process(data: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run a broker in another process, and yield it with its address."""
    command = [sys.executable, "-m", "aiokproto.broker", "--data-dir", str(data), "--until-stdin-closes"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            yield running.stdout.readline().strip(), running
        finally:
            running.kill()


def produce(values: list[bytes], sequence: int) -> ProduceRequest:
    records = batch(values, producer_id=PRODUCER, producer_epoch=0, base_sequence=sequence)
    data = [PartitionProduceData(index=0, records=records)]
    return ProduceRequest(acks=1, timeout_ms=5000, topic_data=[TopicProduceData(name="t", partition_data=data)])


async def write_and_kill(data: Path, random: Random) -> Written:
    """Send batches without waiting for responses, and kill the broker after some of these."""
    flush = random.choice([1, 10, 1 << 40])
    config = {"flush.messages": flush, "segment.bytes": random.choice([2000, 9000]), "index.interval.bytes": 200}
    configs = [CreatableTopicConfig(name=name, value=str(value)) for name, value in config.items()]
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=configs)
    batches = [
        [random.randbytes(random.randrange(100)) for _ in range(random.randrange(1, 6))]
        for _ in range(random.randrange(1, BATCHES))
    ]
    stop_after = random.randrange(len(batches) + 1)
    with process(data) as (address, running):
        async with connect_to(address) as wire:
            assert not (await wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000))).topics[0].error_code
            sequence = 0
            for values in batches:
                wire.send(produce(values, sequence), 9)
                sequence += len(values)
            for _ in range(stop_after):
                await wire.frame()
            running.kill()
            running.wait()
    flushed = end = 0
    for values in batches[:stop_after]:
        end += len(values)
        if end - flushed >= flush:
            flushed = end
    return Written(batches, stop_after, flushed)


def cut_somewhere(log: Path, random: Random, flushed: int) -> None:
    """Lose the end of a file that was never written to disk."""
    for file in sorted(log.glob("*.log"), reverse=True):
        found = list(decode(file.read_bytes()))
        sure = sum(each.size_in_bytes for each in found if each.last_offset < flushed)
        with file.open("r+b") as opened:
            opened.truncate(random.randrange(sure, file.stat().st_size + 1))
        if sure or random.random() < 0.7:
            return


def add_nonsense(log: Path, random: Random, flushed: int) -> None:
    """Let the file grow by content that was never written to disk."""
    newest = max(log.glob("*.log"))
    half = batch([b"half of a batch"])[: random.randrange(1, 70)]
    with newest.open("ab") as opened:
        opened.write(random.choice([random.randbytes(random.randrange(1, 300)), bytes(500), half]))


def spoil_indexes(log: Path, random: Random, flushed: int) -> None:
    """Remove or cut the files next to the log, or fill them with anything."""
    for file in [
        *log.glob("*.index"),
        *log.glob("*.timeindex"),
        *log.glob("*.snapshot"),
        log / "leader-epoch-checkpoint",
    ]:
        left = random.choice([None, random.randbytes(random.randrange(200)), file.read_bytes()[: random.randrange(40)]])
        if left is None:
            file.unlink()
        elif random.random() < 0.7:
            file.write_bytes(left)


def nothing(log: Path, random: Random, flushed: int) -> None:
    """Do nothing: the machine keeps running, and everything that was written reaches the disk."""


DAMAGE: list[Callable[[Path, Random, int], None]] = [cut_somewhere, add_nonsense, spoil_indexes, nothing]


async def read_all(wire: Wire) -> list[RecordBatch]:
    found: list[RecordBatch] = []
    while True:
        offset = found[-1].next_offset if found else 0
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=3000)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="t", partitions=[partition])], forgotten_topics_data=[]
        )
        (answer,) = (await wire.ask(request, 11)).responses[0].partitions
        assert not answer.error_code
        part = list(decode(answer.records or b""))
        if not part:
            assert answer.high_watermark == offset
            return found
        found += part


async def test_killed_while_writing(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    written = await write_and_kill(tmp_path, random)
    damage = random.choice(DAMAGE)
    if (tmp_path / "t-0").exists():
        damage(tmp_path / "t-0", random, written.flushed)
    async with Broker(data_dir=tmp_path) as broker, connect_to(broker.bootstrap_servers) as wire:
        found = await read_all(wire)
        records = [record for each in found for record in each]
        assert [record.offset for record in records] == list(range(len(records)))
        assert [record.value for record in records] == written.values[: len(records)], "nothing else is served"
        sure = written.flushed if damage is cut_somewhere else written.acknowledged_records
        assert len(records) >= sure, f"{damage.__name__}: {len(records)} of {sure} records are left"
        if found:
            last = written.batches[len(found) - 1]
            answer = await wire.ask(produce(last, len(records) - len(last)), 9)
            repeated = answer.responses[0].partition_responses[0].base_offset
            assert repeated == found[-1].base_offset, "the producer is known: a batch is not stored twice"
        answer = await wire.ask(produce([b"next"], len(records)), 9)
        assert answer.responses[0].partition_responses[0].base_offset == len(records)

"""Kafka's own tool reads every file of a data directory."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest

from aiokproto import Producer
from aiokproto.broker import Broker
from tests.broker.kafka_tools import Tools
from tests.broker.test_kafka_files import write
from tests.timeouts import LONG_TIMEOUT

pytestmark = [pytest.mark.kafka, pytest.mark.java]

CODECS: tuple[Literal["none", "gzip", "snappy", "lz4", "zstd"], ...] = ("none", "gzip", "snappy", "lz4", "zstd")
KINDS = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
DECODERS = {"__consumer_offsets": "--offsets-decoder", "__transaction_state": "--transaction-log-decoder"}

# The tool finds these problems, and still exits with 0.
COMPLAINT = re.compile(r"mismatch|out of order|isvalid: false|corrupt|exception|failed|could not|cannot", re.IGNORECASE)
# It assumes -1 as the offset before a file's first record, and reports a gap there.
GAP = re.compile(r"  \d+ is followed by \d+")


def transact(servers: str, commit: bool) -> None:
    """Write records in a transaction, and a group's offsets."""
    confluent: Any = pytest.importorskip("confluent_kafka")
    producer = confluent.Producer({"bootstrap.servers": servers, "transactional.id": f"commits {commit}"})
    producer.init_transactions(LONG_TIMEOUT)
    consumer = confluent.Consumer({"bootstrap.servers": servers, "group.id": "in transactions"})
    for _ in range(5):
        producer.begin_transaction()
        for number in range(20):
            producer.produce("transactions", b"%d" % number)
        offsets = [confluent.TopicPartition("transactions", 0, 1)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), LONG_TIMEOUT)
        if commit:
            producer.commit_transaction(LONG_TIMEOUT)
        else:
            producer.abort_transaction(LONG_TIMEOUT)
    consumer.close()


def read_in_group(servers: str, protocol: str) -> None:
    confluent: Any = pytest.importorskip("confluent_kafka")
    options = {"bootstrap.servers": servers, "group.id": protocol, "group.protocol": protocol}
    consumer = confluent.Consumer({**options, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe(["transactions"])
    assert len(consumer.consume(50, LONG_TIMEOUT)) == 50
    consumer.commit(asynchronous=False)
    consumer.close()


async def fill(directory: Path) -> None:
    """Write everything that this broker can: codecs, segments, compaction, transactions, groups of both protocols."""
    write(directory / "log-0")
    small = {"segment.bytes": "20000", "index.interval.bytes": "1000"}
    async with Broker(data_dir=directory) as broker:
        servers = broker.bootstrap_servers
        await broker.create_topic("log", config=small | {"cleanup.policy": "compact"})
        for codec in CODECS:
            await broker.create_topic(f"codec-{codec}", 2, config=small)
            async with Producer(bootstrap_servers=servers, compression_type=codec, batch_size=2000) as producer:
                await producer.send_many(f"codec-{codec}", [b"%d" % number * 20 for number in range(5000)])
        await broker.create_topic("compacted", config=small | {"cleanup.policy": "compact"})
        async with Producer(bootstrap_servers=servers, batch_size=500) as producer:
            for number in range(2000):
                await producer.post("compacted", b"%d" % number, key=b"%d" % (number % 100))
        await broker.compact("compacted")
        await broker.create_topic("transactions", config=small)
        for commit in (True, False):
            await asyncio.to_thread(transact, servers, commit)
        for protocol in ("classic", "consumer"):
            await asyncio.to_thread(read_in_group, servers, protocol)


def dump(tools: Tools, files: list[Path], *options: str, may_lack_offsets: bool = False) -> list[str]:
    """Return the tool's output for files, and check that it reports no problem."""
    written = tools.call("DumpLogSegments", *options, "--files", ",".join(map(str, files)))
    assert written.code == 0, written.text
    lines = written.text.splitlines()
    assert not [line for line in lines if COMPLAINT.search(line)]
    assert may_lack_offsets or not [line for line in lines if GAP.fullmatch(line)]
    return lines


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    asyncio.run(fill(directory))
    return directory


def files_of(directory: Path, *kinds: str) -> list[Path]:
    return sorted(path for path in directory.glob("*/*") if path.suffix in kinds)


def test_the_data_directory_has_files_of_every_kind(directory: Path, tally: Counter[str]) -> None:
    found = Counter(path.suffix for path in files_of(directory, *KINDS))
    assert found.keys() == KINDS
    tally["files of a data directory that Kafka's DumpLogSegments has read"] += found.total()


def test_segments_and_snapshots(tools: Tools, directory: Path) -> None:
    elsewhere = {*DECODERS, "log", "compacted"}
    plain = [path for path in files_of(directory, ".log") if path.parent.name.rpartition("-")[0] not in elsewhere]
    plain += files_of(directory, ".txnindex", ".snapshot")
    lines = dump(tools, plain, "--deep-iteration", "--print-data-log")
    assert sum(line.startswith("| offset") for line in lines) > 25_000
    assert sum(line.startswith("Dumping") for line in lines) == len(plain)


@pytest.mark.parametrize("topic", DECODERS)
def test_coordinator_records_are_dumped(tools: Tools, directory: Path, topic: str) -> None:
    paths = [path for path in files_of(directory, ".log") if path.parent.name.startswith(topic)]
    lines = dump(tools, paths, DECODERS[topic])
    assert sum("payload:" in line for line in lines) > 10


def test_compacted_segments(tools: Tools, directory: Path) -> None:
    """Offsets are missing there, and the tool reports that."""
    paths = [path for path in files_of(directory, ".log") if path.parent.name in ("log-0", "compacted-0")]
    lines = dump(tools, paths, "--deep-iteration", may_lack_offsets=True)
    assert any(GAP.fullmatch(line) for line in lines)
    assert sum(line.startswith("Dumping") for line in lines) == len(paths)


def test_indexes(tools: Tools, directory: Path) -> None:
    paths = files_of(directory, ".index", ".timeindex")
    checked = dump(tools, paths, "--index-sanity-check")
    assert sum("passed sanity check" in line or "is empty" in line for line in checked) == len(paths)
    entries = dump(tools, paths)
    assert sum(line.startswith("offset:") for line in entries) > 50


def test_the_tool_reports_damage(tools: Tools, directory: Path, tmp_path: Path) -> None:
    content = bytearray((directory / "codec-none-0" / "00000000000000000000.log").read_bytes())
    content[-1] ^= 1
    damaged = tmp_path / "00000000000000000000.log"
    damaged.write_bytes(content)
    with pytest.raises(AssertionError):
        dump(tools, [damaged], "--deep-iteration")

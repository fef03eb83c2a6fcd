"""Directories of Kafka before 0.11: message sets of magic 0 and 1 are opened, recovered, served and compacted."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokproto.broker import Broker
from aiokproto.broker.log import Log, LogCheckpoint, LogConfig, compaction
from aiokproto.broker.log.compaction import Compaction
from aiokproto.broker.log.conversion import downgrade
from aiokproto.broker.log.rewrite import rewrite
from aiokproto.broker.log.stored import first_at_time
from aiokproto.codec.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from aiokproto.records import BatchBuilder, BatchRecord, Compression, LegacyBatch, LegacyBuilder, RecordBatch, decode
from aiokproto.records.patch import restamp
from tests.broker.test_kafka_files import KEPT_FOREVER, read
from tests.broker.test_old_formats import fetch, rows
from tests.broker.wire import Wire, connect
from tests.kafka import admin
from tests.kafka.pool import RunningKafka
from tests.records.java_reader import JavaRecords, client_jars, described, same
from tests.records.legacy_sets import message, wrapped

NOW = 1_700_000_000_000
CONFIG = LogConfig(index_interval_bytes=200, compact=True, retention_ms=-1, file_delete_delay_ms=0)
CODECS = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)
KINDS = [(magic, codec) for magic in (0, 1) for codec in CODECS]
FIRST = "00000000000000000000.log"

Pair = tuple[bytes, bytes | None]


def message_set(
    pairs: Sequence[Pair], offset: int, magic: int, codec: Compression = Compression.NONE, timestamp: int = NOW
) -> bytes:
    """Return a message set as an old broker stored it. Timestamps are the offsets after ``timestamp``."""
    builder = LegacyBuilder(magic, compression=codec)
    for step, (key, value) in enumerate(pairs):
        builder.append(timestamp + offset + step, key, value)
    return bytes(builder.close(base_offset=offset))


def newer(pairs: Sequence[Pair], timestamp: int) -> bytearray:
    """Return a batch that a current producer adds."""
    builder = BatchBuilder()
    for key, value in pairs:
        builder.append(timestamp, key, value)
    return builder.close()


def archive(directory: Path, magic: int, codec: Compression, sets: int = 40) -> int:
    """Write a directory as an old Kafka leaves it, with nothing but a segment. Return the end of the log."""
    directory.mkdir()
    data = b"".join(
        message_set(
            [(b"k%d" % (each % 7), b"value %d" % each) for each in range(3 * at, 3 * at + 3)], 3 * at, magic, codec
        )
        for at in range(sets)
    )
    (directory / FIRST).write_bytes(data)
    return 3 * sets


def stored(log: Log) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Return all records of a log, each read from the offset where the last response ended."""
    found: list[tuple[int, int, bytes | None, bytes | None]] = []
    offset = log.start_offset
    while data := log.read(offset, 400):
        found += rows(data)
        offset = found[-1][0] + 1
    return found


def expected(end: int, magic: int) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [(at, NOW + at if magic else -1, b"k%d" % (at % 7), b"value %d" % at) for at in range(end)]


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_an_old_log_is_opened_indexed_and_appended_to(tmp_path: Path, magic: int, codec: Compression) -> None:
    end = archive(tmp_path / "t-0", magic, codec)
    log = Log(tmp_path / "t-0", CONFIG, NOW)
    assert (log.start_offset, log.end_offset) == (0, end)
    assert stored(log) == expected(end, magic)
    for offset in range(end):
        (first, *_) = decode(log.read(offset, 0))
        assert first.base_offset <= offset <= first.last_offset, "found by the index"
    found = log.batch_at_time(NOW + 50, 0)
    at_time = None if found is None else first_at_time(found, NOW + 50, 0)
    assert at_time == ((50, NOW + 50, -1) if magic else None)
    assert log.append(newer([(b"new", b"er")], NOW + 10_000), 0, NOW).base_offset == end
    log.close()
    log = Log(tmp_path / "t-0", CONFIG, NOW, LogCheckpoint(clean_shutdown=True))
    assert stored(log) == [*expected(end, magic), (end, NOW + 10_000, b"new", b"er")]
    assert len({batch.magic for batch in decode(log.read(0, 1 << 20))}) == 2
    log.close()


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_an_old_log_is_truncated_at_invalid_data(tmp_path: Path, magic: int, codec: Compression) -> None:
    """The data has a flipped bit, and an incomplete message."""
    archive(tmp_path / "t-0", magic, codec)
    data = bytearray((tmp_path / "t-0" / FIRST).read_bytes())
    sizes = [each.size_in_bytes for each in decode(bytes(data))]
    for keep in (len(sizes) // 2, 1, 0):
        start = sum(sizes[:keep])
        for damaged in (
            data[: start + 20],
            data[:start] + bytes([*data[start : start + 25], data[start + 25] ^ 1]) + data[start + 26 :],
        ):
            (tmp_path / "t-0" / FIRST).write_bytes(damaged)
            log = Log(tmp_path / "t-0", CONFIG, NOW)
            assert log.end_offset == keep * (1 if codec is Compression.NONE else 3)
            assert log.size == start
            log.close_handlers()


async def list_offset(wire: Wire, timestamp: int, version: int = 7) -> int:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[partition])])
    answer = (await wire.ask(request, version)).topics[0].partitions[0]
    assert not answer.error_code
    return answer.offset


@pytest.mark.parametrize(("magic", "codec"), KINDS)
async def test_old_messages_are_served_to_every_client_version(tmp_path: Path, magic: int, codec: Compression) -> None:
    """They are unchanged for clients that can read the format, and converted for older ones."""
    end = archive(tmp_path / "t-0", magic, codec)
    async with Broker(data_dir=tmp_path) as broker:
        await broker.create_topic("t", config=KEPT_FOREVER)
        async with connect(broker) as wire:
            for version, most in ((0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (12, 2)):
                error, data = await fetch(wire, version)
                assert error == 0
                assert {batch.magic for batch in decode(data)} == {min(magic, most)}
                assert {batch.compression for batch in decode(data)} == {codec}
                assert rows(data) == expected(end, min(magic, most))
            assert await list_offset(wire, NOW + 50) == (50 if magic else -1)
            assert await list_offset(wire, -3) == (end - 1 if magic else -1)
            assert (await list_offset(wire, -2), await list_offset(wire, -1)) == (0, end)
    async with Broker(data_dir=tmp_path) as broker:
        assert await read(broker.bootstrap_servers, "t", end, "read_committed") == expected(end, magic)


def test_log_append_time_is_kept_for_older_clients() -> None:
    """The broker's time in magic 1 counts for all messages in a set. Magic 0 has none."""
    appended = BatchBuilder(compression=Compression.GZIP)
    appended.append(NOW, b"k", b"v")
    data = appended.close()
    restamp(data, 0, NOW + 5)
    (one,) = decode(downgrade(data, 2, 0))
    assert one.timestamp_type.name == "LOG_APPEND_TIME"
    assert [record.timestamp for record in one] == [NOW + 5]


# ---- compaction

SETS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2]),
        st.sampled_from(CODECS),
        st.lists(
            st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.one_of(st.none(), st.binary(max_size=8))),
            min_size=1,
            max_size=4,
        ),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@pytest.fixture(scope="module", autouse=True)
def no_disk() -> Iterator[None]:
    """Don't wait for the disk: these tests aren't about power cuts, and waiting would take most of their time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(compaction, "sync", lambda files: None)
        yield


@settings(max_examples=60, deadline=None)
@given(SETS)
def test_compaction_keeps_the_newest_of_each_key(sets: list[tuple[int, Compression, list[Pair], bool]]) -> None:
    """Offsets and formats stay unchanged for any mix of formats and segments."""
    everything: list[tuple[int, bytes, bytes | None]] = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / "t-0"
        directory.mkdir()
        base, formats = 0, dict[int, int]()
        for magic, codec, pairs, rolls in sets:
            offset = len(everything)
            base = offset if rolls else base
            if magic == 2:
                data = bytearray(newer(pairs, NOW))
                data[:8] = offset.to_bytes(8, "big")
            else:
                data = bytearray(message_set(pairs, offset, magic, codec))
            with (directory / f"{base:020}.log").open("ab") as file:
                file.write(data)
            everything += [(offset + step, *pair) for step, pair in enumerate(pairs)]
            formats.update(dict.fromkeys(range(offset, len(everything)), magic))
        log = Log(directory, CONFIG, NOW)
        for _ in range(2):
            log.roll(NOW)
            for _ in Compaction(log, NOW).run(1 << 20):
                pass
            assert log.end_offset == len(everything)
            newest = {key: (offset, key, value) for offset, key, value in everything}
            kept = [(offset, key, value) for offset, _, key, value in stored(log)]
            assert {key: (offset, key, value) for offset, key, value in kept if key is not None} == newest
            assert kept == sorted(newest.values())
            offset = 0
            while data := bytearray(log.read(offset, 1 << 20)):
                for batch in decode(data):
                    assert all(formats[record.offset] == batch.magic for record in batch)
                    offset = batch.next_offset
            log.close()
            log = Log(directory, CONFIG, NOW, LogCheckpoint(clean_shutdown=True))
        log.close_handlers()


def compacted(directory: Path, cleaned_to: int) -> dict[bytes | None, bytes | None]:
    log = Log(directory, CONFIG, NOW, LogCheckpoint(clean_shutdown=True, cleaned_to=cleaned_to))
    log.roll(NOW)
    for _ in Compaction(log, NOW).run(1 << 20):
        pass
    found = {key: value for _, _, key, value in stored(log)}
    log.close()
    return found


@pytest.mark.parametrize(("age_days", "stays"), [(0.5, True), (2, False)])
@pytest.mark.parametrize("magic", [0, 1])
def test_tombstones_are_removed_by_the_age_of_their_file(
    tmp_path: Path, magic: int, age_days: float, stays: bool
) -> None:
    """If a batch has no delete horizon, Kafka uses a day before the newest segment that was compacted."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    written: dict[int, list[Pair]] = {0: [(b"gone", None), (b"k", b"v")], 2: [(b"other", b"v")], 3: [(b"dirty", b"v")]}
    for base, pairs in written.items():
        (directory / f"{base:020}.log").write_bytes(message_set(pairs, base, magic))
    old = NOW / 1000 - age_days * 86_400
    for base, time in ((0, old), (2, NOW / 1000), (3, NOW / 1000)):
        os.utime(directory / f"{base:020}.log", (time, time))
    found = compacted(directory, cleaned_to=3)
    assert (b"gone" in found) is stays
    assert found.keys() >= {b"k", b"other", b"dirty"}
    # The result is as old as the newest segment that went into it.
    assert (directory / FIRST).stat().st_mtime == NOW / 1000


def rewritten_as(batch: RecordBatch, keep: list[bool]) -> bytes:
    steps = rewrite(batch, bytearray(keep))
    while not all(keep):
        try:
            next(steps)
        except StopIteration as end:
            return bytes(end.value)
    return bytes(batch.raw)


def test_nested_compressed_sets_are_retained() -> None:
    inside = wrapped(message(b"a", offset=0, magic=0), message(b"b", offset=1, magic=0), offset=1, magic=0)
    batch = LegacyBatch(wrapped(inside, message(b"c", offset=2, magic=0), offset=2, magic=0))
    assert [record.value for record in batch] == [b"a", b"b", b"c"]
    assert rewritten_as(batch, [True, False, True]) == batch.raw


# ---- with Kafka's own code


@pytest.mark.kafka
@pytest.mark.java
@pytest.mark.parametrize("jar", client_jars(), ids=lambda jar: jar.stem)
def test_java_reads_compacted_logs_of_its_own_messages(jar: Path, tmp_path: Path) -> None:
    (tmp_path / "java").mkdir()
    java = JavaRecords(jar, tmp_path / "java")
    written = {name: data for name, (data, _) in java.written().items() if name.startswith(("magic-0", "magic-1"))}
    rewritten: dict[str, bytes] = {}
    for name, data in written.items():
        directory = tmp_path / name
        directory.mkdir()
        (directory / FIRST).write_bytes(data)
        log = Log(directory, replace(CONFIG, index_interval_bytes=100), NOW)
        assert log.read(0, 1 << 20) == data
        assert log.end_offset == max(batch.next_offset for batch in decode(data))
        log.close_handlers()
        kept: list[BatchRecord] = []
        for number, batch in enumerate(decode(data)):
            keep = [(number + each) % 3 != 0 for each in range(len(batch))]
            kept += [record for record, stays in zip(batch, keep, strict=True) if stays]
            if any(keep):
                rewritten[name] = rewritten.get(name, b"") + rewritten_as(batch, keep)
        assert [record for batch in decode(rewritten[name]) for record in batch] == kept
    assert len(rewritten) > 30
    assert same(rewritten, {name: described(data) for name, data in rewritten.items()}, java.read(rewritten)) == {}


@pytest.mark.kafka
@pytest.mark.exclusive
@pytest.mark.parametrize("magic", [0, 1])
async def test_real_kafka_serves_the_same(kafka1: RunningKafka, topic: str, tmp_path: Path, magic: int) -> None:
    """A current broker accepts old messages in a log, and serves them as they are."""
    end = archive(tmp_path / "t-0", magic, Compression.GZIP)
    archived = (tmp_path / "t-0" / FIRST).read_bytes()
    admin.create_topic(kafka1, topic, 1, 1, KEPT_FOREVER)
    kafka1.stop_broker(1)
    try:
        (kafka1.data_folder(1) / f"{topic}-0" / FIRST).write_bytes(archived)
        (kafka1.data_folder(1) / ".kafka_cleanshutdown").unlink()
        (kafka1.data_folder(1) / "recovery-point-offset-checkpoint").unlink()
    finally:
        kafka1.start_broker(1)
    async with Broker(data_dir=tmp_path) as broker:
        await broker.create_topic("t", config=KEPT_FOREVER)
        ours = await read(broker.bootstrap_servers, "t", end, "read_committed")
        theirs = await read(kafka1.bootstrap_servers, topic, end, "read_committed")
        assert ours == theirs == expected(end, magic)

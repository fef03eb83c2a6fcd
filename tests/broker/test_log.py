"""The log against a list as model: appended batches are read unchanged after rolling, reopening and truncating."""

from __future__ import annotations

import errno
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokproto.broker import opening
from aiokproto.broker.log import Log, LogCheckpoint, LogConfig
from aiokproto.broker.log.segment import SCANNED
from aiokproto.broker.opening import OpeningThread
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.records import BatchBuilder, Compression, RecordBatch, decode
from aiokproto.records.control import encode_end_transaction
from aiokproto.types import OffsetAndTimestamp

NOW = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=700, index_interval_bytes=100)


def batch(
    values: list[bytes], timestamp: int = NOW, compression: Compression = Compression.NONE, **producer: Any
) -> bytearray:
    """Return a batch as a producer sends it."""
    builder = BatchBuilder(compression=compression)
    for step, value in enumerate(values):
        builder.append(timestamp + step, None, value)
    return builder.close(**producer)


def values_from(log: Log, offset: int, max_bytes: int = 500) -> list[tuple[int, bytes | None]]:
    """Return all records from an offset on, read in pieces."""
    found: list[tuple[int, bytes | None]] = []
    while offset < log.end_offset:
        read: RecordBatch | None = None
        for read in decode(log.read(offset, max_bytes)):
            found += [(record.offset, record.value) for record in read if record.offset >= offset]
        assert read is not None, f"nothing to read at {offset}, though the log ends at {log.end_offset}"
        offset = read.next_offset
    return found


@contextmanager
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name) / "topic-0"


VALUES = st.lists(st.binary(max_size=60), min_size=1, max_size=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), VALUES),
        st.tuples(st.just("reopen"), st.just(None)),
        st.tuples(st.just("crash"), st.integers(1, 80)),
        st.tuples(st.just("delete"), st.floats(0, 1)),
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.integers(60, 900), st.floats(0, 1))
def test_reads_what_was_appended(steps: list[tuple[str, object]], max_bytes: int, read_at: float) -> None:
    model: list[bytes] = []
    start = 0
    with directory() as path:
        log = Log(path, SMALL)
        for step, argument in steps:
            if step == "append":
                assert isinstance(argument, list)
                appended = log.append(batch(argument), 0, NOW)
                assert (appended.base_offset, appended.last_offset) == (len(model), len(model) + len(argument) - 1)
                model += argument
            elif step == "reopen":
                log.close()
                log = Log(path, SMALL, NOW, LogCheckpoint(start, clean_shutdown=True))
            elif step == "crash":
                assert isinstance(argument, int)
                log.close_handlers()
                newest = sorted(path.glob("*.log"))[-1:]
                for file in newest:
                    with file.open("ab") as tail:
                        tail.write(bytes(batch([b"half"]))[:argument] if argument % 2 else b"\xff" * argument)
                log = Log(path, SMALL, NOW, LogCheckpoint(start))
            else:
                assert isinstance(argument, float)
                start = max(start, int(argument * len(model)))
                log.delete_before(start, NOW)
            assert (log.start_offset, log.end_offset) == (start, len(model))
        offset = start + int(read_at * (len(model) - start))
        assert values_from(log, offset, max_bytes) == list(enumerate(model))[offset:]
        log.close_handlers()


@settings(max_examples=50, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=12), st.integers(1, 200))
def test_a_truncated_tail_loses_only_the_truncated_batches(batches: list[list[bytes]], cut: int) -> None:
    with directory() as path:
        log = Log(path, LogConfig())
        ends = []
        for values in batches:
            log.append(batch(values), 0, NOW)
            ends.append((log.size, log.end_offset))
        log.close_handlers()
        file = path / f"{0:020}.log"
        size = max(file.stat().st_size - cut, 0)
        with file.open("r+b") as tail:
            tail.truncate(size)
        log = Log(path, LogConfig())
        assert log.end_offset == max((offset for end, offset in ends if end <= size), default=0)
        everything = [value for values in batches for value in values]
        assert [value for _, value in values_from(log, 0)] == everything[: log.end_offset]
        assert log.append(batch([b"next"]), 0, NOW).base_offset == log.end_offset - 1
        log.close_handlers()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "topic-0"


def test_a_flipped_bit_truncates_the_log(path: Path) -> None:
    log = Log(path, LogConfig())
    for value in (b"one", b"two", b"three"):
        log.append(batch([value]), 0, NOW)
    size = log.size
    log.close()
    file = path / f"{0:020}.log"
    damaged = bytearray(file.read_bytes())
    damaged[size // 3 + 65] ^= 1
    file.write_bytes(damaged)
    log = Log(path, LogConfig())
    assert values_from(log, 0) == [(0, b"one")]
    log.close_handlers()


def test_the_files_have_kafkas_layout(path: Path) -> None:
    """Segments are named by their first offset. Indexes are next to them, with entries of 8 and 12 bytes."""
    log = Log(path, SMALL)
    for number in range(30):
        log.append(batch([b"x" * 50], NOW + number), 3, NOW)
    log.close()
    segments = sorted(file.name for file in path.glob("*.log"))
    assert segments[0] == "00000000000000000000.log"
    assert len(segments) > 1
    for name in segments:
        raw = (path / name).read_bytes()
        batches = list(decode(raw))
        assert batches[0].base_offset == int(name[:20])
        assert {each.partition_leader_epoch for each in batches} == {3}
        index = (path / name).with_suffix(".index").read_bytes()
        times = (path / name).with_suffix(".timeindex").read_bytes()
        assert len(index) % 8 == 0
        assert len(times) % 12 == 0
        for at in range(0, len(index), 8):
            relative, position = struct.unpack_from(">ii", index, at)
            assert next(decode(raw[position:])).last_offset == int(name[:20]) + relative


def test_damaged_indexes_are_rebuilt(path: Path) -> None:
    log = Log(path, SMALL)
    for number in range(30):
        log.append(batch([b"x" * 50], NOW + number), 0, NOW)
    log.close()
    for file in [*path.glob("*.index")]:
        file.write_bytes(b"\xff" * 16)
    for file in [*path.glob("*.timeindex")]:
        file.unlink()
    log = Log(path, SMALL)
    assert len(values_from(log, 0)) == 30
    found = log.batch_at_time(NOW + 17, 0)
    assert found is not None
    assert found.base_offset == 17
    log.close_handlers()


def test_read_returns_whole_batches_within_the_limit(path: Path) -> None:
    log = Log(path, LogConfig(index_interval_bytes=0))
    size = len(batch([b"x"]))
    for _ in range(10):
        log.append(batch([b"x"]), 0, NOW)
    assert len(log.read(0, 3 * size)) == 3 * size
    assert len(log.read(0, 3 * size + size - 1)) == 3 * size
    assert len(log.read(4, 1)) == size, "the first batch comes however small the limit is"
    assert log.read(4, 1, at_least_one=False) == b""
    assert log.read(10, 1000) == b""
    log.close_handlers()


def test_finds_each_batch_wherever_its_header_lies(path: Path) -> None:
    """Headers are read a page at a time, and the end of a page can divide one."""
    log = Log(path, LogConfig(index_interval_bytes=100_000))
    values = [bytes(number % 97) for number in range(300)]
    values[100:100] = [bytes(SCANNED), bytes(3 * SCANNED)]
    for value in values:
        log.append(batch([value]), 0, NOW)
    for offset, value in enumerate(values):
        found = next(iter(decode(log.read(offset, 1))))
        assert [(record.offset, record.value) for record in found] == [(offset, value)]
    log.close_handlers()


@pytest.mark.parametrize("offset", [-1, 4, 11])
def test_offsets_outside_the_log_are_refused(path: Path, offset: int) -> None:
    log = Log(path, LogConfig())
    log.append(batch([b"x"] * 10), 0, NOW)
    log.delete_before(5, NOW)
    with pytest.raises(BrokerError) as refused:
        log.find(offset, 100)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    log.close_handlers()


async def offset_at_time(log: Log, timestamp: int) -> OffsetAndTimestamp | None:
    thread = OpeningThread()
    try:
        return await opening.offset_at_time(log, timestamp, thread)
    finally:
        thread.stop()
        await thread.ended()


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
async def test_finds_records_by_time(path: Path, compression: Compression) -> None:
    log = Log(path, SMALL)
    for number in range(40):
        log.append(batch([b"a", b"b"], NOW + 10 * number, compression), 0, NOW)
    for timestamp, offset in [(0, 0), (NOW, 0), (NOW + 1, 1), (NOW + 2, 2), (NOW + 205, 42), (NOW + 391, 79)]:
        found = await offset_at_time(log, timestamp)
        assert found is not None
        assert found.offset == offset
    assert await offset_at_time(log, NOW + 392) is None
    newest = await offset_at_time(log, log.max_timestamp)
    assert newest is not None
    assert (newest.offset, newest.timestamp) == (79, NOW + 391)
    log.close_handlers()


async def test_times_out_of_order(path: Path) -> None:
    log = Log(path, SMALL)
    for timestamp in [5, 3, 9, 1, 7] * 10:
        log.append(batch([b"x" * 40], timestamp), 0, NOW)
    for timestamp, offset in [(1, 0), (5, 0), (6, 2), (9, 2)]:
        found = await offset_at_time(log, timestamp)
        assert found is not None
        assert found.offset == offset
    log.close_handlers()


def test_log_append_time(path: Path) -> None:
    log = Log(path, LogConfig(append_time=True))
    assert log.append(batch([b"a", b"b"], 5), 0, NOW).timestamp == NOW
    (stored,) = decode(log.read(0, 1000))
    assert [record.timestamp for record in stored] == [NOW, NOW]
    log.close_handlers()


def test_retention_by_time_and_size(path: Path) -> None:
    log = Log(path, LogConfig(segment_bytes=200, retention_ms=1000, retention_bytes=-1))
    for number in range(10):
        log.append(batch([b"x" * 50], NOW + 100 * number), 0, NOW)
    log.retain(NOW + 1500)
    assert 0 < log.start_offset <= 5
    log.config = LogConfig(segment_bytes=200, retention_ms=-1, retention_bytes=300)
    log.retain(NOW)
    assert log.size < 300 + 200
    log.config = LogConfig(segment_bytes=200, retention_ms=0)
    log.retain(NOW + 10_000)
    assert (log.start_offset, log.end_offset) == (10, 10)
    log.close()
    assert Log(path, LogConfig()).end_offset == 10, "an emptied log still knows its end"


def test_segments_roll_with_time(path: Path) -> None:
    log = Log(path, LogConfig(segment_ms=1000))
    for timestamp, segments in [(NOW, 1), (NOW + 1000, 1), (NOW + 1001, 2), (NOW + 1500, 2)]:
        log.append(batch([b"x"], timestamp), 0, NOW)
        assert len(list(path.glob("*.log"))) == segments, "by the records' own time"
    log.roll(NOW)
    for now, segments in [(NOW, 3), (NOW + 1000, 3), (NOW + 1001, 4)]:
        log.append(batch([b"x"], -1), 0, now)
        assert len(list(path.glob("*.log"))) == segments, "by the clock, where records have none"
    log.close_handlers()


def test_segments_roll_when_their_index_is_full(path: Path) -> None:
    log = Log(path, LogConfig(index_interval_bytes=0, segment_index_bytes=48))
    for _ in range(20):
        log.append(batch([b"x"]), 0, NOW)
    log.close()
    assert {file.stat().st_size for file in path.glob("*.index")} <= {0, 8, 16, 24, 32, 40, 48}
    assert len(list(path.glob("*.log"))) > 2


def test_jitter_spreads_the_ends_of_segments(path: Path) -> None:
    ends = set()
    for number in range(20):
        log = Log(path.with_name(f"t-{number}"), LogConfig(segment_ms=1000, segment_jitter_ms=900))
        for step in range(1002):
            log.append(batch([b"x"], NOW + step), 0, NOW)
            if len(log.segments) > 1:
                ends.add(step)
                break
        log.close_handlers()
    assert len(ends) > 1
    assert ends <= set(range(101, 1002))


@pytest.mark.parametrize("damage", [None, b"", b"nonsense", bytes(34) + b"x", b"\1" * 34])
def test_a_damaged_transaction_index_is_rebuilt(path: Path, damage: bytes | None) -> None:
    log = Log(path, SMALL)
    for number in range(30):
        builder = BatchBuilder(is_transactional=True)
        builder.append(NOW, None, b"x" * 50)
        log.append(builder.close(producer_id=7, producer_epoch=0, base_sequence=number), 0, NOW)
        end = encode_end_transaction(
            committed=number % 2 == 0, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=NOW
        )
        log.append(end, 0, NOW)
    expected = log.aborted_transactions(0, 60)
    assert [each.first_offset for each in expected] == list(range(2, 60, 4))
    log.close()
    indexes = sorted(path.glob("*.txnindex"))
    assert len(indexes) > 3
    if damage:
        indexes[1].write_bytes(damage)
    for closed in (True, False):
        log = Log(path, SMALL, NOW, LogCheckpoint(recovery_point=60, clean_shutdown=closed))
        assert log.aborted_transactions(0, 60) == expected
        assert log.aborted_transactions(20, 30) == [
            each for each in expected if each.last_offset >= 20 and each.first_offset < 30
        ]
        log.close_handlers()


def sequenced(sequence: int, count: int = 1, epoch: int = 0, producer_id: int = 7) -> bytearray:
    return batch([b"x"] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


@pytest.mark.parametrize("reopened", [False, True])
def test_idempotence_window(path: Path, reopened: bool) -> None:
    """A repeated batch gets its first offset again while it is among the last five. Gaps and old epochs are refused."""
    log = Log(path, SMALL)
    for sequence in range(0, 12, 2):
        assert log.append(sequenced(sequence, 2), 0, NOW).base_offset == sequence
    if reopened:
        log.close()
        log = Log(path, SMALL)
    for sequence in range(2, 12, 2):
        again = log.append(sequenced(sequence, 2), 0, NOW)
        assert (again.duplicate, again.base_offset, again.last_offset) == (True, sequence, sequence + 1)
    assert log.end_offset == 12
    for refused in (0, 10, 13):
        with pytest.raises(BrokerError) as error:
            log.append(sequenced(refused, 1), 0, NOW)
        assert error.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    with pytest.raises(BrokerError) as error:
        log.append(sequenced(1, epoch=1), 0, NOW)
    assert error.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "a new epoch begins at 0"
    assert log.append(sequenced(0, epoch=1), 0, NOW).base_offset == 12
    with pytest.raises(BrokerError) as error:
        log.append(sequenced(12), 0, NOW)
    assert error.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.append(sequenced(99, producer_id=8), 0, NOW).base_offset == 13, "an unknown producer begins anywhere"
    log.close_handlers()


def test_sequences_wrap(path: Path) -> None:
    log = Log(path, LogConfig())
    log.append(sequenced(2**31 - 2, 3), 0, NOW)
    assert not log.append(sequenced(1), 0, NOW).duplicate
    assert log.append(sequenced(2**31 - 2, 3), 0, NOW).duplicate
    log.close_handlers()


def test_expired_producers_start_with_any_sequence(path: Path) -> None:
    log = Log(path, LogConfig())
    log.append(sequenced(0), 0, NOW)
    log.forget_producers(NOW)
    assert log.append(sequenced(0), 0, NOW).duplicate
    log.forget_producers(NOW + 1)
    assert not log.append(sequenced(0), 0, NOW).duplicate
    log.close_handlers()


@pytest.mark.parametrize("reopened", [False, True])
def test_leader_epochs(path: Path, reopened: bool) -> None:
    log = Log(path, SMALL)
    for epoch, count in [(0, 3), (1, 4), (5, 2)]:
        log.append(batch([b"x"] * count), epoch, NOW)
    log.assign_epoch(6)
    if reopened:
        log.close()
        log = Log(path, SMALL)
    ends = {epoch: tuple(log.end_of_epoch(epoch)) for epoch in range(-1, 8)}
    assert ends == {
        -1: (-1, -1),
        0: (0, 3),
        1: (1, 7),
        2: (1, 7),
        3: (1, 7),
        4: (1, 7),
        5: (5, 9),
        6: (6, 9),
        7: (-1, -1),
    }
    assert [log.epoch_of(offset) for offset in (0, 2, 3, 6, 7, 8)] == [0, 0, 1, 1, 5, 5]
    log.close_handlers()


EPOCHS = "leader-epoch-checkpoint"


def with_epochs(path: Path) -> Log:
    """Return a log with the leader epochs 0, 1 and 5, which start at the offsets 0, 3 and 7."""
    log = Log(path, SMALL)
    for epoch, count in [(0, 3), (1, 4), (5, 2)]:
        for _ in range(count):
            log.append(batch([b"x" * 150]), epoch, NOW)
    return log


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        "0\n3\n0 0\n1 3\n",
        "0\n1\n0 0\n1 3\n5 7\n",
        "1\n3\n0 0\n1 3\n5 7\n",
        "0\n3\n0 0\n1 3\n5\n",
        "0\n3\n0 0\n1 3\nx 7\n",
        "0\n3\n0 0\n1 9\n5 7\n",
        "0\n3\n5 0\n1 3\n5 7\n",
        "0\n1\n-1 0\n",
        "\0" * 30,
    ],
    ids=["missing", "empty", "cut", "more", "version", "short row", "text", "offsets", "epochs", "negative", "zeros"],
)
@pytest.mark.parametrize("clean", [False, True])
def test_a_damaged_leader_epoch_checkpoint_is_rebuilt_from_the_batches(
    path: Path, content: str | None, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with_epochs(path).close()
    intact = (path / EPOCHS).read_text()
    if content is None:
        (path / EPOCHS).unlink()
    else:
        (path / EPOCHS).write_text(content)
    log = Log(path, SMALL, NOW, LogCheckpoint(clean_shutdown=clean))
    assert len(log.segments) > 2
    assert [log.epoch_of(offset) for offset in range(9)] == [0, 0, 0, 1, 1, 1, 1, 5, 5]
    assert log.end_of_epoch(1) == (1, 7)
    log.close_handlers()
    assert (path / EPOCHS).read_text() == intact
    assert (f"{path / EPOCHS} is damaged" in caplog.text) == (content is not None)


def test_a_crash_while_the_leader_epoch_checkpoint_is_written_leaves_the_old_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = with_epochs(path)
    intact = (path / EPOCHS).read_text()

    def fail(number: int) -> None:
        raise OSError(errno.EIO, "disk failed")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk failed"):
        log.assign_epoch(6)
    assert (path / EPOCHS).read_text() == intact
    log.close_handlers()


def test_an_intact_leader_epoch_checkpoint_is_not_rebuilt(path: Path) -> None:
    """Only the checkpoint has an epoch in which nothing was appended."""
    log = with_epochs(path)
    log.assign_epoch(6)
    log.close_handlers()
    log = Log(path, SMALL)
    assert log.end_of_epoch(6) == (6, 9)
    log.close_handlers()

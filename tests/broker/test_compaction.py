"""A compacted log against one that isn't: the newest value of each key stays, even if logs are reopened or compactions
end early."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokproto.broker.log import Log, LogCheckpoint, LogConfig, compaction
from aiokproto.broker.log.compaction import KEY_BYTES, Compaction
from aiokproto.errors import BrokerError
from aiokproto.records import BatchBuilder, Compression, RecordBatch, control, decode

NOW = 1_700_000_000_000
DAY = 86_400_000
CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=80, compact=True, retention_ms=-1, file_delete_delay_ms=0)
MEMORY = 1 << 20

Pair = tuple[bytes, bytes | None]


def batch(
    pairs: Sequence[Pair], timestamp: int = NOW, *, transactional: bool = False, producer: int = -1, sequence: int = -1
) -> bytearray:
    builder = BatchBuilder(
        compression=Compression.GZIP if len(pairs) % 2 else Compression.NONE, is_transactional=transactional
    )
    for step, (key, value) in enumerate(pairs):
        builder.append(timestamp + step, key, value)
    epoch = 0 if producer >= 0 else -1
    return builder.close(producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def marker(producer: int, committed: bool) -> bytearray:
    return control.encode_end_transaction(
        committed=committed, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp=NOW
    )


def compact(log: Log, now: int = NOW, memory: int = MEMORY) -> None:
    log.roll(now)
    for _ in Compaction(log, now).run(memory):
        pass


def batches(log: Log) -> Iterator[RecordBatch]:
    offset = log.start_offset
    while data := log.read(offset, 300):
        for read in decode(data):
            yield read
            offset = read.next_offset


def records(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return the records that a reader of committed records sees."""
    aborted = log.aborted_transactions(0, log.end_offset)
    found = []
    for read in batches(log):
        gone = any(
            each.producer_id == read.producer_id and _within(read, each.first_offset, each.last_offset)
            for each in aborted
        )
        if not read.is_control and not (read.is_transactional and gone) and read.base_offset < log.last_stable_offset:
            found += [(record.offset, record.key, record.value) for record in read]
    return found


def _within(read: RecordBatch, first: int, last: int) -> bool:
    return first <= read.base_offset <= last


def newest(found: list[tuple[int, bytes | None, bytes | None]]) -> dict[bytes | None, tuple[int, bytes | None]]:
    return {key: (offset, value) for offset, key, value in found}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "topic-0"


KEYS = st.sampled_from([b"a", b"b", b"c", b"d" * 40, b"e" * 40 + b"1"])
PAIRS = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.binary(max_size=30))), min_size=1, max_size=5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), PAIRS),
        st.tuples(st.just("transaction"), PAIRS),
        st.tuples(st.just("commit"), st.none()),
        st.tuples(st.just("abort"), st.none()),
        st.tuples(st.just("compact"), st.sampled_from([MEMORY, KEY_BYTES, 3 * KEY_BYTES])),
        st.tuples(st.just("later"), st.integers(0, 2 * DAY)),
        st.tuples(st.just("reopen"), st.booleans()),
    ),
    max_size=40,
)


@settings(max_examples=200)
@given(STEPS)
def test_the_newest_of_each_key_stays(steps: list[tuple[str, object]]) -> None:
    with TemporaryDirectory() as name:
        log = Log(Path(name) / "topic-0", CONFIG, NOW)
        plain = Log(Path(name) / "plain-0", LogConfig(retention_ms=-1), NOW)
        now, sequence = NOW, {7: 0, 8: 0}
        for step, argument in steps:
            producer = 7 if step == "append" else 8
            if step in ("append", "transaction"):
                assert isinstance(argument, list)
                for each in (log, plain):
                    data = batch(argument, transactional=producer == 8, producer=producer, sequence=sequence[producer])
                    assert not each.append(data, 0, now).duplicate
                sequence[producer] += len(argument)
            elif step in ("commit", "abort"):
                for each in (log, plain):
                    each.append(marker(8, step == "commit"), 0, now)
            elif step == "compact":
                assert isinstance(argument, int)
                compact(log, now, argument)
            elif step == "later":
                assert isinstance(argument, int)
                now += argument
            else:
                saved = LogCheckpoint(cleaned_to=log.cleaned_to, recovery_point=log.end_offset if argument else 0)
                log.close_handlers()
                for snapshot in log.directory.glob("*.snapshot"):
                    # If there are no snapshots, producer state is rebuilt from the log.
                    snapshot.unlink() if argument else None
                log = Log(log.directory, CONFIG, now, saved)
            assert log.end_offset == plain.end_offset
            assert log.last_stable_offset == plain.last_stable_offset
        expected, found = records(plain), records(log)
        assert set(found) <= set(expected)
        assert found == sorted(found, key=lambda record: record[0])
        for key, (offset, value) in newest(expected).items():
            # A tombstone may have been removed together with its key.
            assert newest(found).get(key, (offset, None)) == (offset, value)
        for producer, next_sequence in sequence.items():
            if next_sequence:
                later = batch([(b"a", b"")], transactional=True, producer=producer, sequence=next_sequence + 1)
                with pytest.raises(BrokerError, match=f"is at sequence {next_sequence},"):
                    log.append(later, 0, now)
        log.close_handlers()
        plain.close_handlers()


def test_only_the_newest_of_each_key_stays(path: Path) -> None:
    log = Log(path, CONFIG, NOW)
    for number in range(100):
        log.append(batch([(b"k%d" % (number % 3), b"v%d" % number)]), 0, NOW)
    compact(log)
    assert records(log) == [(97, b"k1", b"v97"), (98, b"k2", b"v98"), (99, b"k0", b"v99")]
    assert (log.start_offset, log.end_offset) == (0, 100)
    assert log.append(batch([(b"k", b"v")]), 0, NOW).base_offset == 100
    assert len(log.segments) > 10
    compact(log)
    assert len(log.segments) == 2, "small segments become one"
    log.close()


def test_the_newest_segment_is_not_compacted(path: Path) -> None:
    log = Log(path, replace(CONFIG, segment_bytes=1 << 20), NOW)
    for number in range(10):
        log.append(batch([(b"k", b"v%d" % number)]), 0, NOW)
    compaction = Compaction(log, NOW)
    assert not compaction.due
    assert not list(compaction.run(MEMORY))
    assert len(records(log)) == 10
    log.close()


def test_tombstones_stay_until_their_delete_horizon(path: Path) -> None:
    """The time counts from the first compaction that sees them, and is kept in the batch (KIP-534)."""
    log = Log(path, replace(CONFIG, delete_retention_ms=1000), NOW)
    log.append(batch([(b"k", b"v"), (b"other", b"v")]), 0, NOW)
    log.append(batch([(b"k", None)], NOW + 5), 0, NOW)
    log.append(batch([(b"last", b"v")]), 0, NOW)
    compact(log, NOW)
    log.append(batch([(b"more", b"v")]), 0, NOW)
    for now in (NOW, NOW + 999):
        compact(log, now)
        assert (2, b"k", None) in records(log)
    (found,) = [each for each in batches(log) if each.base_offset == 2]
    assert found.delete_horizon == NOW + 1000
    assert [record.timestamp for record in found] == [NOW + 5], "timestamps are what they were"
    log.append(batch([(b"more", b"v")]), 0, NOW)
    compact(log, NOW + 1000)
    assert b"k" not in newest(records(log))
    assert b"other" in newest(records(log))
    log.close()


def test_aborted_records_are_removed_before_their_marker(path: Path) -> None:
    log = Log(path, replace(CONFIG, delete_retention_ms=1000), NOW)
    log.append(batch([(b"k", b"good")]), 0, NOW)
    log.append(batch([(b"k", b"aborted")], transactional=True, producer=8, sequence=0), 0, NOW)
    log.append(marker(8, committed=False), 0, NOW)
    log.append(batch([(b"x", b"v")], transactional=True, producer=8, sequence=1), 0, NOW)
    log.append(marker(8, committed=True), 0, NOW)
    log.append(batch([(b"last", b"v")]), 0, NOW)
    compact(log, NOW)
    assert [record[1:] for record in records(log)] == [(b"k", b"good"), (b"x", b"v"), (b"last", b"v")]
    assert [each.base_offset for each in batches(log) if each.is_control] == [2, 4]
    assert log.aborted_transactions(0, 6), "its records were there until now"
    for now, markers in [(NOW, [2, 4]), (NOW + 999, [2, 4]), (NOW + 1000, [4])]:
        log.append(batch([(b"last", b"v")]), 0, NOW)
        compact(log, now)
        assert not log.aborted_transactions(0, 6)
        assert [each.base_offset for each in batches(log) if each.is_control] == markers
    log.close()


def test_open_transactions_are_not_compacted(path: Path) -> None:
    log = Log(path, CONFIG, NOW)
    for number in range(20):
        log.append(batch([(b"k", b"v%d" % number)]), 0, NOW)
    log.append(batch([(b"k", b"open")], transactional=True, producer=8, sequence=0), 0, NOW)
    for number in range(20):
        log.append(batch([(b"k", b"w%d" % number)]), 0, NOW)
    compact(log)
    offsets = [each.base_offset for each in batches(log)]
    assert offsets[-21:] == list(range(20, 41))
    assert len(offsets) < 41, "what came before it is compacted"
    log.close()


def test_lag_and_ratio(path: Path) -> None:
    log = Log(path, replace(CONFIG, min_compaction_lag_ms=1000, min_cleanable_dirty_ratio=0.9), NOW)
    for number in range(30):
        log.append(batch([(b"k%d" % number, b"v")], NOW), 0, NOW)
    log.roll(NOW)
    assert not Compaction(log, NOW + 999).due, "too young"
    assert Compaction(log, NOW + 1000).due
    compact(log, NOW + 1000)
    log.append(batch([(b"k1", b"v")], NOW), 0, NOW)
    log.roll(NOW)
    assert not Compaction(log, NOW + 5000).due, "too little is new"
    log.config = replace(log.config, max_compaction_lag_ms=4000)
    assert not Compaction(log, NOW + 4000).due
    assert Compaction(log, NOW + 4001).due, "it has waited too long"
    log.close()


def test_a_reader_in_the_middle_of_a_swap(path: Path) -> None:
    log = Log(path, replace(CONFIG, file_delete_delay_ms=1000), NOW)
    for number in range(30):
        log.append(batch([(b"k", b"v%d" % number)]), 0, NOW)
    span = log.find(3, 300)
    compact(log)
    assert next(decode(span.read())).base_offset == 3, "what was found before can be read"
    assert list(path.glob("*.deleted"))
    log.purge(NOW + 1000)
    assert not list(path.glob("*.deleted"))
    assert [record[0] for record in records(log)] == [29]
    log.close()


class PowerCutError(Exception):
    pass


def test_a_crash_at_any_step_of_a_swap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rename of a file is the last one in turn. Then the log is opened again, and has the same records."""
    real = Path.replace
    done = False
    steps = 0
    while not done:
        path = tmp_path / str(steps) / "topic-0"
        log = Log(path, replace(CONFIG, file_delete_delay_ms=1000), NOW)
        for number in range(30):
            log.append(batch([(b"k%d" % (number % 2), b"v%d" % number)]), 0, NOW)
        log.append(batch([(b"a", b"v")], transactional=True, producer=8, sequence=0), 0, NOW)
        log.append(batch([(b"b", b"v")]), 0, NOW)
        log.append(marker(8, committed=False), 0, NOW)
        log.roll(NOW)
        left = steps

        def rename(self: Path, target: Path) -> Path:
            nonlocal left
            if not left:
                raise PowerCutError
            left -= 1
            return real(self, target)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "replace", rename)
            try:
                compact(log)
                done = True
            except PowerCutError:
                steps += 1
        log.close_handlers()
        for _ in range(2):
            log = Log(path, CONFIG, NOW)
            assert {key: value for _, key, value in records(log)} == {b"k0": b"v28", b"k1": b"v29", b"b": b"v"}
            assert log.end_offset == 33
            assert not [file.name for file in path.iterdir() if file.suffix in (".cleaned", ".swap", ".deleted")]
            log.close()
    assert steps > 10


def test_a_failed_compaction_leaves_no_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(path, CONFIG, NOW)
    for number in range(30):
        log.append(batch([(b"k", b"v%d" % number)]), 0, NOW)

    def full(files: Iterable[Path]) -> NoReturn:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(compaction, "sync", full)
        with pytest.raises(OSError, match="no space"):
            compact(log)
    assert not list(path.glob("*.cleaned"))
    assert len(records(log)) == 30
    log.close()


def values(log: Log) -> dict[bytes | None, bytes | None]:
    return {key: value for _, key, value in records(log)}


@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_a_batch_is_compacted_in_steps_however_many_slices_it_has(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("records.slices", "broker.log.rewrite"):
        monkeypatch.setattr(f"aiokproto.{module}.SLICE_RECORDS", size)
    pairs: list[Pair] = [(b"k%d" % (number % 7), b"%d" % number if number % 5 else None) for number in range(101)]
    log = Log(tmp_path, CONFIG, NOW)
    log.append(batch(pairs), 0, NOW)
    log.append(batch([(b"k0", b"last")]), 0, NOW)
    log.roll(NOW)
    steps = list(Compaction(log, NOW).run(MEMORY))
    assert (len(steps) > 20) is (size < 10_000)
    assert values(log) == {**dict(pairs), b"k0": b"last"}
    assert len(records(log)) == 7
    log.close_handlers()


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_a_batch_that_would_take_too_much_memory_is_retained_in_full(
    codec: Compression, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiokproto.broker.log.rewrite.MAX_REWRITTEN", 1000)
    log = Log(tmp_path, CONFIG, NOW)
    for count in (20, 8):
        builder = BatchBuilder(compression=codec)
        for number in range(count):
            builder.append(NOW, b"%d-%d" % (count, number), bytes(100))
        builder.append(NOW, b"key", b"%d" % count)
        log.append(builder.close(), 0, NOW)
    log.append(batch([(b"key", b"last")]), 0, NOW)
    compact(log)
    # The superseded record of the first key is still there.
    assert [value for _, key, value in records(log) if key == b"key"] == [b"20", b"last"]
    assert len(records(log)) == 20 + 8 + 2
    log.close_handlers()

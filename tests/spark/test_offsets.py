from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.errors import ConfigurationError
from aiokproto.spark.offsets import (
    EARLIEST,
    LATEST,
    Bound,
    DataLossError,
    Log,
    OffsetRange,
    format_offsets,
    parse_assignment,
    parse_offsets,
    resolve,
    split,
)
from aiokproto.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID = bytes(16)
topics = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True).filter(lambda name: name not in (".", ".."))
partitions = st.builds(TopicPartition, topics, st.integers(0, 99))


def bound(number: int, *, by_timestamp: bool = False) -> Bound:
    return Bound("opt", number, by_timestamp=by_timestamp)


def at(offset: int) -> Bound:
    return Bound("opt", each={T0: offset})


def resolved(
    log: Log,
    starting: Bound,
    ending: Bound,
    *,
    unmatched_is_latest: bool = False,
    fail: bool = True,
    resumed: bool = False,
) -> tuple[int, int]:
    found, warning = resolve(
        T0, log, starting, ending, unmatched_is_latest=unmatched_is_latest, fail=fail, resumed=resumed
    )
    assert (warning is None) or not fail
    return found.start, found.end


@given(st.dictionaries(partitions, st.integers(0, 2**63 - 1)))
def test_offsets_survive_json(offsets: dict[TopicPartition, int]) -> None:
    assert parse_offsets("opt", format_offsets(offsets), allowed=()) == offsets


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "1",
        '{"t": 1}',
        '{"t": {"x": 1}}',
        '{"t": {"-1": 1}}',
        '{"t": {"0": "1"}}',
        '{"t": {"0": 1.5}}',
        '{"t": {"0": true}}',
        '{"t": {"0": -1}}',
        '{"t": {"0": 9223372036854775808}}',
        '{"t": {"%s": 1}}' % ("9" * 5000),
        '{"no topic": {"0": 1}}',
        "[" * 100_000,
    ],
)
def test_the_error_for_invalid_offsets_names_the_option(text: str) -> None:
    with pytest.raises(ConfigurationError, match="opt"):
        parse_offsets("opt", text, allowed=(EARLIEST,))


@pytest.mark.parametrize("text", ["{}", '{"t": []}', '{"t": 0}', '{"t": ["0"]}', '{"t": [-1]}', '{"t": [true]}', "[0]"])
def test_an_invalid_assignment_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="assign"):
        parse_assignment("assign", text)


def test_missing_and_extra_partitions_are_refused() -> None:
    offsets = Bound("startingOffsets", each={T0: 1})
    offsets.check_covers([T0])
    with pytest.raises(ConfigurationError, match="startingOffsets has no value for t-1"):
        offsets.check_covers([T0, T1])
    with pytest.raises(
        ConfigurationError, match="startingOffsets names partitions that are not read or do not exist: t-0"
    ):
        offsets.check_covers([])
    bound(EARLIEST).check_covers([T0, T1])


def test_whole_log() -> None:
    assert resolved(Log(ID, 3, 9), bound(EARLIEST), bound(LATEST)) == (3, 9)
    assert resolved(Log(ID, 3, 9), at(EARLIEST), at(LATEST)) == (3, 9)


def test_given_offsets() -> None:
    assert resolved(Log(ID, 3, 9), at(4), at(8)) == (4, 8)
    assert resolved(Log(ID, 3, 9), at(3), at(9)) == (3, 9)


def test_a_start_below_the_log_is_data_loss() -> None:
    with pytest.raises(DataLossError, match="t-0 begins at offset 3: 2 offsets from 1 on were deleted"):
        resolved(Log(ID, 3, 9), at(1), bound(LATEST))
    assert resolved(Log(ID, 3, 9), at(1), bound(LATEST), fail=False) == (3, 9)


def test_offsets_beyond_the_end_are_an_error() -> None:
    with pytest.raises(ConfigurationError, match="opt: t-0 ends at offset 9, before 10"):
        resolved(Log(ID, 3, 9), at(10), bound(LATEST))
    with pytest.raises(ConfigurationError, match="opt: t-0 ends at offset 9, before 12"):
        resolved(Log(ID, 3, 9), bound(EARLIEST), at(12))
    with pytest.raises(ConfigurationError, match="opt: t-0 ends at offset 9, before 10"):
        resolved(Log(ID, 3, 9), at(10), bound(LATEST), fail=False)
    assert resolved(Log(ID, 3, 9), bound(EARLIEST), at(12), fail=False) == (3, 9)


def test_an_end_below_the_log_is_data_loss() -> None:
    for starting in (bound(EARLIEST), at(1)):
        with pytest.raises(DataLossError, match="were deleted"):
            resolved(Log(ID, 8, 9), starting, at(5))
        assert resolved(Log(ID, 8, 9), starting, at(5), fail=False) == (8, 8)


def test_timestamps() -> None:
    stamp = bound(1000, by_timestamp=True)
    assert resolved(Log(ID, 3, 9, at_start=5, at_end=7), stamp, stamp) == (5, 7)
    assert resolved(Log(ID, 3, 9, at_start=5), stamp, stamp) == (5, 9)
    with pytest.raises(ConfigurationError, match="t-0 has no record with timestamp 1000 or later"):
        resolved(Log(ID, 3, 9), stamp, bound(LATEST))
    assert resolved(Log(ID, 3, 9), stamp, bound(LATEST), unmatched_is_latest=True) == (9, 9)


def test_records_written_while_a_read_is_planned_belong_to_the_next() -> None:
    stamp = bound(1000, by_timestamp=True)
    assert resolved(Log(ID, 3, 9, at_start=12, at_end=14), stamp, stamp) == (9, 9)


def test_a_range_does_not_end_before_it_starts() -> None:
    stamp = bound(1000, by_timestamp=True)
    for fail in (True, False):
        with pytest.raises(ConfigurationError, match=r"t-0 ends \(opt: offset 4\) before it starts \(opt: offset 6\)"):
            resolved(Log(ID, 0, 9, at_end=4), at(6), stamp, fail=fail)
        with pytest.raises(ConfigurationError, match="before it starts"):
            resolved(Log(ID, 0, 9, at_start=6, at_end=4), stamp, stamp, fail=fail)


def test_a_load_that_ends_before_the_last_one_reads_nothing_and_keeps_its_start() -> None:
    """A load continues at the end of its last range. If that moved back, rows would be read twice."""
    assert resolved(Log(ID, 0, 9, at_end=4), at(6), bound(1000, by_timestamp=True), resumed=True) == (6, 6)


def ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange("t", ID, partition, 10, 10 + size) for partition, size in enumerate(sizes)]


def test_each_partition_with_records_is_one_task() -> None:
    assert split(ranges(5, 0, 7)) == [OffsetRange("t", ID, 0, 10, 15), OffsetRange("t", ID, 2, 10, 17)]
    assert split(ranges(0)) == []
    assert split([]) == []


def test_more_tasks_for_longer_ranges() -> None:
    assert [(one.partition, one.start, one.end) for one in split(ranges(100, 300), min_partitions=4)] == [
        (0, 10, 110),
        (1, 10, 110),
        (1, 110, 210),
        (1, 210, 310),
    ]


def test_fewer_tasks_than_partitions_cut_nothing() -> None:
    assert [one.size for one in split(ranges(100, 1, 1), min_partitions=3)] == [100, 1, 1]
    assert [one.size for one in split(ranges(100, 1, 1), min_partitions=2)] == [100, 1, 1]


@pytest.mark.parametrize(
    ("sizes", "wanted", "tasks"),
    [
        # A long range and nine short ones.
        ([1_000_000, *[10] * 9], 11, 11),
        ([1_000_000, *[10] * 9], 20, 20),
        ([1_000_000, *[10] * 9], 40, 40),
        # Shares of 1.5 and 2.5: halves are rounded up.
        ([15, 25], 4, 5),
        ([3, 1], 40, 4),
        # No range is split if none is large enough.
        ([5, 5, 5], 4, 3),
    ],
)
def test_there_are_as_many_tasks_as_with_the_official_connector(sizes: list[int], wanted: int, tasks: int) -> None:
    assert len(split(ranges(*sizes), min_partitions=wanted)) == tasks


def test_no_more_offsets_than_wanted_in_a_task() -> None:
    assert [one.size for one in split(ranges(10, 3), max_records=4)] == [3, 3, 4, 3]


@given(
    st.lists(st.integers(0, 1000), max_size=5),
    st.none() | st.integers(1, 50),
    st.none() | st.integers(1, 300),
)
def test_cuts_leave_nothing_out_and_repeat_nothing(sizes: list[int], tasks: int | None, most: int | None) -> None:
    cuts = split(ranges(*sizes), tasks, most)
    whole = [(one.partition, offset) for one in ranges(*sizes) for offset in range(one.start, one.end)]
    assert [(one.partition, offset) for one in cuts for offset in range(one.start, one.end)] == whole
    assert all(one.size > 0 for one in cuts)
    assert most is None or all(one.size <= most for one in cuts)

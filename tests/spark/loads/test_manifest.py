from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.spark.loads.history import NO_ID, ConflictError, History
from aiokproto.spark.loads.manifest import LoadedPartition, Manifest, ManifestError
from aiokproto.spark.positions import Divergence, Position
from aiokproto.types import TopicPartition

ID = "0a" * 16

numbers = st.integers(-1, 2**63 - 1)
partitions = st.builds(
    LoadedPartition,
    topic=st.text(),
    topic_id=st.just(ID),
    partition=st.integers(0, 9),
    start=numbers,
    end=numbers,
    rows=numbers,
    first_offset=st.none() | numbers,
    epochs=st.lists(st.tuples(numbers, numbers), max_size=2).map(tuple),
    after=st.none() | st.builds(Position, numbers, st.lists(st.tuples(numbers, numbers), max_size=2).map(tuple)),
    diverged=st.none() | st.builds(Divergence, numbers, numbers, numbers, numbers),
)


def manifest(number: int, *loaded: LoadedPartition, replaces: int | None = None, run: int | None = None) -> Manifest:
    return Manifest(
        number=number,
        run_id=f"{run or number:06}-aa",
        attempt=1,
        replaces=replaces,
        cluster_id="c",
        data=f"run={number}",
        files=("part-0",),
        created="2026-01-01T00:00:00+00:00",
        read_committed=False,
        include_headers=False,
        source_rows=0,
        partitions=loaded,
    )


def loaded(
    partition: int,
    start: int,
    end: int,
    topic: str = "t",
    after: int | None = None,
    diverged: Divergence | None = None,
    epoch: int = -1,
) -> LoadedPartition:
    epochs = () if epoch < 0 else ((epoch, 0),)
    position = None if after is None else Position(after, epochs)
    return LoadedPartition(topic, ID, partition, start, end, epoch, epochs, after=position, diverged=diverged)


@given(st.lists(partitions, max_size=3))
def test_manifests_survive_json(found: list[LoadedPartition]) -> None:
    written = manifest(1, *found)
    assert Manifest.from_text(written.to_text(), "name") == written


@pytest.mark.parametrize(
    "text",
    [b"", b"\xff", b"[]", b"{}", b'{"format": 2}', b'{"format": 2, "partitions": [{"topic": "t"}]}', b'{"format": 1}'],
)
def test_an_invalid_manifest_is_refused_with_its_name(text: bytes) -> None:
    with pytest.raises(ManifestError, match=r"manifest 7\.json"):
        Manifest.from_text(text, "7.json")


@pytest.mark.parametrize(
    ("name", "value"),
    [("rows", "x"), ("rows", None), ("start", 1.5), ("topic", []), ("columns", 5), ("run_id", 7), ("created", None)],
)
def test_a_field_of_another_type_is_refused(name: str, value: object) -> None:
    written = manifest(1, loaded(0, 0, 5)).as_json()
    (part,) = written["partitions"]
    (part if name in part else written)[name] = value
    with pytest.raises(ManifestError, match=rf"manifest 7\.json cannot be read: .*{name} is"):
        Manifest.of_json(written, "7.json")


def test_a_history_is_where_each_partition_ended() -> None:
    history = History().then(manifest(1, loaded(0, 0, 5), loaded(1, 0, 7), loaded(0, 0, 3, "u")))
    history = history.then(manifest(2, loaded(0, 5, 9, after=5), loaded(1, 7, 7, after=7)))
    ends = {("t", 0): 9, ("t", 1): 7, ("u", 0): 3}
    assert history.positions == {TopicPartition(*where): Position(end) for where, end in ends.items()}
    assert (history.number, history.cluster_id, history.topic_ids) == (2, "c", {"t": ID, "u": ID})
    assert History.of_json(history.as_json()) == history


@pytest.mark.parametrize("fields", [{}, {"format": 7}, {"format": 1}, {"format": 1, "positions": []}])
def test_an_invalid_history_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ManifestError, match="a history"):
        History.of_json(fields)


def test_loaded_records_are_not_loaded_again() -> None:
    history = History().then(manifest(1, loaded(0, 0, 5)))
    with pytest.raises(ConflictError, match=r"planned when t-0 was not loaded at all, and now .* up to offset 5"):
        history.then(manifest(2, loaded(0, 4, 9)))
    with pytest.raises(ConflictError, match=r"planned when t-0 was loaded up to offset 4, and now .* up to offset 5"):
        history.then(manifest(2, loaded(0, 4, 9, after=4)))
    with pytest.raises(ConflictError, match="offsets of t-0 that are loaded already"):
        history.then(manifest(2, loaded(0, 4, 9, after=5)))
    assert history.then(manifest(2, loaded(0, 6, 9, after=5))).number == 2, "what was gone before it could be loaded"


def test_an_offset_after_a_truncation_is_a_new_record() -> None:
    """Two loads were planned from the same position, before and after the log was truncated and has grown again."""
    history = History().then(manifest(1, loaded(0, 0, 14, epoch=0)))
    cut = Divergence(10, 14, 0, 0)
    slow = manifest(3, loaded(0, 14, 20, after=14, epoch=0))
    history = history.then(manifest(2, loaded(0, 10, 14, after=14, epoch=0, diverged=cut)))
    assert history.positions[TopicPartition("t", 0)].offset == 14
    again = LoadedPartition("t", ID, 0, 14, 20, 1, after=Position(14, ((0, 0), (1, 10))))
    history = History(2, "c", history.topic_ids, {TopicPartition("t", 0): Position(14, ((0, 0), (1, 10)))})
    with pytest.raises(ConflictError):
        history.then(slow)
    assert history.then(manifest(3, again)).number == 3


def test_a_range_without_offsets_does_not_conflict() -> None:
    history = History().then(manifest(1, loaded(0, 0, 5), loaded(1, 0, 7)))
    history = history.then(manifest(2, loaded(0, 5, 9, after=5)))
    history = history.then(manifest(3, loaded(0, 5, 5, after=5), loaded(1, 7, 8, after=7)))
    assert history.positions[TopicPartition("t", 0)] == Position(9)


def test_a_load_continues_where_the_log_diverged() -> None:
    history = History().then(manifest(1, loaded(0, 0, 50)))
    history = history.then(manifest(2, loaded(0, 30, 60, after=50, diverged=Divergence(30, 50, 1, 0))))
    assert history.positions[TopicPartition("t", 0)] == Position(60)


def test_an_attempt_replaces_the_committed_one() -> None:
    history = History().then(manifest(1, loaded(0, 0, 5))).then(manifest(2, loaded(0, 5, 9, after=5)))
    history = history.then(manifest(3, loaded(0, 0, 5), replaces=1, run=1))
    assert history.current_number("000001-aa") == 3
    assert history.current_number("000002-aa") == 2
    assert history.positions[TopicPartition("t", 0)] == Position(9)
    with pytest.raises(ConflictError, match="its current manifest is 3, not 1"):
        history.then(manifest(4, loaded(0, 0, 5), replaces=1, run=1))
    assert history.then(manifest(4, loaded(0, 0, 5), replaces=3, run=1)).current_number("000001-aa") == 4


@pytest.mark.parametrize("run_id", ["", "x", "000003-aa", "000000-aa", "-1-aa", "²-aa"])
def test_an_unknown_run(run_id: str) -> None:
    history = History().then(manifest(1)).then(manifest(2))
    with pytest.raises(ManifestError, match="there is no run"):
        history.current_number(run_id)


def test_the_sequence_has_no_gaps() -> None:
    with pytest.raises(ManifestError, match="manifest 3 cannot follow manifest 1"):
        History().then(manifest(1)).then(manifest(3))


def test_a_topic_gets_an_id_when_brokers_are_upgraded() -> None:
    old = replace(loaded(0, 0, 5), topic_id=NO_ID)
    history = History().then(manifest(1, old)).then(manifest(2, loaded(0, 5, 6, after=5)))
    assert history.topic_ids == {"t": ID}
    history = history.then(manifest(3, replace(loaded(0, 6, 7, after=6), topic_id=NO_ID)))
    with pytest.raises(ConflictError, match="records of another topic t"):
        history.then(manifest(4, replace(loaded(0, 7, 8, after=7), topic_id="ff" * 16)))


def test_another_cluster_or_topic_is_refused() -> None:
    history = History().then(manifest(1, loaded(0, 0, 5)))
    with pytest.raises(ConflictError, match="records of another topic t"):
        history.then(manifest(2, LoadedPartition("t", "ff", 0, 5, 6)))

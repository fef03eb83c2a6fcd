from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.spark.manifest import LoadedPartition, Manifest, ManifestError, Progress, progress
from aiokproto.spark.store import FOLDER, Store
from aiokproto.types import TopicPartition

ID = "0a" * 16

partitions = st.builds(
    LoadedPartition,
    topic=st.text(),
    topic_id=st.just(ID),
    partition=st.integers(0, 9),
    start=st.integers(0, 2**63 - 1),
    end=st.integers(0, 2**63 - 1),
    rows=st.integers(0, 2**63 - 1),
    first_offset=st.none() | st.integers(0, 9),
)


def manifest(number: int, *loaded: LoadedPartition, attempt: int = 1) -> Manifest:
    run_id = f"{number:06}-aa"
    return Manifest(
        run_id=run_id,
        number=number,
        attempt=attempt,
        cluster_id="c",
        data=f"run={run_id}.{attempt}",
        created="2026-01-01T00:00:00+00:00",
        read_committed=False,
        include_headers=False,
        partitions=loaded,
    )


def loaded(partition: int, start: int, end: int, topic: str = "t") -> LoadedPartition:
    return LoadedPartition(topic, ID, partition, start, end)


@given(st.lists(partitions, max_size=3))
def test_manifests_survive_json(found: list[LoadedPartition]) -> None:
    written = manifest(1, *found)
    assert Manifest.from_json(written.to_json(), "name") == written


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 1}', '{"format": 1, "partitions": [{"topic": "t"}]}', '{"format": 2}']
)
def test_what_is_no_manifest_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(ManifestError, match=r"manifest 7\.json"):
        Manifest.from_json(text, "7.json")


def test_progress_goes_on_from_the_last_end_of_each_partition() -> None:
    found = progress(
        [
            manifest(1, loaded(0, 0, 5), loaded(1, 0, 7), loaded(0, 0, 3, "u")),
            manifest(2, loaded(0, 5, 9), loaded(1, 7, 7)),
        ]
    )
    positions = {TopicPartition("t", 0): 9, TopicPartition("t", 1): 7, TopicPartition("u", 0): 3}
    assert found == Progress(2, "c", {"t": ID, "u": ID}, positions)
    assert progress([]) == Progress(0, None, {}, {})


def test_two_runs_with_one_number_are_refused() -> None:
    with pytest.raises(ManifestError, match="two loads ran at the same time"):
        progress([manifest(1), replace(manifest(1), run_id="000001-bb")])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "out")


def test_manifests_come_back_in_order(store: Store) -> None:
    assert store.manifests() == []
    for number in (2, 1, 10):
        store.commit(manifest(number, loaded(0, 0, number)))
    assert [found.number for found in store.manifests()] == [1, 2, 10]
    assert store.manifest("000010-aa") == manifest(10, loaded(0, 0, 10))
    with pytest.raises(ManifestError, match="no run 'x'"):
        store.manifest("x")


def test_a_commit_replaces_one_of_the_same_run(store: Store) -> None:
    store.commit(manifest(1))
    store.commit(manifest(1, attempt=2))
    assert store.manifests() == [manifest(1, attempt=2)]


def test_a_manifest_that_was_not_renamed_does_not_count(store: Store, tmp_path: Path) -> None:
    """As when the driver dies between writing and renaming."""
    store.commit(manifest(1))
    (tmp_path / "out" / FOLDER / ".000002-aa.json").write_text("{")
    assert store.manifests() == [manifest(1)]


def test_a_damaged_manifest_is_an_error_not_a_gap(store: Store, tmp_path: Path) -> None:
    store.commit(manifest(1))
    (tmp_path / "out" / FOLDER / "000001-aa.json").write_text("{")
    with pytest.raises(ManifestError, match=r"000001-aa\.json"):
        store.manifests()


def test_discarding_what_a_run_has_written(store: Store, tmp_path: Path) -> None:
    store.discard("run=1")
    folder = tmp_path / "out" / "run=1" / "deep"
    folder.mkdir(parents=True)
    store.discard("run=1")
    assert not folder.parent.exists()


def test_a_path_is_local_whatever_sparks_file_system_is(tmp_path: Path) -> None:
    assert Store(str(tmp_path)).uri == f"file://{tmp_path}"
    assert Store(f"file://{tmp_path}/").uri == f"file://{tmp_path}"
    assert Store(tmp_path).data_uri("run=1") == f"file://{tmp_path}/run=1"


def test_a_path_with_special_characters(tmp_path: Path) -> None:
    out = tmp_path / "with space%20"
    Store(out).commit(manifest(1))
    assert (out / FOLDER / "000001-aa.json").exists()
    assert Store(out).manifests() == [manifest(1)]

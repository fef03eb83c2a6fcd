"""Which files vacuum removes, and which it keeps."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from aiokproto.errors import ConfigurationError
from aiokproto.spark.loads.commits import commit_name
from aiokproto.spark.loads.local import LocalStorage
from aiokproto.spark.loads.manifest import ManifestError
from aiokproto.spark.loads.vacuum import vacuum
from aiokproto.types import TopicPartition
from tests.spark.loads.harness import Log, everything, load, rerun, rows

LOG = Log({TopicPartition("t", 0): 10})
NOW = timedelta(0)
DEAD = "run=20260101T000000Z-0123456789ab"


@pytest.fixture
def output(tmp_path: Path) -> LocalStorage:
    """One load, run again, with an uncommitted directory and one that is not of a load."""
    storage = LocalStorage(f"file://{tmp_path}/out")
    first = load(storage, LOG)
    assert first is not None
    rerun(storage, first.run_id)
    storage.write(f"{DEAD}/t-0", b"1 2 3")
    storage.write("run=1/part-0", b"of another table that is partitioned by run")
    storage.write("other/file", b"of another program")
    return storage


def names(output: LocalStorage) -> set[str]:
    return {folder.name for folder in output.folders()}


def test_directories_that_do_not_count_are_removed(output: LocalStorage) -> None:
    before = names(output)
    removed = vacuum(output.uri, older_than=NOW)
    assert {folder.name for folder in removed} == before - names(output)
    assert [folder.size for folder in removed if folder.name == DEAD] == [5]
    assert len(removed) == 2, "the dead one, and the attempt that was replaced"
    assert {"other", "run=1"} <= names(output)
    assert rows(output) == everything(LOG)
    assert vacuum(output.uri, older_than=NOW) == []


def test_one_without_files_is_removed_and_a_link_is_left_alone(output: LocalStorage, tmp_path: Path) -> None:
    empty, link = DEAD.replace("01T", "02T"), DEAD.replace("01T", "03T")
    (tmp_path / "out" / empty).mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / link).symlink_to(tmp_path / "elsewhere")
    assert empty in {folder.name for folder in vacuum(output.uri, older_than=NOW)}
    assert (tmp_path / "out" / link).is_symlink()


def test_a_dry_run_removes_nothing(output: LocalStorage) -> None:
    before = names(output)
    assert len(vacuum(output.uri, older_than=NOW, dry_run=True)) == 2
    assert names(output) == before


def test_recently_written_files_are_kept(output: LocalStorage, tmp_path: Path) -> None:
    assert vacuum(output.uri) == []
    week = (datetime.now(timezone.utc) - timedelta(days=8)).timestamp()
    dead = tmp_path / "out" / DEAD
    for path in (dead / "t-0", dead):
        os.utime(path, (week, week))
    assert [folder.name for folder in vacuum(output.uri)] == [DEAD]


def test_nothing_is_removed_where_manifests_cannot_be_read(output: LocalStorage) -> None:
    before = names(output)
    output.write(commit_name(1), b"{")
    with pytest.raises(ManifestError, match="000000000001"):
        vacuum(output.uri, older_than=NOW)
    assert names(output) == before


def test_nothing_is_removed_where_nothing_was_committed(tmp_path: Path) -> None:
    storage = LocalStorage(f"file://{tmp_path}/table")
    storage.write(f"{DEAD}/part-0", b"1")
    with pytest.raises(ManifestError, match=f"has no manifest, but {DEAD}: if no load was ever committed, remove that"):
        vacuum(storage.uri, older_than=NOW)
    assert names(storage) == {DEAD}
    with pytest.raises(ManifestError, match="has no manifest: nothing was loaded"):
        vacuum(f"file://{tmp_path}/empty", older_than=NOW)


def test_an_age_below_zero_is_refused(output: LocalStorage) -> None:
    with pytest.raises(ConfigurationError, match="older_than"):
        vacuum(output.uri, older_than=timedelta(seconds=-1))

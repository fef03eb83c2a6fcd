"""The archive of Spark's classes: no run depends on it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark import class_archive
from tests.spark.class_archive import archive_options, keep_archive
from tools.setup.system import find_java


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty ``.cache``."""
    monkeypatch.setattr(class_archive, "CACHE", tmp_path)
    class_archive.archive_file.cache_clear()
    yield tmp_path
    class_archive.archive_file.cache_clear()


@pytest.mark.spark
def test_the_session_that_may_write_it_does_and_others_do_without(cache: Path) -> None:
    assert archive_options(may_write=False) == []
    _, option = archive_options(may_write=True)
    written = Path(option.removeprefix("-XX:ArchiveClassesAtExit="))
    written.write_bytes(b"classes")
    (cache / f"{written.name}9").touch()
    keep_archive()
    (archive,) = cache.iterdir()
    assert archive.read_bytes() == b"classes"
    assert archive_options(may_write=True)[1] == f"-XX:SharedArchiveFile={archive}"


@pytest.mark.spark
@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_java_starts_without_a_word_with_any_archive(cache: Path, content: bytes | None) -> None:
    class_archive.archive_file().write_bytes(content or b"")
    options = archive_options(may_write=False)
    if content is None:
        class_archive.archive_file().unlink()
    done = subprocess.run([str(find_java()), *options, "-version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "cds" not in done.stdout + done.stderr

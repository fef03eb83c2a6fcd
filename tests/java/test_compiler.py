"""The tests' Java programs are compiled once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.java import compiler

pytestmark = [pytest.mark.kafka, pytest.mark.java]
SOURCE = "public final class Said { public static void main(String[] given) { System.out.println(%s); } }"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compiler, "CACHE", tmp_path / "cache")
    return tmp_path / "Said.java"


def test_a_program_is_compiled_and_run(source: Path) -> None:
    source.write_text(SOURCE % '"something"')
    assert compiler.run(compiler.command(source, "Said")) == "something\n"


def test_a_program_is_compiled_until_it_or_a_library_changes(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Path] = []

    def compile_it(_: Path, source: Path, libraries: Sequence[Path], folder: Path) -> None:
        folder.mkdir()
        compiled.append(folder)

    monkeypatch.setattr(compiler, "_compile", compile_it)
    source.write_text(SOURCE % "1")
    first = compiler.compiled(source, [])
    assert (compiler.compiled(source, []), len(compiled)) == (first, 1)
    assert compiler.compiled(source, [source]) != first
    source.write_text(SOURCE % "2")
    assert compiler.compiled(source, []) != first
    assert len(compiled) == 3


def test_what_does_not_compile_is_reported_and_not_kept(source: Path, tmp_path: Path) -> None:
    source.write_text(SOURCE % "unknown")
    with pytest.raises(AssertionError, match=r"unknown cannot be resolved"):
        compiler.compiled(source, [])
    assert not [path for path in (tmp_path / "cache" / "java").iterdir() if path.suffix not in (".lock", ".unfinished")]

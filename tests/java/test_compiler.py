"""The tests' Java programs are compiled once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.java import compiler

pytestmark = [pytest.mark.kafka, pytest.mark.java]
SOURCE = "public final class Said { public static void main(String[] given) { System.out.println(%s); } }"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compiler, "CACHE", tmp_path / "cache")
    return tmp_path / "Said.java"


def said(source: Path) -> str:
    return compiler.run(compiler.command(source, "Said")).strip()


def test_a_program_is_compiled_when_it_has_changed(source: Path) -> None:
    for words in ("first", "second"):
        source.write_text(SOURCE % f'"{words}"')
        assert said(source) == words
    assert compiler.compiled(source, []) != compiler.compiled(source, [source]), "libraries decide, too"


def test_a_program_is_compiled_once(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source.write_text(SOURCE % "1")
    folder = compiler.compiled(source, [])
    monkeypatch.setattr(compiler, "_compile", pytest.fail)
    assert compiler.compiled(source, []) == folder


def test_what_does_not_compile_is_reported_each_time(source: Path) -> None:
    source.write_text(SOURCE % "unknown")
    for _ in range(2):
        with pytest.raises(AssertionError, match=r"unknown cannot be resolved"):
            said(source)

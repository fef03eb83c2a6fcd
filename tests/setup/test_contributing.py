"""The guides for contributors name files, folders and commands that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
NAMED = sorted(set(re.findall(r"`([\w./<>-]+)`", GUIDE)))
PATHS = [name for name in NAMED if "/" in name and "<" not in name and not name.startswith(".c")]


def exists(path: str) -> bool:
    roots = (ROOT, ROOT / "src" / "aiokproto")
    return any((root / path).exists() or (root / f"{path}.py").exists() for root in roots)


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_is_named_exists(path: str) -> None:
    assert exists(path)


def test_enough_is_named_for_the_pattern_to_mean_something() -> None:
    assert len(PATHS) > 20


@pytest.mark.parametrize("verb", sorted(set(re.findall(r"`make ([a-z-]+)", GUIDE))))
def test_a_verb_that_is_named_exists(verb: str) -> None:
    assert re.search(rf"^{verb}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", ["_VERSIONS", "_BY_NAME"])
def test_a_table_that_is_named_exists(name: str) -> None:
    folder = {"_VERSIONS": "broker/handlers", "_BY_NAME": "group/assignors"}[name]
    assert f"\n{name}" in (ROOT / "src" / "aiokproto" / folder / "__init__.py").read_text()

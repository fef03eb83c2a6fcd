"""Which tests belong to a smaller suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutation.selection import Selection

TEST = "tests/net/test_a.py::TestA::test_b[x::y/z[0]]"
BEGINNINGS = [
    TEST,
    "tests/net/test_a.py::TestA::test_b",
    "tests/net/test_a.py::TestA",
    "tests/net/test_a.py",
    "tests/net/",
    "tests",
]


def selection(tmp_path: Path, kind: str, text: str) -> Selection:
    path = tmp_path / f"{kind}.txt"
    path.write_text(text)
    return Selection.of_files(path if kind == "only" else None, path if kind == "without" else None)


@pytest.mark.parametrize("name", BEGINNINGS)
def test_a_test_is_named_by_itself_or_by_what_it_is_in(name: str, tmp_path: Path) -> None:
    text = f"# a comment\n\n{name}\n"
    assert selection(tmp_path, "only", text).takes(TEST)
    assert not selection(tmp_path, "without", text).takes(TEST)


@pytest.mark.parametrize("name", ["tests/net/test_a", "tests/net/test_a.py::TestA::test_", "tests/n", "tests/other"])
def test_a_name_with_the_same_prefix_is_another_name(name: str, tmp_path: Path) -> None:
    assert not selection(tmp_path, "only", name).takes(TEST)
    assert selection(tmp_path, "without", name).takes(TEST)


def test_without_files_all_tests_are_taken() -> None:
    assert Selection.of_files(None, None) == Selection()
    assert Selection().takes(TEST)


def test_another_content_of_a_file_is_another_selection(tmp_path: Path) -> None:
    one, same, other = (selection(tmp_path, "without", text) for text in ("tests/a", "# why\ntests/a", "tests/b"))
    assert one == same
    assert one.name != other.name

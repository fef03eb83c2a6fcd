"""The page of troubles names tests that are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.docs.snippets import ROOT

PAGE = (ROOT / "docs" / "troubles.md").read_text()
ROWS = [row for row in re.findall(r"^\| (.+) \|$", PAGE, re.MULTILINE) if not row.startswith(("trouble ", "---"))]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@cache
def names_in(path: Path) -> set[str]:
    """The names of the tests that pytest collects from a file."""
    return {
        statement.name
        for statement in ast.parse(path.read_text()).body
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and statement.name.startswith("test_")
    }


def test_every_trouble_has_a_test_that_is_there() -> None:
    assert len(ROWS) >= 40
    for row in ROWS:
        trouble, _, proof = row.split(" | ")
        assert re.sub(NAMED, "", proof).strip(", ") == "", f"{trouble}: tests are written `tests/file.py::test_name`"
        found = NAMED.findall(proof)
        assert found, trouble
        for path, name in found:
            assert name in names_in(ROOT / path), f"{trouble}: {path} has no {name}"


def test_no_test_is_written_another_way() -> None:
    """What looks like one in the text is one in the table: a misspelt path would not be noticed."""
    assert PAGE.count("::") == len(NAMED.findall(PAGE))

"""The page of problems names tests that are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.docs.snippets import ROOT

PAGE = (ROOT / "docs" / "problems.md").read_text()
TABLES, _, PROOFS = PAGE.partition("\n## Proofs\n")
ROWS = [row for row in re.findall(r"^\| (.+) \|$", TABLES, re.MULTILINE) if not row.startswith(("problem ", "---"))]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@cache
def names_in(path: Path) -> set[str]:
    """The names of the tests that pytest collects from a file: its functions, and those that it makes by a call."""
    names: set[str] = set()
    for statement in ast.parse(path.read_text()).body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call()):
                names.add(name)
            case _:
                pass
    return {name for name in names if name.startswith("test_")}


def proofs() -> dict[int, str]:
    """Return what the list at the end has for each number."""
    return {int(number): tests for number, tests in re.findall(r"^(\d+)\. (.+(?:\n   .+)*)", PROOFS, re.MULTILINE)}


def test_every_problem_has_a_test_that_is_there() -> None:
    assert len(ROWS) >= 40
    found = proofs()
    assert list(found) == list(range(1, len(ROWS) + 1))
    for number, row in enumerate(ROWS, 1):
        problem, _, link = row.split(" | ")
        section = TABLES[: TABLES.index(row)].rpartition("\n## ")[2].partition("\n")[0]
        assert link == f"[{number}](#{section.lower().replace(' ', '-')}-tests)", problem
        assert re.sub(NAMED, "", found[number]).strip() == "", (
            f"{problem}: tests are written `tests/file.py::test_name`"
        )
        assert NAMED.search(found[number]), problem
        for path, name in NAMED.findall(found[number]):
            assert name in names_in(ROOT / path), f"{problem}: {path} has no {name}"


def test_no_test_is_written_another_way() -> None:
    """What looks like one in the text is one in the table: a misspelt path would not be noticed."""
    assert PAGE.count("::") == len(NAMED.findall(PAGE))

"""The results of mutants, and which ones a smaller suite doesn't catch any more."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

pytest.importorskip("coverage", reason="the `dev` extra has it")

from tests.mutation.coverage_map import Choice
from tests.mutation.mutants import mutants_of
from tests.mutation.results import Result, append, by_package, holds_for, lost, not_caught, read, result_of
from tests.mutation.selection import Selection
from tests.mutation.trial import Ending, Trial

MUTANT = mutants_of("codec/low.py", "LIMIT = 1\n")[0]
RUN = ("map", 60.0)


def result(ending: Ending | None, test: str | None = None, cut: int = 0, ran: int = 1) -> Result:
    trial = None if ending is None else Trial(ending, test, ran, "")
    return result_of(MUTANT, trial, Choice([], cut), 1.0, RUN)


CAUGHT = result(Ending.FAILED, "tests/a.py::test")
HUNG = result(Ending.HUNG, "tests/a.py::test")
KILLED = result(Ending.KILLED)
SURVIVED = result(Ending.PASSED)
NOT_REACHED = result(None)


@pytest.mark.parametrize(
    ("found", "outcome", "is_caught"),
    [
        (CAUGHT, "caught", True),
        (result(Ending.BROKEN, "tests/a.py"), "caught", True),
        (result(Ending.BROKEN), "caught", True),
        (HUNG, "timeout", True),
        (KILLED, "timeout", False),
        (SURVIVED, "survived", False),
        (NOT_REACHED, "not reached", False),
        (result(Ending.PASSED, ran=0), "not reached", False),
    ],
)
def test_a_mutant_is_caught_by_a_test_that_fails(found: Result, outcome: str, is_caught: bool) -> None:
    assert (found.outcome, found.is_caught) == (outcome, is_caught)


WITHOUT = Selection(without=frozenset({"tests/a.py"}))


@pytest.mark.parametrize(
    ("found", "selection", "holds"),
    [
        (CAUGHT, WITHOUT, False),
        (CAUGHT, Selection(without=frozenset({"tests/b.py"})), True),
        (CAUGHT, Selection(only=frozenset({"tests/b.py"})), False),
        (result(Ending.BROKEN), WITHOUT, True),
        (SURVIVED, WITHOUT, True),
        (result(Ending.PASSED, cut=1), WITHOUT, False),
        (NOT_REACHED, WITHOUT, True),
    ],
)
def test_a_smaller_suite_repeats_only_what_it_may_change(found: Result, selection: Selection, holds: bool) -> None:
    """Tests that were cut may run now, because others have left them the time."""
    assert holds_for(found, selection) is holds


def test_results_of_another_map_or_limit_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    assert read(path) == {}
    append(path, CAUGHT._replace(map_name="older"))
    append(path, SURVIVED)
    assert read(path) == {MUTANT.name: SURVIVED}
    assert read(path, ("older", 60.0)) == {MUTANT.name: CAUGHT._replace(map_name="older")}
    assert read(path, ("map", 30.0)) == {}


def test_a_comparison_names_what_was_caught_by_which_test() -> None:
    assert lost({MUTANT.name: CAUGHT}, {MUTANT.name: SURVIVED}) == [
        "codec/low.py:1: LIMIT = 1 -> LIMIT = 2: caught by tests/a.py::test, now survived"
    ]
    assert lost({MUTANT.name: SURVIVED}, {MUTANT.name: CAUGHT}) == []
    assert lost({MUTANT.name: CAUGHT}, {}) == []


def test_a_run_is_counted_by_package() -> None:
    results = [CAUGHT, HUNG, KILLED, SURVIVED, NOT_REACHED, CAUGHT._replace(mutant="group/a.py:0:call:pass")]
    console = Console(file=io.StringIO(), width=120)
    console.print(by_package(results))
    assert isinstance(console.file, io.StringIO)
    rows = {line.split()[0]: line.split()[1:] for line in console.file.getvalue().splitlines() if line.strip()}
    assert rows["codec"] == ["5", "2", "1", "3", "1", "1", "1", "40"]
    assert rows["group"] == ["1", "1", "0", "0", "0", "0", "0", "100"]
    assert rows["all"] == ["6", "3", "1", "3", "1", "1", "1", "50"]
    assert len(not_caught(results)) == 3

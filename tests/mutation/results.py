"""The results of mutants: a file for each selection of tests, with a JSON object a line, written as the trials end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from rich import box
from rich.table import Column, Table

from tests.mutation.coverage_map import Choice
from tests.mutation.mutants import Mutant
from tests.mutation.sample import PACKAGES
from tests.mutation.selection import Selection
from tests.mutation.trial import Ending, Trial

CAUGHT, SURVIVED, NOT_REACHED, TIMEOUT = "caught", "survived", "not reached", "timeout"
DRAWN, BY_TIMEOUT, NOT_CAUGHT = "drawn", "by a timeout", "not caught"
COLUMNS = (DRAWN, CAUGHT, BY_TIMEOUT, NOT_CAUGHT, SURVIVED, NOT_REACHED, TIMEOUT)
ANY = "any test"
"""Stands for the test if no test can run, because a module that all of them import can't be imported."""


class Result(NamedTuple):
    """What became of a mutant.

    Attributes:
        mutant: Its name.
        place: File and line.
        change: The text before and after.
        outcome: ``caught``, ``survived``, ``not reached`` by any of the tests, or ``timeout``.
        test: The test that failed, or that did not end.
        ran: How many tests ran.
        cut: How many would have run without the limit.
        seconds: How long the trial took.
        map_name: Name of the coverage map that the tests were chosen by.
        limit: Most seconds of the tests, as recorded in the map.
    """

    mutant: str
    place: str
    change: str
    outcome: str
    test: str | None
    ran: int
    cut: int
    seconds: float
    map_name: str
    limit: float

    @property
    def is_caught(self) -> bool:
        """Whether a test failed, or didn't end within its timeout; not if the trial was killed."""
        return self.test is not None

    @property
    def run(self) -> tuple[str, float]:
        """What results must have in common to be compared: the map and the limit."""
        return self.map_name, self.limit

    @property
    def package(self) -> str:
        return self.mutant.partition("/")[0]


def result_of(mutant: Mutant, trial: Trial | None, choice: Choice, seconds: float, run: tuple[str, float]) -> Result:
    """Return the result of a mutant's trial. There is no trial if no test reaches the mutant, or if such tests are
    missing."""
    if trial is None or (trial.ending is Ending.PASSED and not trial.ran):
        outcome, test, ran = NOT_REACHED, None, 0
    else:
        outcome, ran = _OUTCOMES[trial.ending], trial.ran
        test = (trial.test or ANY) if trial.ending is Ending.BROKEN else trial.test
    place = f"{mutant.file}:{mutant.line}"
    return Result(mutant.name, place, mutant.change, outcome, test, ran, choice.cut, round(seconds, 1), *run)


_OUTCOMES = {
    Ending.PASSED: SURVIVED,
    Ending.FAILED: CAUGHT,
    Ending.HUNG: TIMEOUT,
    Ending.KILLED: TIMEOUT,
    Ending.BROKEN: CAUGHT,
}


def append(path: Path, result: Result) -> None:
    with path.open("a") as file:
        file.write(f"{json.dumps(result._asdict())}\n")


def read(path: Path, run: tuple[str, float] | None = None) -> dict[str, Result]:
    """Return the results of a run (by default the last one), by mutant. Results of different runs can't be compared."""
    lines = path.read_text().splitlines() if path.exists() else []
    results = [Result(**json.loads(line)) for line in lines]
    run = run or (results[-1].run if results else None)
    return {result.mutant: result for result in results if result.run == run}


def holds_for(result: Result, selection: Selection) -> bool:
    """Whether a result of all tests also holds for a selection of them, so that a trial would show nothing new."""
    if result.test is None:
        return not result.cut
    return result.test == ANY or selection.takes(result.test)


def by_package(results: Iterable[Result]) -> Table:
    """Return the table of how many mutants of each package were caught."""
    counts: dict[str, Counter[str]] = {package: Counter() for package in (*PACKAGES, "all")}
    for result in results:
        for package in (result.package, "all"):
            counts[package].update(_columns(result))
    table = Table("package", *(Column(column, justify="right") for column in (*COLUMNS, "%")), box=box.SIMPLE)
    for package, count in counts.items():
        if package == "all":
            table.add_section()
        share = f"{100 * count[CAUGHT] / count[DRAWN]:.0f}" if count[DRAWN] else ""
        table.add_row(package, *(str(count[column]) for column in COLUMNS), share)
    return table


def _columns(result: Result) -> Iterator[str]:
    """Yield the columns of the table in which a result counts."""
    yield DRAWN
    if not result.is_caught:
        yield NOT_CAUGHT
        yield result.outcome
    else:
        yield CAUGHT
        if result.outcome == TIMEOUT:
            yield BY_TIMEOUT


def not_caught(results: Iterable[Result]) -> list[str]:
    missed = (result for result in results if not result.is_caught)
    return [f"{result.place}: {result.change} ({result.outcome})" for result in sorted(missed)]


def lost(first: Mapping[str, Result], second: Mapping[str, Result]) -> list[str]:
    """Return the mutants that are caught in the first run and not in the second, with the test that caught them."""
    return [
        f"{result.place}: {result.change}: caught by {result.test}, now {second[name].outcome}"
        for name, result in sorted(first.items())
        if name in second and result.is_caught and not second[name].is_caught
    ]

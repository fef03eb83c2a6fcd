"""Runs the trials of mutants, several at a time, each on a copy of the tree of its own."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.mutation.coverage_map import CoverageMap
from tests.mutation.mutants import Mutant
from tests.mutation.results import Result, result_of
from tests.mutation.selection import Selection
from tests.mutation.trial import PYTEST_OPTIONS, VARIABLES, Ending, Trial, copy_tree, replaced, run_trial

FIRST_FILES = 10
"""Files of tests that run before all others: most mutants need no more, and importing all files takes long."""
HANGS_AFTER = 20.0
"""Seconds that any test may take, in addition to `SLOWER` for each second that it took without a mutant."""
SLOWER = 10.0


class Runner:
    """Tries mutants with the tests that a map says, among those of a selection.

    Args:
        limit: Most seconds of tests for each mutant, as the map has them.
    """

    def __init__(self, coverage_map: CoverageMap, selection: Selection, limit: float) -> None:
        self._map = coverage_map
        self._selection = selection
        self._limit = limit
        # Importing the files of tests takes time, too, and others may use the machine.
        self._killed_after = 120 + 5 * limit

    async def run(self, mutants: Sequence[Mutant], jobs: int, ended: Callable[[Result], None]) -> None:
        """Try mutants, some at a time, and report each result."""
        waiting = iter(mutants)

        async def job(tree: Path) -> None:
            copy_tree(tree)
            await self._check(tree)
            for mutant in waiting:
                ended(await self._result(tree, mutant))

        with tempfile.TemporaryDirectory(prefix="aiokproto-mutation-") as made:
            tasks = [asyncio.ensure_future(job(Path(made) / str(number))) for number in range(jobs)]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _check(self, tree: Path) -> None:
        """Raise unless the tests run without a mutant, because otherwise each mutant would seem to be caught."""
        quickest = min(self._map.seconds, key=self._map.seconds.__getitem__)
        trial = await self._try(tree, [quickest])
        if trial.ending is not Ending.PASSED or not trial.ran:
            raise SystemExit(f"tests do not run without a mutant: {trial.ending.value}\n{trial.output}")

    async def _result(self, tree: Path, mutant: Mutant) -> Result:
        began, trial = time.monotonic(), None
        choice = self._map.choose(mutant, lambda test: self._takes(tree, test), self._limit)
        path = tree / "src" / "aiokproto" / mutant.file
        if choice.tests:
            with replaced(path, mutant.applied_to(path.read_text())):
                trial = await self._try(tree, choice.tests)
        return result_of(mutant, trial, choice, time.monotonic() - began, (self._map.name, self._limit))

    def _takes(self, tree: Path, test: str) -> bool:
        # Files can have been removed since the map was made.
        return self._selection.takes(test) and (tree / file_of(test)).exists()

    async def _try(self, tree: Path, tests: Sequence[str]) -> Trial:
        """Run tests until one fails, starting with the tests of a few files."""
        trial = Trial(Ending.PASSED, None, 0, "")
        for part in in_parts(tests):
            timeouts = {test: HANGS_AFTER + SLOWER * self._map.seconds[test] for test in part}
            arguments = [*PYTEST_OPTIONS, *files_of(part)]
            last = await run_trial(tree, arguments, VARIABLES, timeouts, self._killed_after)
            trial = last._replace(ran=trial.ran + last.ran)
            if trial.ending is not Ending.PASSED:
                break
        return trial


def in_parts(tests: Sequence[str]) -> list[list[str]]:
    """Divide tests into the ones of `FIRST_FILES` at the start of the order, and the others."""
    first = set(files_of(tests)[:FIRST_FILES])
    parts: tuple[list[str], list[str]] = ([], [])
    for test in tests:
        parts[file_of(test) not in first].append(test)
    return [part for part in parts if part]


def files_of(tests: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(map(file_of, tests)))


def file_of(test: str) -> str:
    return test.partition("::")[0]

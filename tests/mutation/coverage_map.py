"""The map of the suite: which tests run which lines, and how long each takes. Which tests try a mutant follows from it.

A mutant is tried with the tests that run its statement. Some statements run outside of tests, or once for all tests of
a process: a module's own statements, which run at the import, and the ones that fill caches. Which tests depend on them
isn't recorded. So the tests that run anything of the module follow, then the tests of the modules that import it, and
so on.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from coverage.numbits import register_sqlite_functions

from tests.mutation.imports import importers
from tests.mutation.mutants import Mutant
from tests.mutation.recorder import FOLDER, PASSED, TESTS
from tests.mutation.trial import PYTEST_OPTIONS, VARIABLES, copy_tree, variables_of
from tools.setup.project import PACKAGE

SOURCES = "sources"
"""The file with the digest of the modules."""
OUTSIDE = ""
"""What coverage.py calls the context of lines that no test runs."""
CACHED = ("codec/compiler.py", "codec/entities.py", "codec/generate/", "codec/limits.py", "codec/schema.py")
"""Modules that run once for every class of a message in a process, whichever test is the first to use it."""


def record(folder: Path, tests: Sequence[str], marks: str, workers: int) -> None:
    """Run the suite on a copy of the tree, as trials do. That also finds the tests that fail there anyway."""
    with tempfile.TemporaryDirectory(prefix="aiokproto-map-") as made:
        copy = Path(made)
        copy_tree(copy)
        (folder / SOURCES).write_text(_digest(copy / "src" / PACKAGE.name))
        plugins = ["-p", "tests.mutation.recorder", "-p", "no:cacheprovider", "-p", "no:randomly"]
        split = ["-n", str(workers), "--dist", "loadfile", "--no-loadscope-reorder"]
        command = [sys.executable, "-m", "pytest", "-q", "-rfE", *PYTEST_OPTIONS, *plugins, *split, "-m", marks, *tests]
        environment = {**variables_of(copy), **VARIABLES, FOLDER: str(folder)}
        subprocess.run(command, cwd=copy, env=environment, check=False)


def _digest(package_folder: Path) -> str:
    """Return a digest that changes with every module."""
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(package_folder.rglob("*.py"))]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


class Choice(NamedTuple):
    """The tests of a mutant's trial.

    Attributes:
        tests: Node ids, in the order in which they run.
        cut: How many more there are than the trial has time for.
    """

    tests: list[str]
    cut: int


class CoverageMap:
    """What a run of the suite recorded."""

    def __init__(self, folder: Path, package_folder: Path = PACKAGE) -> None:
        tests = (folder / TESTS).read_text()
        self.name = hashlib.sha256(tests.encode()).hexdigest()[:12]
        """Tells it apart from other maps."""
        recorded: dict[str, tuple[float, str]] = json.loads(tests)
        # A test that fails without a mutant can't notice one.
        self.seconds = {test: seconds for test, (seconds, outcome) in recorded.items() if outcome == PASSED}
        self.failed = [test for test, (_, outcome) in recorded.items() if outcome == "failed"]
        self._sources = folder / SOURCES
        self._package_folder = package_folder
        self._data = [sqlite3.connect(path) for path in sorted(folder.glob("lines.*"))]
        for connection in self._data:
            register_sqlite_functions(connection)

    def close(self) -> None:
        for connection in self._data:
            connection.close()

    def is_outdated(self) -> bool:
        return self._sources.read_text() != _digest(self._package_folder)

    def choose(self, mutant: Mutant, taken: Callable[[str], bool], limit: float) -> Choice:
        """Return the selected tests for a mutant, as many as fit into the limit of seconds."""
        chosen: dict[str, float] = {}
        cut, left = 0, limit
        for group in self._groups(mutant):
            new = {test: self.seconds[test] for test in group if test in self.seconds and test not in chosen}
            for test in sorted(filter(taken, new), key=lambda test: (new[test], test)):
                left -= new[test]
                if left >= 0:
                    chosen[test] = new[test]
                else:
                    cut += 1
            if left < 0:
                break
        return Choice(list(chosen), cut)

    def _groups(self, mutant: Mutant) -> Iterator[set[str]]:
        """Yield the tests that a mutant may fail, the most likely first."""
        tests = self._running(mutant.file, mutant.first, mutant.last)
        yield tests
        if mutant.at_import or OUTSIDE in tests or mutant.file.startswith(CACHED):
            seen, level = set[str](), {mutant.file}
            while level:
                yield set().union(*(self._running(file) for file in level))
                seen |= level
                level = {importer for file in level for importer in self._importers.get(file, ())} - seen

    @cached_property
    def _importers(self) -> dict[str, set[str]]:
        return importers(self._package_folder)

    def _running(self, file: str, first: int = 0, last: int = -1) -> set[str]:
        """Return the contexts that run one of the lines; without lines, the contexts that run any line of the file."""
        lines = range(first, last + 1)
        condition = " or ".join(f"num_in_numbits({line}, numbits)" for line in lines) or "true"
        query = (
            "select distinct context from line_bits join context on context.id = context_id "
            f"join file on file.id = file_id where path = ? and ({condition})"
        )
        path = f"src/aiokproto/{file}"
        return {context for connection in self._data for (context,) in connection.execute(query, (path,))}

"""A pytest plugin of a trial: runs the chosen tests, in their order, and logs what becomes of each."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutation.memory import limit_memory

CHOSEN = "MUTATION_CHOSEN"
"""Variable with the name of a file: a JSON object of node ids, in their order, each with its timeout in seconds.

Without it all collected tests run. pytest resolves node ids as arguments one by one; a single missing one would end the
run, for example when a mutant changes what a parameter's name shows.
"""
LOG = "MUTATION_LOG"
"""Variable with the name of the file for the log: JSON arrays of an event and a node id, one a line."""


def pytest_configure(config: pytest.Config) -> None:
    limit_memory()
    # Tests that run pytest themselves must not write here.
    config.pluginmanager.register(TrialLog(Path(os.environ.pop(LOG))), "trial-log")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    # Other plugins go first, because some of them reorder the tests.
    yield
    if CHOSEN in os.environ:
        chosen: dict[str, float] = json.loads(Path(os.environ.pop(CHOSEN)).read_text())
        found = {item.nodeid: item for item in items}
        items[:] = [found[node] for node in chosen if node in found]
        for item in items:
            # Insert it before the test's own marks, because pytest takes the first one as the closest.
            item.add_marker(pytest.mark.timeout(chosen[item.nodeid]), append=False)


class TrialLog:
    """Writes events at once, because a test may end the process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write("begun", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._write("failed", report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._write("ended", nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write("failed", report.nodeid)

    def _write(self, event: str, nodeid: str) -> None:
        with self._path.open("a") as log:
            log.write(f"{json.dumps([event, nodeid])}\n")

"""A pytest plugin: the order in which tests run, and how to run them in that order again.

pytest-randomly shuffles the files, and the tests of each, by a seed. This plugin adds two rules: slow tests start
first, because the last worker to finish decides how long a run takes, and all files with Spark go to one worker,
because each process that uses it starts a Java process. Which of two tests comes first depends on the seed alone: a
process that is given a worker's files and the seed repeats what the worker did.
"""

from __future__ import annotations

import os
import shlex
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

SPARK = "tests/spark/"
TYPES = "tests/typing/"
"""The tests with two type checkers, which take a minute of one core each."""
WITHOUT_SESSION = {
    "tests/spark/cluster/test_cluster.py",
    "tests/spark/connect/test_connect.py",
    "tests/spark/loads/test_commits.py",
    "tests/spark/loads/test_kills.py",
    "tests/spark/loads/test_store_faults.py",
    "tests/spark/loads/test_load_command.py",
    "tests/spark/sink/exactly_once/test_faults.py",
    "tests/spark/sink/exactly_once/test_permissions.py",
    "tests/spark/sink/exactly_once/test_two_phase.py",
    "tests/spark/tables/test_tables.py",
    "tests/spark/test_secured.py",
    "tests/spark/versions/test_others.py",
}
"""Tests about Spark that take long and need no Spark, or one of their own."""
SLOW = {"kafka", "java", "spark", "slow"}
DECIDING = {"loop": "asyncio", "brokers": 1, "releases": "", "crash-runs": 5, "java-seeds": 3}
"""Options that decide what a test does, with their usual values, which aren't printed."""


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config), "ordering-recorder")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    files = [list(group) for _, group in groupby(items, lambda item: _file(item.nodeid))]
    files.sort(key=_rank)
    items[:] = [item for file in files for item in file]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = _file(nodeid)
            return SPARK if file.startswith(SPARK) and file not in WITHOUT_SESSION else file

        def remove_node(self, node: WorkerController) -> str | None:
            """Leave the tests of a crashed worker to the others, except for the test that crashed it."""
            units = self.assigned_work.pop(node)
            left = {scope: unit for scope, unit in units.items() if not all(unit.values())}
            if not left:
                return None
            unit = next(iter(left.values()))
            crashed: str = next(test for test, done in unit.items() if not done)
            unit[crashed] = True
            self.workqueue.update({scope: unit for scope, unit in left.items() if not all(unit.values())})
            for other in self.assigned_work:
                self._reschedule(other)
            return crashed

    return ByFile(config, log)


class Recorder:
    """Records which files each worker runs, and prints them if the run may have to be repeated."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        # The files in the order of their first test, which a dictionary preserves.
        self._files: dict[str, dict[str, None]] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        node = getattr(report, "node", None)
        worker = "all" if node is None else str(node.gateway.id)
        self._files.setdefault(worker, {})[_file(report.nodeid)] = None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
        if not (exitstatus or os.environ.get("CI")):
            return
        terminalreporter.section("the order of this run")
        for worker, files in sorted(self._files.items()):
            terminalreporter.line(f"{worker}: pytest {' '.join([*self._options(), *files])}")

    def _options(self) -> list[str]:
        """Return the options of this run that decide which tests run, and how."""
        option = self._config.getoption
        named = {name: option(name.replace("-", "_"), None) for name in (*DECIDING, "randomly-seed")}
        options = [
            f"--{name}={shlex.quote(str(value))}"
            for name, value in named.items()
            if value not in (None, DECIDING.get(name))
        ]
        if option("pure"):
            options.append("--pure")
        for letter, name in (("m", "markexpr"), ("k", "keyword")):
            if expression := option(name):
                options.append(f"-{letter} {shlex.quote(expression)}")
        return options


def _rank(items: list[pytest.Item]) -> int:
    if items[0].nodeid.startswith((SPARK, TYPES)):
        return 0
    return 2 - any(mark.name in SLOW for item in items for mark in item.iter_markers())


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]

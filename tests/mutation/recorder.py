"""A pytest plugin that records which test runs which lines, how long each takes, and its outcome.

Every process that runs tests writes a file of coverage.py, whose contexts are the tests. Code that runs outside of
tests has the empty context, such as modules that are imported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from coverage import Coverage

from tests.mutation.memory import limit_memory
from tests.mutation.sample import DECLARATIONS, PACKAGES

FOLDER = "MUTATION_MAP"
"""Variable with the name of the folder to write into."""
TESTS = "tests.json"
"""The file of each test's seconds and outcome."""
PASSED = "passed"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    # Start now, because a conftest.py may import the package.
    limit_memory()
    folder = Path(os.environ[FOLDER])
    early_config.pluginmanager.register(Lines(folder), "mutation-lines")
    early_config.pluginmanager.register(Durations(folder), "mutation-durations")


class Lines:
    """Records lines, by test."""

    def __init__(self, folder: Path) -> None:
        package = Path.cwd() / "src" / "aiokproto"
        self._coverage = Coverage(
            data_file=str(folder / f"lines.{os.getpid()}"),
            include=[str(package / name / "*") for name in PACKAGES],
            omit=[str(package / name / "*") for name in DECLARATIONS],
            config_file=False,
            messages=False,
        )
        # That by `sys.monitoring` has no contexts.
        self._coverage.set_option("run:core", "ctrace")
        self._coverage.set_option("run:relative_files", True)
        self._coverage.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()


class Durations:
    """Adds up the seconds of each test. If several processes share the tests, only the first gets all reports."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seconds: dict[str, float] = {}
        self._outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = report.nodeid
        self._seconds[test] = self._seconds.get(test, 0.0) + report.duration
        if self._outcomes.get(test, PASSED) == PASSED:
            self._outcomes[test] = report.outcome

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not hasattr(session.config, "workerinput"):
            tests = {test: [round(seconds, 4), self._outcomes[test]] for test, seconds in self._seconds.items()}
            (self._folder / TESTS).write_text(json.dumps(tests))

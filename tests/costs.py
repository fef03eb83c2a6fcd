"""A pytest plugin: the time of a run's tests, by area, and of each test that takes long."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

LONG_SECONDS = 5.0
"""A test that takes longer is listed, because it has to be worth it in every run."""


def pytest_configure(config: pytest.Config) -> None:
    # If several processes share the tests, one of them gets all reports.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Costs(), "costs")


class Costs:
    """Adds up the time of tests, including their fixtures."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._areas: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._seconds[report.nodeid] += report.duration
        # The report of a worker's crash has no marks, but the reports before it do.
        self._areas.setdefault(report.nodeid, area(report.nodeid, report.keywords))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._seconds:
            return
        minutes: defaultdict[str, float] = defaultdict(float)
        for nodeid, seconds in self._seconds.items():
            minutes[self._areas[nodeid]] += seconds / 60
        tests = Counter(self._areas.values())
        terminalreporter.section("minutes of all workers, by area")
        for name in sorted(minutes, key=minutes.__getitem__, reverse=True):
            terminalreporter.line(f"{minutes[name]:7.2f}  {name} ({tests[name]:,} tests)")
        terminalreporter.line(f"{sum(minutes.values()):7.2f}  in all ({tests.total():,} tests)")
        long = sorted((seconds, nodeid) for nodeid, seconds in self._seconds.items() if seconds > LONG_SECONDS)
        if long:
            terminalreporter.section(f"tests above {LONG_SECONDS:g} seconds")
        for seconds, nodeid in reversed(long):
            terminalreporter.line(f"{seconds:7.1f}  {nodeid}")


def area(nodeid: str, keywords: Any) -> str:
    """Return a test's area: its folder below ``tests``, and whether it uses real Kafka."""
    folder = nodeid.partition("::")[0].removeprefix("tests/").partition("/")[0].removesuffix(".py")
    return f"{folder}, real Kafka" if "kafka" in keywords else folder

"""A pytest plugin: the tests that a run has skipped, by reason.

pytest itself lists them by file, which is a screen of equal lines if a whole folder needs something that is missing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # If several processes share the tests, one of them gets all reports.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Skips(), "skips")


class Skips:
    """Counts the skipped tests of each reason."""

    def __init__(self) -> None:
        self._reasons: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._count(report)

    def pytest_collectreport(self, report: Any) -> None:
        self._count(report)

    def _count(self, report: Any) -> None:
        # A test that is expected to fail is reported in the same way.
        if report.skipped and not hasattr(report, "wasxfail"):
            _, _, reason = report.longrepr
            self._reasons[reason.removeprefix("Skipped: ")] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._reasons:
            return
        terminalreporter.section("skipped tests, by reason")
        for reason, count in self._reasons.most_common():
            terminalreporter.line(f"{count:7,}  {reason}")

"""A pytest plugin: what a run has counted, told at its end."""

from __future__ import annotations

from collections import Counter

import pytest

TALLY = pytest.StashKey[Counter[str]]()
LINES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TALLY] = Counter()
    config.stash[LINES] = []


@pytest.fixture(scope="session")
def tally(request: pytest.FixtureRequest) -> Counter[str]:
    """Count things here, by what they are called; the totals are printed at the end."""
    return request.config.stash[TALLY]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = [f"{name}: {count:,}" for name, count in sorted(config.stash[TALLY].items())] + config.stash[LINES]
    if lines:
        terminalreporter.section("the protocol, in figures")
        for line in lines:
            terminalreporter.line(line)

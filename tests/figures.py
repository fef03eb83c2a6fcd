"""A pytest plugin: counts of a run, printed at its end."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

TALLY = pytest.StashKey[Counter[str]]()
LINES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TALLY] = Counter()
    config.stash[LINES] = []


@pytest.fixture(scope="session")
def tally(request: pytest.FixtureRequest) -> Counter[str]:
    """Count things here by name. The totals are printed at the end."""
    return request.config.stash[TALLY]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """If several processes share the tests, each reports to the one that prints."""
    workeroutput = getattr(session.config, "workeroutput", None)
    if workeroutput is not None:
        tally = session.config.stash[TALLY]
        workeroutput["figures"] = (dict(tally), session.config.stash[LINES])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    # A crashed worker reports nothing.
    tally, lines = getattr(node, "workeroutput", {}).get("figures", ({}, []))
    node.config.stash[TALLY].update(tally)
    node.config.stash[LINES].extend(lines)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = [f"{name}: {count:,}" for name, count in sorted(config.stash[TALLY].items())] + config.stash[LINES]
    if lines:
        terminalreporter.section("the protocol, in figures")
        for line in lines:
            terminalreporter.line(line)

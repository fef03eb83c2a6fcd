"""A pytest plugin: how much Java is asked (``--java-seeds``), and what it answered for, in figures."""

from __future__ import annotations

import pytest

FIGURES = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--java-seeds",
        type=int,
        default=3,
        metavar="N",
        help="random fillings of each kind that Java makes of every message-version (default: 3)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FIGURES] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[FIGURES]:
        terminalreporter.section("judged by Java")
        for line in config.stash[FIGURES]:
            terminalreporter.line(line)

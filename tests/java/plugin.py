"""A pytest plugin: Java processes start fast, and how many test vectors Java generates (``--java-seeds``)."""

from __future__ import annotations

import os

import pytest

from tests.java.starting import OPTIONS, QUICK


def pytest_configure() -> None:
    # Brokers, Spark and tools spend most of a test's time on starting.
    given = os.environ.get(OPTIONS, "")
    if QUICK not in given:
        os.environ[OPTIONS] = f"{given} {QUICK}".strip()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--java-seeds",
        type=int,
        default=3,
        metavar="N",
        help="random fillings of each kind that Java makes of every message-version (default: 3)",
    )

"""A pytest plugin: how many test vectors Java generates (``--java-seeds``)."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--java-seeds",
        type=int,
        default=3,
        metavar="N",
        help="random fillings of each kind that Java makes of every message-version (default: 3)",
    )

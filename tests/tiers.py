"""A pytest plugin: the tests with real Kafka and Java that every change runs.

Their behaviour is tested on the embedded broker in every run. Whether Kafka does the same is a question about the
embedded broker: `make test` checks it for the paths that all clients take, `make test-all` for all paths.
"""

from __future__ import annotations

import pytest

EVERY_RUN = frozenset(
    f"tests/behaviour/test_{name}.py"
    for name in (
        "admin_apis",
        "commits",
        "consume",
        "control_records",
        "exactly_once",
        "produce",
        "produce_batches",
        "produce_tables",
        "producer_transactions",
        "read_to_end",
        "run",
        "run_values",
        "transactions",
        "values",
    )
)
"""Tests of these files run on real Kafka in every run, if they share one broker with others."""
ALWAYS_EXTENDED = {"java", "kerberos"}
ALONE = {"kafka3", "cluster3"}
"""Fixtures that give a test its own brokers."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # This runs first, so that `-m` sees the marks.
    for item in items:
        if is_extended(item):
            item.add_marker("extended")


def is_extended(item: pytest.Item) -> bool:
    """Return whether a test with real Kafka or Java is left to `make test-all`. Other tests say so themselves."""
    marks = {mark.name for mark in item.iter_markers()}
    alone = "exclusive" in marks or ALONE.intersection(getattr(item, "fixturenames", ()))
    elsewhere = item.nodeid.partition("::")[0] not in EVERY_RUN
    return bool(marks & ALWAYS_EXTENDED) or ("kafka" in marks and bool(alone or elsewhere))

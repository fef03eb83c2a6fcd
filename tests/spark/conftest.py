"""One broker and one Spark for all tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from aiokproto.spark.permissions import EVERYTHING
from aiokproto.spark.worker import Worker
from tests.spark.kafka import Kafka
from tests.spark.session import CONNECT, start_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Tests are their own administrators, and the tests of permissions change that. Spark's processes inherit the settings.
os.environ.update(EVERYTHING)

UNCONNECTED = "Python worker failed to connect back"
"""Spark gives a Python process of a stream ten seconds to start, which cannot be configured. That is too little on a
machine that does much else."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.flaky(reruns=4, only_rerun=[UNCONNECTED]))


if CONNECT in os.environ:

    @pytest.fixture(autouse=True)
    def no_thread_left() -> None:
        """PySpark's client leaves its threads to the garbage collector, so they run for a while after an error."""


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    with Kafka() as running:
        yield running


@pytest.fixture
def worker() -> Iterator[Worker]:
    """The worker of tasks, in this process. It's new for each test, since it keeps clients of earlier clusters."""
    running = Worker()
    yield running
    running.close()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Mark tests that use it with ``spark``."""
    session = start_session(tmp_path_factory.mktemp("warehouse"), writes_archive=True)
    yield session
    stop_session(session)

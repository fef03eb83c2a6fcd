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

# Tests are their own administrators; those of permissions have others. Processes of Spark inherit them.
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
        """PySpark's client leaves it to the collector to end its threads: after an error they go on for a while."""


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    with Kafka() as running:
        yield running


@pytest.fixture
def worker() -> Iterator[Worker]:
    """What tasks have, in this process. It keeps clients, which look for clusters of earlier tests that are gone."""
    running = Worker()
    yield running
    running.close()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Mark tests that use it with ``spark``."""
    session = start_session(tmp_path_factory.mktemp("warehouse"), writes_archive=True)
    yield session
    stop_session(session)

"""Runs the tests of this folder on each release that ``--releases`` names."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.compatibility.matrix import At
from tests.kafka import releases
from tests.kafka.pool import KafkaPool


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "at" in metafunc.fixturenames:
        named = releases.wanted(str(metafunc.config.getoption("--releases")))
        # The scope groups tests by release: all tests of one run before the next broker starts.
        metafunc.parametrize("release", named, scope="session")


@pytest.fixture
def at(release: str, topic: str, kafka_pool: KafkaPool) -> Iterator[At]:
    """A broker of the release, which all tests share."""
    reason = releases.missing(release)
    if reason and os.environ.get("CI"):
        pytest.fail(f"not to be skipped under CI: {reason}", pytrace=False)
    elif reason:
        pytest.skip(reason)
    with kafka_pool.lease(release) as cluster:
        yield At(release, cluster.bootstrap_servers, topic)

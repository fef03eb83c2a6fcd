"""Fixtures that every test may use, and the skipping of tests that need more than the machine has."""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache

import pytest
from hypothesis import HealthCheck, settings

from tests.clusters import BehaviourCluster, embedded_cluster, real_cluster
from tests.java import generated_vectors
from tests.kafka import cluster as kafka
from tests.kafka import kdc
from tests.kafka.pool import KafkaPool, RunningKafka
from tools.setup.system import find_java, java_home

pytest_plugins = [
    "pytester",
    "tests.variants",
    "tests.hygiene",
    "tests.figures",
    "tests.costs",
    "tests.skips",
    "tests.tiers",
    "tests.java.plugin",
    "tests.kafka.plugin",
    "tests.ordering",
]

# The time of an example depends on the machine and its other work, not on the code.
settings.register_profile("aiokproto", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("aiokproto")

ON_BOTH = ["embedded", pytest.param("kafka", marks=pytest.mark.kafka)]


def pytest_configure() -> None:
    # A shell ignores Ctrl-C for programs that it runs in the background, and every process inherits that from its
    # parent. Processes that tests interrupt would continue.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("aiokproto")
    group.addoption(
        "--brokers", type=int, choices=(1, 3), default=1, help="how many brokers `cluster` has, and replicas a topic"
    )
    group.addoption(
        "--releases",
        default="",
        help="on which releases of Kafka tests/compatibility runs: some, separated by commas, or all; the default is "
        "the oldest, one of between, and the newest",
    )
    group.addoption("--crash-runs", type=int, default=5, help="how often to kill a process at its work")


@cache
def kafka_missing() -> str | None:
    return kafka.missing()


@cache
def spark_missing() -> str | None:
    java = find_java()
    if java is None:
        return "Spark needs Java 17 or later"
    # Spark looks for Java by itself, and would use an older one that comes first on PATH.
    os.environ.setdefault("JAVA_HOME", str(java_home(java)))
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark is not installed: the `spark` extra has it"
    return None


@cache
def java_missing() -> str | None:
    # The programs need the same jars as brokers.
    return generated_vectors.missing() or kafka_missing()


@cache
def kerberos_missing() -> str | None:
    if importlib.util.find_spec("gssapi") is None:
        return "the package gssapi is not installed: the `gssapi` extra has it"
    return kdc.missing()


REQUIREMENTS: dict[str, Callable[[], str | None]] = {
    "java": java_missing,
    "kafka": kafka_missing,
    "kerberos": kerberos_missing,
    "spark": spark_missing,
}


MAY_LACK = {"kerberos"}
"""Needs that even a machine which runs everything may be unable to meet."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose needs this machine cannot meet. Fail it under CI, where all tests must run."""
    for name, missing in REQUIREMENTS.items():
        reason = missing() if item.get_closest_marker(name) else None
        if reason and name not in MAY_LACK and os.environ.get("CI"):
            pytest.fail(f"not to be skipped under CI: {reason}", pytrace=False)
        elif reason:
            pytest.skip(reason)


@pytest.fixture
def kafka1(request: pytest.FixtureRequest, kafka_pool: KafkaPool) -> Iterator[RunningKafka]:
    """One real broker, which the first test that needs it starts, and which all share (mark the test ``kafka``).

    A test marked ``exclusive`` has its own broker, so that no other test waits while it starts again.
    """
    alone = request.node.get_closest_marker("exclusive") is not None
    with kafka_pool.lease("kafka1-alone" if alone else "kafka1", alone=alone) as cluster:
        yield cluster


@pytest.fixture
def kafka3(request: pytest.FixtureRequest, kafka_pool: KafkaPool) -> Iterator[RunningKafka]:
    """Three real brokers, which all tests share; a test marked ``exclusive`` has them alone."""
    alone = request.node.get_closest_marker("exclusive") is not None
    with kafka_pool.lease("kafka3", alone=alone) as cluster:
        yield cluster


@pytest.fixture(params=ON_BOTH)
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[BehaviourCluster]:
    """A cluster of one broker, or of ``--brokers``: the test runs on the embedded one and on real Kafka."""
    brokers = int(request.config.getoption("brokers", 1) or 1)
    if request.param == "embedded":
        async with embedded_cluster(brokers, replication=brokers) as running:
            yield running
    else:
        async with real_cluster(request.getfixturevalue(f"kafka{brokers}"), replication=brokers) as running:
            yield running


@pytest.fixture(params=ON_BOTH)
async def cluster3(request: pytest.FixtureRequest) -> AsyncIterator[BehaviourCluster]:
    """A cluster of three brokers: the test runs on the embedded ones and on real Kafka."""
    if request.param == "embedded":
        async with embedded_cluster(3) as running:
            yield running
    else:
        async with real_cluster(request.getfixturevalue("kafka3")) as running:
            yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test has, and that contains the test's name. The topic itself isn't created."""
    name = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:80].strip("-")
    return f"{name}-{secrets.token_hex(4)}"

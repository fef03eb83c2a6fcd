"""A pytest plugin with Kafka fixtures. Installing the package is enough for pytest to find it.

===================  ============================================================
``kafka_broker``     an embedded broker
``kafka_cluster``    a cluster of three embedded brokers
``kafka_topic``      the name of a new topic on ``kafka_broker``
===================  ============================================================

The first two are instances of :class:`~aiokproto.broker.threaded.ThreadedCluster`, which runs in its own thread, so
they work in synchronous tests and with any plugin for asynchronous tests. Each test gets a new instance. A marker with
the fixture's name passes arguments to :class:`~aiokproto.broker.Cluster`::

    @pytest.mark.kafka_cluster(brokers=5, config={"num.partitions": 3})
    def test_something(kafka_cluster): ...

With ``kafka_broker_scope = session`` in pytest's configuration (or ``module`` …), tests share one broker, and markers
have no effect. If so, use ``kafka_topic``, which is a new topic for each test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from aiokproto.broker import ThreadedCluster

_SCOPE = "kafka_broker_scope"
_SCOPES = ("function", "class", "module", "package", "session")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(_SCOPE, f"scope of the fixture kafka_broker: {', '.join(_SCOPES)}", default=_SCOPES[0])


def pytest_configure(config: pytest.Config) -> None:
    for name in ("kafka_broker", "kafka_cluster"):
        config.addinivalue_line(
            "markers", f"{name}(**options): arguments of aiokproto.broker.Cluster for the fixture {name}"
        )


def _broker_scope(fixture_name: str, config: pytest.Config) -> Any:
    scope = config.getini(_SCOPE)
    if scope not in _SCOPES:
        raise pytest.UsageError(f"{_SCOPE}: {scope!r} is none of {', '.join(_SCOPES)}")
    return scope


@pytest.fixture(scope=_broker_scope)
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[ThreadedCluster]:
    """An embedded Kafka broker. Its address is ``kafka_broker.bootstrap_servers``."""
    yield from _run(request, brokers=1)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[ThreadedCluster]:
    """Three embedded Kafka brokers, or the number in the marker ``kafka_cluster(brokers=…)``."""
    yield from _run(request, brokers=3)


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka_broker: ThreadedCluster) -> str:
    """The name of a new topic with one partition on ``kafka_broker``, unique to the test."""
    # Replace characters that aren't allowed in topic names, such as the brackets around a test's parameters.
    return kafka_broker.new_topic(re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:80])


def _run(request: pytest.FixtureRequest, **options: Any) -> Iterator[ThreadedCluster]:
    from aiokproto.broker import Cluster, ThreadedCluster

    name = request.fixturename
    assert name is not None
    marker = request.node.get_closest_marker(name)
    if marker is not None:
        if marker.args:
            raise pytest.UsageError(f"the marker {name} takes only keyword arguments")
        options |= marker.kwargs
    with ThreadedCluster(Cluster(**options)) as kafka:
        yield kafka

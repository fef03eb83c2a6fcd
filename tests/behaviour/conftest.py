"""Fixtures: clusters with authentication, and conditions on the cluster."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.behaviour.secured import (
    Identified,
    Secured,
    identified_broker,
    identified_kafka,
    secured_broker,
    until_open,
)
from tests.clusters import BehaviourCluster
from tests.conftest import ON_BOTH
from tests.kafka.pool import KafkaPool, RunningKafka


@pytest.fixture
def secured_kafka(request: pytest.FixtureRequest, kafka_pool: KafkaPool) -> Iterator[RunningKafka]:
    """Real Kafka, started by the first test that uses it; exclusive, as `kafka1`, if the test is marked so."""
    alone = request.node.get_closest_marker("exclusive") is not None
    with kafka_pool.lease("secured", alone=alone) as cluster:
        yield cluster


@pytest.fixture(params=ON_BOTH)
async def secured(request: pytest.FixtureRequest) -> AsyncIterator[Secured]:
    """A cluster of one broker, of each kind, where only ``admin`` has permissions."""
    if request.param == "embedded":
        async with secured_broker() as cluster:
            yield cluster
    else:
        address = request.getfixturevalue("secured_kafka").bootstrap_servers
        await until_open(address)
        yield Secured("kafka", address)


@pytest.fixture(params=ON_BOTH)
async def identified(request: pytest.FixtureRequest) -> AsyncIterator[Identified]:
    """A cluster of one broker, of each kind, that accepts signed tokens, and where only ``admin`` has permissions."""
    if request.param == "embedded":
        async with identified_broker() as cluster:
            yield cluster
    else:
        cluster = identified_kafka(request.getfixturevalue("secured_kafka"))
        await until_open(cluster.bootstrap_servers)
        yield cluster


@pytest.fixture
def user() -> str:
    """A user name that no other test uses, so that no other test changes its ACLs."""
    return f"user-{secrets.token_hex(4)}"


@pytest.fixture
def alone(cluster: BehaviourCluster) -> None:
    """Skip a test that sends all requests to one broker if there are several."""
    if len(cluster.broker_ids) > 1:
        pytest.skip("sends all requests to one broker")

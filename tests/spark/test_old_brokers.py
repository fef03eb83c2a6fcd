"""Brokers before 0.11, which have no transactions, and the oldest no search for timestamps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from aiokproto import Producer
from aiokproto.broker import Cluster, ThreadedCluster
from aiokproto.errors import UnsupportedVersionError
from aiokproto.spark.options import ReadOptions, parse_read_options
from aiokproto.spark.planning import Plan, plan_now
from aiokproto.spark.pushdown import Conditions
from aiokproto.spark.reading import read_range
from aiokproto.spark.worker import Worker

VALUES = [b"%d" % number for number in range(50)]


class Old:
    """A cluster like an old release, with 50 records in a topic."""

    def __init__(self, servers: str) -> None:
        self._servers = servers

    def options(self, **options: str) -> ReadOptions:
        return parse_read_options({"kafka.bootstrap.servers": self._servers, "subscribe": "flights", **options})

    async def write(self) -> None:
        async with Producer(bootstrap_servers=self._servers) as producer:
            assert not (await producer.send_many("flights", VALUES)).errors


@pytest.fixture
def old(request: pytest.FixtureRequest) -> Iterator[Old]:
    with ThreadedCluster(Cluster(as_version=request.param)) as cluster:
        cluster.create_topic("flights")
        found = Old(cluster.bootstrap_servers)
        asyncio.run(found.write())
        yield found


before_0_10_1 = pytest.mark.parametrize("old", ["0.8.2", "0.9", "0.10.0"], indirect=True)
each_release = pytest.mark.parametrize("old", ["0.8.2", "0.9", "0.10.0", "0.10.2"], indirect=True)


def values(worker: Worker, planned: Plan, options: ReadOptions) -> list[Any]:
    (offsets,) = planned.ranges
    return [value for batch in read_range(worker, offsets, options) for value in batch.column("value").to_pylist()]


@each_release
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_all_records_are_read(old: Old, worker: Worker, isolation: str) -> None:
    options = old.options(**{"kafka.isolation.level": isolation})
    planned = plan_now(options)
    assert [(one.start, one.end) for one in planned.ranges] == [(0, 50)]
    assert values(worker, planned, options) == VALUES


@before_0_10_1
def test_a_timestamp_is_an_error_before_0_10_1(old: Old) -> None:
    with pytest.raises(UnsupportedVersionError, match=r"offsets for a time need Kafka 0\.10\.1 or later"):
        plan_now(old.options(startingTimestamp="1"))


@before_0_10_1
def test_filters_on_the_timestamp_are_left_to_spark(old: Old) -> None:
    planned = plan_now(old.options(), conditions=Conditions(since=1))
    assert [(one.start, one.end) for one in planned.ranges] == [(0, 50)]

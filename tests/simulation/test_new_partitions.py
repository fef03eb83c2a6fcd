"""Where a group starts to read partitions and topics that appear after it has started."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokproto import Consumer
from aiokproto.broker import Cluster
from aiokproto.simulation import Simulation
from aiokproto.types import OffsetAndMetadata, TopicPartition
from tests.simulation.environment import Environment, until
from tests.simulation.test_group_topics import grow

Program = Callable[[Environment, dict[str, Any]], Awaitable[None]]
PROTOCOLS = ["classic", "consumer"]


def run(program: Program, **options: Any) -> None:
    """Run a program with a topic of two partitions with one old record each, and the options of a member."""
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 2)
            environment = Environment(simulation, cluster, "t")
            for partition in range(2):
                environment.append(partition, b"old")
            given = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": "g", "metadata_max_age_ms": 5000}
            await program(environment, given | options)

    simulation.run(main())


async def ready(consumer: Consumer, partitions: int = 2) -> None:
    """Wait until the consumer has the positions of its partitions, and commit them."""
    await until(lambda: len(consumer.assignment()) == partitions)
    for partition in consumer.assignment():
        await consumer.position(partition)


async def values(consumer: Consumer, within: float = 30) -> list[tuple[str, int, bytes | None]]:
    """Return the records that are delivered within some seconds."""
    return [(each.topic, each.partition, each.value) for each in await consumer.poll(within * 1000, min_records=500)]


async def grown(environment: Environment, partitions: int = 3) -> None:
    """Add partitions, and write to the last one before any client can have noticed it."""
    await grow(environment.cluster, partitions)
    environment.append(partitions - 1, b"first")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("option", "expected"), [("earliest", [("t", 2, b"first")]), ("reset", [])])
def test_a_partition_added_while_the_group_reads_is_read_from_its_first_record(
    protocol: str, option: str, expected: list[Any]
) -> None:
    async def program(environment: Environment, options: dict[str, Any]) -> None:
        async with Consumer("t", **options) as consumer:
            await ready(consumer)
            await grown(environment)
            assert await values(consumer) == expected

    run(program, group_protocol=protocol, new_partitions=option)


@pytest.mark.parametrize("reset", ["latest", "none", "by_duration:PT0S"])
def test_a_new_partition_is_read_from_its_first_record_with_any_auto_offset_reset(reset: str) -> None:
    async def program(environment: Environment, options: dict[str, Any]) -> None:
        async with Consumer("t", **options) as first:
            first_commit = {("t", number): OffsetAndMetadata(1, "") for number in range(2)}
            await until(lambda: len(first.assignment()) == 2)
            await first.commit({TopicPartition(*where): offset for where, offset in first_commit.items()})
            await grown(environment)
        async with Consumer("t", **options) as second:
            assert await values(second) == [("t", 2, b"first")]

    run(program, auto_offset_reset=reset)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("option", "expected"), [("earliest", [("t", 2, b"first")]), ("reset", [])])
def test_a_partition_added_while_the_group_was_down_is_read_from_its_first_record(
    protocol: str, option: str, expected: list[Any]
) -> None:
    async def program(environment: Environment, options: dict[str, Any]) -> None:
        async with Consumer("t", **options) as consumer:
            await ready(consumer)
        await grown(environment)
        async with Consumer("t", **options) as consumer:
            assert await values(consumer) == expected

    run(program, group_protocol=protocol, new_partitions=option)


def test_a_member_that_joins_after_partitions_were_added_reads_them_from_their_first_record() -> None:
    async def program(environment: Environment, options: dict[str, Any]) -> None:
        async with Consumer("t", auto_commit_interval_ms=100, **options) as first:
            await ready(first)
            reading = asyncio.create_task(values(first))
            await asyncio.sleep(1)
            await grown(environment, 4)
            async with Consumer("t", **options) as second:
                seen = await values(second) + await reading
        assert seen == [("t", 3, b"first")]

    run(program)


def test_a_group_that_has_committed_nothing_starts_by_auto_offset_reset() -> None:
    async def program(environment: Environment, options: dict[str, Any]) -> None:
        async with Consumer("t", **options) as first, Consumer("t", **options) as second:
            reading = asyncio.create_task(values(first))
            assert await values(second) + await reading == []

    run(program, enable_auto_commit=False)


def test_a_group_that_commits_single_records_does_not_go_back_to_the_first_ones() -> None:
    """The group has no offset for a partition before it has processed a record. A gap shows that the partition isn't
    new."""

    async def program(environment: Environment, options: dict[str, Any]) -> None:
        async with Consumer("t", **options) as first:
            await until(lambda: len(first.assignment()) == 2)
            await first.commit({TopicPartition("t", 1): OffsetAndMetadata(1, "")})
        async with Consumer("t", **options) as second:
            assert await values(second) == []

    run(program, enable_auto_commit=False)


@pytest.mark.parametrize("group", ["g", None])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_topic_that_a_pattern_finds_later_is_read_from_its_first_record(protocol: str, group: str | None) -> None:
    async def program(environment: Environment, options: dict[str, Any]) -> None:
        given: dict[str, Any] = options | {"group_id": group}
        consumer = Consumer(**given)
        consumer.subscribe(pattern="t.*")
        async with consumer:
            await ready(consumer)
            await environment.cluster.create_topic("tt", 1)
            Environment(environment.simulation, environment.cluster, "tt").append(0, b"first")
            assert await values(consumer) == [("tt", 0, b"first")]

    run(program, group_protocol=protocol if group else "classic")


def test_a_topic_that_is_subscribed_later_starts_by_auto_offset_reset() -> None:
    async def program(environment: Environment, options: dict[str, Any]) -> None:
        await environment.cluster.create_topic("other", 1)
        Environment(environment.simulation, environment.cluster, "other").append(0, b"old")
        async with Consumer("t", **options) as consumer:
            await ready(consumer)
            consumer.subscribe("t", "other")
            assert await values(consumer) == []

    run(program)


def test_assigned_partitions_start_by_auto_offset_reset() -> None:
    async def program(environment: Environment, options: dict[str, Any]) -> None:
        async with Consumer("t", **options) as consumer:
            await ready(consumer)
        await grown(environment)
        consumer = Consumer(**options)
        consumer.assign(("t", 2))
        async with consumer:
            assert await values(consumer) == []

    run(program)


def starts(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "has committed no offset" in record.getMessage()]


def test_a_group_that_starts_at_the_end_of_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def program(environment: Environment, options: dict[str, Any]) -> None:
        with caplog.at_level(logging.INFO, logger="aiokproto.consumer"):
            for _ in range(2):
                async with Consumer("t", **options) as consumer:
                    await ready(consumer)
        (line,) = starts(caplog)
        assert "no offset of t-0 at offset 1, t-1 at offset 1: it starts with new records" in line
        assert "auto_offset_reset='earliest'" in line

    run(program)


def test_no_other_start_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def program(environment: Environment, options: dict[str, Any]) -> None:
        with caplog.at_level(logging.INFO, logger="aiokproto.consumer"):
            async with Consumer("t", auto_offset_reset="earliest", **options) as consumer:
                await ready(consumer)
                consumer.seek_to_end()
                await ready(consumer)
            alone: dict[str, Any] = options | {"group_id": None}
            async with Consumer("t", **alone) as consumer:
                await ready(consumer)
        assert starts(caplog) == []

    run(program)


def test_a_log_line_names_some_of_many_partitions(caplog: pytest.LogCaptureFixture) -> None:
    async def program(environment: Environment, options: dict[str, Any]) -> None:
        await grow(environment.cluster, 20)
        with caplog.at_level(logging.INFO, logger="aiokproto.consumer"):
            async with Consumer("t", **options) as consumer:
                await ready(consumer, 20)
        (line,) = starts(caplog)
        assert "t-4 at offset 0 and 15 more: it starts" in line

    run(program)

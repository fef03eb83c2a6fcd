"""A producer forgets topics that no longer exist, and never uses a sequence number twice in the same epoch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokproto import Client, Producer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest
from aiokproto.records import decode
from aiokproto.simulation import Simulation
from tests.simulation.everything import OLD

FORGOTTEN = 30.0
"""Seconds after which the metadata no longer has a topic that isn't used, or doesn't exist."""


def run(program: Callable[[Cluster, Producer], Awaitable[None]], as_version: str | None = None, **options: Any) -> None:
    """Run a program with a cluster that has the topic t, and a producer."""

    async def main() -> None:
        async with Cluster(1, auto_create_topics=False, as_version=as_version) as cluster:
            await cluster.create_topic("t")
            async with Producer(
                bootstrap_servers=cluster.bootstrap_servers,
                metadata_max_age_ms=500,
                metadata_max_idle_ms=8000,
                **options,
            ) as producer:
                await program(cluster, producer)

    Simulation(1).run(main())


def written(cluster: Cluster) -> list[tuple[int, int, int]]:
    """Return the epoch, first sequence number and number of records of each batch in the log."""
    log = cluster._running.state.partition("t", 0).log
    found = decode(log.find(log.start_offset, 1 << 30, at_least_one=True).read())
    return [(each.producer_epoch, each.base_sequence, each.count) for each in found if not each.is_control]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few expired topics count as too many."""
    monkeypatch.setattr("aiokproto.producer.buffer.MAX_TOPICS", 0)


def test_a_topic_that_was_not_used_for_long_is_written_to_without_a_wait() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        await producer.send("t", b"x")
        await asyncio.sleep(FORGOTTEN)
        await producer.try_post("t", b"x")
        assert written(cluster) == [(0, 0, 1), (0, 1, 1)]

    run(program)


@pytest.mark.usefixtures("few")
def test_one_of_too_many_topics_that_were_not_used_for_long_is_forgotten_and_continues_in_the_next_epoch() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        for _ in range(3):
            await producer.send("t", b"x")
            await producer.send("t", b"x")
            await asyncio.sleep(FORGOTTEN)
            assert not producer._accumulator.topics
        assert written(cluster) == [(0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 1), (2, 0, 1), (2, 1, 1)]

    run(program)


def test_a_forgotten_topic_that_is_created_again_is_written_to() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        await producer.send("t", b"x")
        async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            await client.request(DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000), max_version=5)
        await asyncio.sleep(FORGOTTEN)
        assert not producer._accumulator.topics
        await cluster.create_topic("t")
        await producer.send("t", b"x")
        assert written(cluster) == [(1, 0, 1)]

    run(program)


@pytest.mark.usefixtures("few")
def test_a_topic_whose_batch_has_no_outcome_is_not_forgotten() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        await producer.send("t", b"x")
        await cluster.stop_broker(0)
        waiting = await producer.post("t", b"x")
        await asyncio.sleep(FORGOTTEN)
        await cluster.start_broker(0)
        await waiting
        assert written(cluster) == [(0, 0, 1), (0, 1, 1)]

    run(program)


@pytest.mark.usefixtures("few")
def test_transactions_of_version_1_keep_the_sequence_numbers_of_their_epoch() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        for _ in range(2):
            async with producer.transaction() as txn:
                await txn.send("t", b"x")
            await asyncio.sleep(FORGOTTEN)
        (first, second) = written(cluster)
        assert (first[1], second[1]) == (0, 1)
        assert first[0] == second[0]

    run(program, OLD, transactional_id="id")


@pytest.mark.usefixtures("few")
def test_transactions_of_version_2_forget_topics_when_their_epoch_has_ended() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        for _ in range(2):
            async with producer.transaction() as txn:
                await txn.send("t", b"x")
            await asyncio.sleep(FORGOTTEN)
            assert not producer._accumulator.topics
        (first, second) = written(cluster)
        assert (first[1], second[1]) == (0, 0)
        assert first[0] < second[0]

    run(program, transactional_id="id")

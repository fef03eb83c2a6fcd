"""Wrong calls raise an error that names the right one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Broker, Cluster
from aiokproto.consumer import FetchedBatch
from aiokproto.errors import CommitError, ConfigurationError, DeadlineError
from aiokproto.simulation import Simulation
from aiokproto.types import OffsetAndMetadata, TopicPartition


def run(program: Callable[[str], Awaitable[None]]) -> Simulation:
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 1)
            await program(cluster.bootstrap_servers)

    simulation.run(main())
    return simulation


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda consumer: consumer.seek_to_beginning(), "no partition is assigned"),
        (lambda consumer: consumer.seek_to_end(), "no partition is assigned"),
        (lambda consumer: consumer.seek_to_time(1), "no partition is assigned"),
        (lambda consumer: consumer.pause(), "no partition is assigned"),
    ],
)
def test_assigning_all_partitions_of_no_topic_is_refused(call: Callable[[Consumer], object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        call(Consumer("t", bootstrap_servers="localhost"))


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ([["a", "b"]], r'Consumer\("a", "b"\)'),
        (["flights.*"], "pattern="),
        (["a", "^b"], "pattern="),
        ([""], "not a topic name"),
    ],
)
def test_a_wrong_topic_argument_names_the_right_one(topics: list[Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Consumer(*topics, bootstrap_servers="localhost")


def ungated(method: Any) -> Any:
    """Without the question whether the consumer is started."""
    return method.__wrapped__


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer, given: consumer.assign(given),
        lambda consumer, given: consumer.pause(given),
        lambda consumer, given: consumer.resume(given),
        lambda consumer, given: consumer.seek_to_beginning(given),
        lambda consumer, given: consumer.seek_to_end(given),
        lambda consumer, given: consumer.seek_to_time(0, given),
        lambda consumer, given: asyncio.run(ungated(Consumer.committed)(consumer, given)),
        lambda consumer, given: asyncio.run(ungated(Consumer.beginning_offsets)(consumer, given)),
        lambda consumer, given: asyncio.run(ungated(Consumer.end_offsets)(consumer, given)),
    ],
)
@pytest.mark.parametrize("given", [[("t", 0)], {("t", 0)}, (("t", 0), ("t", 1))], ids=["list", "set", "tuple"])
def test_partitions_in_one_list_are_refused(call: Callable[[Consumer, Any], object], given: Any) -> None:
    with pytest.raises(ConfigurationError, match="as separate arguments, not in one list"):
        call(Consumer(bootstrap_servers="localhost", group_id="g"), given)


def test_several_topics_are_separate_arguments() -> None:
    consumer: Any = Consumer(bootstrap_servers="localhost")
    with pytest.raises(ConfigurationError, match=r'subscribe\("a", "b"\)'):
        consumer.subscribe(["a", "b"])


def test_reading_without_a_subscription_is_refused() -> None:
    async def program(servers: str) -> None:
        async with Consumer(bootstrap_servers=servers) as consumer:
            for call in (lambda: anext(consumer), lambda: consumer.poll(100), lambda: anext(consumer.batches())):
                with pytest.raises(ConfigurationError, match="subscribe"):
                    await asyncio.wait_for(call(), 5)

    run(program)


def test_what_cannot_be_committed_is_refused() -> None:
    async def program(servers: str) -> None:
        async with Producer(bootstrap_servers=servers) as producer:
            await producer.send("t", b"x")
        async with Consumer("t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
            record = await anext(consumer)
            commit: Any = consumer.commit
            for what, instead in (
                (record.offset + 1, "takes the record itself"),
                (("t", 0), "as a dict"),
                (OffsetAndMetadata(1), "as a dict"),
                ([("t", 0)], "takes a record, a batch, a list of records"),
                (iter([record]), "takes a record, a batch, a list of records"),
                ([FetchedBatch(TopicPartition("t", 0), 0, 1, [])], "takes one batch"),
                ("t", "takes a record"),
            ):
                with pytest.raises(ConfigurationError, match=instead):
                    await commit(what)
            result = await consumer.commit({("t", 99): 1})
            with pytest.raises(CommitError, match="not assigned to this member"):
                result.check()

    run(program)


@pytest.mark.parametrize("offset", [-1, 2**63, True, "5", None, OffsetAndMetadata(-1), OffsetAndMetadata(2**63)])
def test_an_invalid_offset_is_refused(offset: Any) -> None:
    async def program(servers: str) -> None:
        async with Consumer("t", bootstrap_servers=servers, group_id="g") as consumer:
            await consumer.poll(1000)
            with pytest.raises(ConfigurationError, match="offset="):
                await consumer.commit({("t", 0): offset})
            with pytest.raises(ConfigurationError, match="offset="):
                consumer.seek(("t", 0), offset)
            assert list((await consumer.committed(("t", 0))).values()) == [None]

    run(program)


def test_a_time_or_partition_out_of_range_is_refused() -> None:
    consumer = Consumer(bootstrap_servers="localhost")
    with pytest.raises(ConfigurationError, match="not a partition"):
        consumer.assign(("t", 2**31))
    consumer.assign(("t", 2**31 - 1))
    with pytest.raises(ConfigurationError, match="timestamp="):
        consumer.seek_to_time(2**63)


def test_a_timeout_of_zero_is_a_timeout() -> None:
    async def program(servers: str) -> None:
        async with Consumer("t", bootstrap_servers=servers) as consumer:
            for call in (consumer.beginning_offsets, consumer.end_offsets):
                with pytest.raises(DeadlineError, match="t-0"):
                    await call(("t", 0), timeout_ms=0)

    run(program)


def test_polls_with_timeout_zero_let_other_tasks_run() -> None:
    """A task that polls in a loop must not keep responses from arriving."""

    async def program(servers: str) -> None:
        async with Consumer("t", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            turns = 0

            async def count() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            other = asyncio.create_task(count())
            for _ in range(100):
                await consumer.poll(0)
            assert turns >= 100
            other.cancel()

    run(program)


def test_polls_wait_by_default() -> None:
    async def program(servers: str) -> None:
        async with Consumer("t", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            for _ in range(10):
                assert await consumer.poll() == []

    assert run(program).time() >= 5


USES: dict[str, Callable[[Consumer], Any]] = {
    "anext": lambda consumer: anext(consumer),
    "async for": lambda consumer: aiter(consumer),
    "poll": lambda consumer: consumer.poll(100),
    "batches": lambda consumer: anext(consumer.batches()),
    "commit": lambda consumer: consumer.commit(),
    "committed": lambda consumer: consumer.committed(("t", 0)),
    "position": lambda consumer: consumer.position(("t", 0)),
    "seek": lambda consumer: consumer.seek(("t", 0), 0),
    "seek_to_beginning": lambda consumer: consumer.seek_to_beginning(),
    "pause": lambda consumer: consumer.pause(),
    "resume": lambda consumer: consumer.resume(),
    "subscribe": lambda consumer: consumer.subscribe("t"),
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
    "end_offsets": lambda consumer: consumer.end_offsets(("t", 0)),
    "partitions_for_topic": lambda consumer: consumer.partitions_for_topic("t"),
    "close": lambda consumer: consumer.close(),
}


async def test_another_event_loop_is_refused_at_once() -> None:
    async with Broker() as broker:
        await broker.create_topic("t", partitions=1)
        async with (
            Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
            Consumer(
                "t", bootstrap_servers=broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
            ) as consumer,
        ):
            await producer.send("t", b"x")
            await anext(consumer)

            async def use(name: str) -> None:
                result = USES[name](consumer)
                if inspect.isawaitable(result):
                    await asyncio.wait_for(result, 5)

            def elsewhere() -> None:
                for name in USES:
                    with pytest.raises(ConfigurationError, match="started in another event loop"):
                        asyncio.run(use(name))

            await asyncio.to_thread(elsewhere)
            await asyncio.get_running_loop().shutdown_default_executor()
            await producer.send("t", b"y")
            assert (await anext(consumer)).value == b"y"

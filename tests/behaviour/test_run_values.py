"""A handler called for records with deserialized keys and values; records that cannot be decoded."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.consumer import DeadLetterTopic, RetryTopics
from aiokproto.errors import InvalidTopicError, RecordDeserializationError
from aiokproto.types import Record
from tests.behaviour.test_run import committed, member, produce
from tests.clusters import BehaviourCluster


async def load_later(raw: bytes) -> Any:
    await asyncio.sleep(0)
    return json.loads(raw)


each_deserializer = pytest.mark.parametrize("load", [json.loads, load_later])


async def letters_of(cluster: BehaviourCluster, topic: str, count: int) -> list[Record]:
    async with Consumer(topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        return [await anext(consumer) for _ in range(count)]


@each_deserializer
async def test_a_handler_gets_deserialized_records(cluster: BehaviourCluster, topic: str, load: Any) -> None:
    await cluster.create_topic(topic)
    # These keys can't be hashed once they are deserialized, so the order goes by their bytes.
    await produce(cluster, topic, *((b'{"k": %d}' % (number % 2), b"[%d]" % number) for number in range(20)))
    seen: dict[int, list[int]] = {0: [], 1: []}

    async def handle(record: Record[dict[str, int], list[int]]) -> None:
        assert record.key is not None
        assert record.value is not None
        await asyncio.sleep(0)
        seen[record.key["k"]] += record.value
        if sum(map(len, seen.values())) == 20:
            consumer.stop_run()

    async with member(cluster, topic, key_deserializer=load, value_deserializer=load) as consumer:
        await consumer.run(handle, order="key")
    assert seen == {0: list(range(0, 20, 2)), 1: list(range(1, 20, 2))}
    assert await committed(cluster, topic) == [20]


@each_deserializer
async def test_a_record_that_fails_is_a_dead_letter_as_it_was_stored(
    cluster: BehaviourCluster, topic: str, load: Any
) -> None:
    await cluster.create_topic(topic)
    await cluster.create_topic(f"{topic}.dead")
    await produce(cluster, topic, (b'"k"', b'{"n":  1}'), (None, b"2"))

    async def handle(record: Record[str, Any]) -> None:
        if record.key == "k":
            raise ValueError("not a number")
        consumer.stop_run()

    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        dead = DeadLetterTopic(f"{topic}.dead", producer)
        async with member(cluster, topic, key_deserializer=load, value_deserializer=load) as consumer:
            summary = await consumer.run(handle, dead_letter=dead)
    (letter,) = await letters_of(cluster, f"{topic}.dead", 1)
    headers = dict(letter.headers)
    assert (letter.key, letter.value) == (b'"k"', b'{"n":  1}')
    assert headers["__dlq.errors.message"] == b"not a number"
    assert headers["__dlq.errors.group"] == f"{topic}-group".encode()
    assert headers["__dlq.errors.delivery.count"] == b"1"
    assert (summary.processed, summary.dead_lettered) == (1, 1)
    assert await committed(cluster, topic) == [2]


async def test_a_record_waits_in_a_retry_topic_as_it_was_stored(cluster: BehaviourCluster, topic: str) -> None:
    soon = f"{topic}.soon"
    for name in (topic, soon):
        await cluster.create_topic(name)
    await produce(cluster, topic, (b"[0]", b"[1,  2]"))
    seen: list[tuple[str, Any, Any, bytes | None]] = []

    async def handle(record: Record[Any, Any]) -> None:
        seen.append((record.topic, record.key, record.value, record.raw_value))
        if record.topic == topic:
            raise ValueError("later")
        consumer.stop_run()

    # A producer's serializers wouldn't accept bytes.
    async with Producer(
        bootstrap_servers=cluster.bootstrap_servers, value_serializer=lambda value: json.dumps(value).encode()
    ) as producer:
        topics = RetryTopics({soon: 50}, producer)
        async with member(
            cluster, topic, *topics.topics, key_deserializer=json.loads, value_deserializer=json.loads
        ) as consumer:
            await consumer.run(handle, retry_topics=topics)
    assert seen == [(name, [0], [1, 2], b"[1,  2]") for name in (topic, soon)]


@each_deserializer
async def test_a_record_that_cannot_be_decoded_ends_the_run_and_is_not_committed(
    cluster: BehaviourCluster, topic: str, load: Any
) -> None:
    await cluster.create_topic(topic)
    await produce(cluster, topic, (None, b"0"), (None, b"1"), (None, b"{"), (None, b"3"))
    seen: list[Any] = []

    async def handle(record: Record[bytes, Any]) -> None:
        await asyncio.sleep(0)
        seen.append(record.value)

    async with member(cluster, topic, value_deserializer=load) as consumer:
        # A running call may end, and records whose call hasn't started are delivered again.
        while 1 not in seen:
            with pytest.raises(RecordDeserializationError, match=f"{topic}-0: the value .* at offset 2"):
                await consumer.run(handle)
        # Neither the run nor a commit has passed that record.
        with pytest.raises(RecordDeserializationError, match="at offset 2"):
            await consumer.run(handle)
        assert await consumer.position((topic, 0)) == 2
        assert consumer.undecodable >= 2
    assert sorted(set(seen)) == [0, 1]
    assert await committed(cluster, topic) == [2]


@each_deserializer
@pytest.mark.parametrize("policy", ["skip", "return", "dead letter"])
async def test_on_undecodable_applies_to_a_run(cluster: BehaviourCluster, topic: str, load: Any, policy: Any) -> None:
    await cluster.create_topic(topic)
    await cluster.create_topic(f"{topic}.dead")
    await produce(cluster, topic, (None, b"{"), (None, b"1"), (None, b"}"), (None, b"3"))
    seen: list[Any] = []

    async def handle(record: Record[bytes, Any]) -> None:
        seen.append(record.value)
        assert (record.error is None) == isinstance(record.value, int)
        if record.value == 3:
            consumer.stop_run()

    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        dead = DeadLetterTopic(f"{topic}.dead", producer)
        async with member(
            cluster, topic, value_deserializer=load, on_undecodable=dead if policy == "dead letter" else policy
        ) as consumer:
            await consumer.run(handle)
            assert consumer.undecodable == 2
    assert seen == ([b"{", 1, b"}", 3] if policy == "return" else [1, 3])
    if policy == "dead letter":
        letters = await letters_of(cluster, f"{topic}.dead", 2)
        assert [letter.value for letter in letters] == [b"{", b"}"]
    assert await committed(cluster, topic) == [4]


@pytest.mark.parametrize("policy", ["run", "on_undecodable"])
async def test_a_dead_letter_topic_that_cannot_be_written_costs_no_record(
    cluster: BehaviourCluster, topic: str, policy: str
) -> None:
    await cluster.create_topic(topic)
    await produce(cluster, topic, (None, b"0"), (None, b"{"), (None, b"2"))

    async def handle(record: Record[bytes, Any]) -> None:
        await asyncio.sleep(0)
        if record.error is not None:
            raise record.error

    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        dead = DeadLetterTopic("no such topic!", producer)
        undecodable: Any = dead if policy == "on_undecodable" else "return"
        async with member(cluster, topic, value_deserializer=json.loads, on_undecodable=undecodable) as consumer:
            for _ in range(3):
                with pytest.raises(InvalidTopicError, match="no such topic!"):
                    await consumer.run(handle, dead_letter=dead if policy == "run" else None)
            assert await consumer.position((topic, 0)) == 1
            assert not consumer.health().ended
    assert await committed(cluster, topic) == [1]


async def test_a_seek_while_a_deserializer_is_awaited_decides(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await produce(cluster, topic, *((None, b"%d" % number) for number in range(5)))
    seen: list[Any] = []
    began, goes_on = asyncio.Event(), asyncio.Event()

    async def load(raw: bytes) -> int:
        began.set()
        await goes_on.wait()
        return int(raw)

    async def handle(record: Record[bytes, int]) -> None:
        seen.append(record.value)
        if record.value == 4:
            consumer.stop_run()

    async with member(cluster, topic, value_deserializer=load) as consumer:
        run = asyncio.create_task(consumer.run(handle))
        await began.wait()
        with pytest.raises(RuntimeError, match="another task is waiting"):
            await anext(consumer)
        consumer.seek((topic, 0), 3)
        goes_on.set()
        await run
    assert seen == [3, 4]
    assert await committed(cluster, topic) == [5]


async def test_a_run_does_not_start_while_a_deserializer_is_awaited(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await produce(cluster, topic, (None, b"0"))
    began, goes_on = asyncio.Event(), asyncio.Event()

    async def load(raw: bytes) -> int:
        began.set()
        await goes_on.wait()
        return int(raw)

    async def handle(record: Record[bytes, int]) -> None: ...

    async with member(cluster, topic, value_deserializer=load) as consumer:
        reading = asyncio.ensure_future(anext(consumer))
        await began.wait()
        with pytest.raises(RuntimeError, match="another task is waiting"):
            await consumer.run(handle)
        goes_on.set()
        assert (await reading).value == 0


async def test_an_order_function_that_raises_loses_no_unfinished_record(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await produce(cluster, topic, (None, b"0"), (None, b"1"))
    seen: list[bytes | None] = []
    began, goes_on = asyncio.Event(), asyncio.Event()

    async def handle(record: Record) -> None:
        began.set()
        await goes_on.wait()
        seen.append(record.value)
        if record.value == b"2":
            consumer.stop_run()

    def lane(record: Record) -> int:
        if record.value == b"2":
            # The earlier calls can end now. One hasn't started.
            goes_on.set()
            raise LookupError("no lane")
        return 0

    async with member(cluster, topic) as consumer:
        run = asyncio.create_task(consumer.run(handle, order=lane))
        await began.wait()
        await produce(cluster, topic, (None, b"2"))
        with pytest.raises(LookupError, match="no lane"):
            await run
        await consumer.run(handle)
    assert set(seen) == {b"0", b"1", b"2"}

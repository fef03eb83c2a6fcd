"""Serializers, deserializers and records that cannot be decoded, on the embedded broker and on real Kafka."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from aiokproto import Broker, Consumer, Producer
from aiokproto.consumer import DeadLetterTopic
from aiokproto.errors import (
    ConfigurationError,
    CorruptBatchError,
    DeadlineError,
    InvalidRecordError,
    RecordDeserializationError,
    SerializationError,
)
from aiokproto.producer import ProducerRecord
from aiokproto.records import RecordBatch
from tests.behaviour.feed import EPOCH
from tests.clusters import BehaviourCluster


def to_json(value: Any) -> bytes:
    return json.dumps(value).encode()


async def to_json_later(value: Any) -> bytes:
    return to_json(value)


async def from_json_later(raw: bytes) -> Any:
    return json.loads(raw)


@pytest.mark.parametrize("is_async", [False, True])
async def test_what_is_serialized_is_deserialized(cluster: BehaviourCluster, topic: str, is_async: bool) -> None:
    await cluster.create_topic(topic)
    serializer = to_json_later if is_async else to_json
    producer: Producer[str, Any] = Producer(
        bootstrap_servers=cluster.bootstrap_servers, key_serializer=str.encode, value_serializer=serializer
    )
    async with producer:
        await producer.send(topic, {"n": 0}, key="k")
        await (await producer.post(topic, {"n": 1}))
        await producer.send(topic, None, key="k")
        outcomes = await producer.send_many(topic, [{"n": 3}, ProducerRecord({"n": 4}, key="k"), {1, 2}])
        assert list(outcomes.errors) == [2]
        assert isinstance(outcomes.errors[2], SerializationError)
        if is_async:
            with pytest.raises(ConfigurationError, match="await post"):
                producer.try_post(topic, {"n": 5})
        else:
            await producer.try_post(topic, {"n": 5})
        with pytest.raises(SerializationError, match="value_serializer failed"):
            await producer.send(topic, {1, 2})
        await (await producer.post_bytes(topic, b'{"n": 6}'))
    consumer = Consumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        key_deserializer=bytes.decode,
        value_deserializer=from_json_later if is_async else json.loads,
    )
    wanted = [("k", {"n": 0}), (None, {"n": 1}), ("k", None), (None, {"n": 3}), ("k", {"n": 4})]
    wanted += [] if is_async else [(None, {"n": 5})]
    async with consumer:
        found = [await anext(consumer) for _ in wanted]
        assert [(record.key, record.value) for record in found] == wanted
        assert (found[0].raw_key, found[0].raw_value) == (b"k", b'{"n": 0}')
        assert (await anext(consumer)).value == {"n": 6}


async def test_a_serializer_that_returns_no_bytes_is_an_error_of_the_record(
    cluster: BehaviourCluster, topic: str
) -> None:
    await cluster.create_topic(topic)
    returns_text: Any = json.dumps
    async with Producer(bootstrap_servers=cluster.bootstrap_servers, value_serializer=returns_text) as producer:
        with pytest.raises(InvalidRecordError, match="value_serializer returned str, not bytes"):
            await producer.send(topic, 1)


async def test_serializers_apply_in_transactions(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    servers = cluster.bootstrap_servers
    producer = Producer(bootstrap_servers=servers, transactional_id=topic, value_serializer=to_json)
    async with producer, producer.transaction() as txn:
        await txn.post(topic, [1])
        await txn.send_many(topic, [[2]])
    async with Consumer(
        topic, bootstrap_servers=servers, auto_offset_reset="earliest", value_deserializer=json.loads
    ) as consumer:
        assert [(await anext(consumer)).value for _ in range(2)] == [[1], [2]]


async def test_a_bad_record_is_one_error_and_commits_follow_it(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await producer.send_many(topic, [b"1", b"bad", b"3"], partition=0)

    def member() -> Consumer[bytes, Any]:
        return Consumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=topic,
            auto_offset_reset="earliest",
            value_deserializer=json.loads,
        )

    # Reading ends at the bad record, which isn't processed.
    async def read_to_the_end() -> None:
        async with member() as consumer:
            async for _ in consumer:
                pass

    with pytest.raises(RecordDeserializationError, match="at offset 1 cannot be deserialized"):
        await read_to_the_end()
    async with member() as consumer:
        with pytest.raises(RecordDeserializationError) as caught:
            await anext(consumer)
        assert caught.value.record.value == b"bad"
        assert (await anext(consumer)).value == 3
    async with member() as consumer:
        assert (await consumer.committed((topic, 0)))[topic, 0].offset == 3  # type: ignore[index,union-attr]


async def test_dead_letters_have_the_stored_bytes_and_the_cause(cluster: BehaviourCluster, topic: str) -> None:
    dead = f"{topic}.dead"
    for name in (topic, dead):
        await cluster.create_topic(name)
    servers = cluster.bootstrap_servers
    # The producer's serializers do not apply to letters.
    async with Producer(bootstrap_servers=servers, value_serializer=to_json) as producer:
        await (await producer.post_bytes(topic, b"bad", key=b"k", headers=[("h", b"1")]))
        await producer.send(topic, "good", timestamp=EPOCH)
        policy = DeadLetterTopic(lambda record: f"{record.topic}.dead", producer)
        async with Consumer(
            topic,
            bootstrap_servers=servers,
            group_id=topic,
            auto_offset_reset="earliest",
            value_deserializer=json.loads,
            on_undecodable=policy,
        ) as consumer:
            record = await anext(consumer)
            assert (record.value, consumer.undecodable) == ("good", 1)
            # The application fails on this record.
            await policy.write(record, ValueError("no flight"), group=topic, delivery_count=3)
    async with Consumer(dead, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        first, second = [await anext(consumer) for _ in range(2)]
    assert (first.key, first.value, first.headers[0]) == (b"k", b"bad", ("h", b"1"))
    headers = dict(first.headers)
    assert headers["__dlq.errors.topic"] == topic.encode()
    assert headers["__dlq.errors.partition"] == b"0"
    assert headers["__dlq.errors.offset"] == b"0"
    assert headers["__dlq.errors.group"] == topic.encode()
    assert headers["__dlq.errors.exception.class"] == b"json.decoder.JSONDecodeError"
    assert b"Expecting value" in (headers["__dlq.errors.message"] or b"")
    again = dict(second.headers)
    assert second.value == b'"good"'
    assert (again["__dlq.errors.delivery.count"], again["__dlq.errors.message"]) == (b"3", b"no flight")
    assert again["__dlq.errors.timestamp"] == str(EPOCH).encode()


@pytest.mark.parametrize("policy", ["raise", "skip", "return", "dead letter"])
@pytest.mark.parametrize("how", ["anext", "batches"])
async def test_a_damaged_batch_costs_no_other_record(policy: str, how: str) -> None:
    async with Broker() as broker, Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        servers = broker.bootstrap_servers
        await broker.create_topic("t")
        for base in (0, 2, 4):
            await producer.send_many("t", [str(base).encode(), str(base + 1).encode()], partition=0)
            await producer.flush()
        broker.corrupt_batch("t", 0, 2)
        chosen: Any = DeadLetterTopic("dead", producer) if policy == "dead letter" else policy
        seen: list[Any] = []
        async with Consumer(
            "t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest", on_undecodable=chosen
        ) as consumer:
            batches = consumer.batches()
            while not seen or seen[-1] != 5:
                try:
                    records = [await anext(consumer)] if how == "anext" else list(await anext(batches))
                except CorruptBatchError as error:
                    seen.append((error.base_offset, error.next_offset))
                    consumer.seek((error.topic, error.partition), error.next_offset)
                    continue
                seen += [(each.offset, "damaged") if each.error else each.offset for each in records]
            assert consumer.undecodable == 1
        between: dict[str, list[Any]] = {"raise": [(2, 4)], "return": [(2, "damaged")]}
        assert seen == [0, 1, *between.get(policy, []), 4, 5]
        if policy == "dead letter":
            async with Consumer("dead", bootstrap_servers=servers, auto_offset_reset="earliest") as letters:
                letter = await anext(letters)
            assert dict(letter.headers)["__dlq.errors.offset"] == b"2"
            assert RecordBatch(letter.value or b"").base_offset == 2


async def test_a_serializer_that_does_not_return_has_a_deadline(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)

    async def hangs(value: str) -> bytes:
        if value == "hangs":
            await asyncio.Event().wait()
        return value.encode()

    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "value_serializer": hangs}
    async with Producer(max_block_ms=50, **options) as short:
        with pytest.raises(DeadlineError, match="value_serializer did not return within max_block_ms=50"):
            await short.post(topic, "hangs")
    async with Producer(**options) as producer:
        await producer.send(topic, "good")
    async with Consumer(topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        assert (await anext(consumer)).value == b"good"

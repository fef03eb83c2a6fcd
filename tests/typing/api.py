"""What type checkers make of the public API. Never run: `test_typing` has mypy and pyright read it.

A method is looked at in a coroutine that takes what it needs as parameters, so that nothing has to be set up.
"""

from __future__ import annotations

import json
from typing import Any

from typing_extensions import assert_type

from aiokproto import Broker, Client, Consumer, ExactlyOnce, KafkaError, Producer, Record, TopicPartition
from aiokproto import Cluster as EmbeddedCluster
from aiokproto import records as kafka_records
from aiokproto.cluster import BrokerNode, TopicInfo
from aiokproto.codec import Message, Request, Response, Versions, frames, lookup, request
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from aiokproto.codec.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from aiokproto.codec.payloads.offsets_topic import OffsetCommitKey
from aiokproto.consumer import CommitResult, DeadLetterTopic, FetchedBatch, LogState, PartitionState, RunSummary
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, ConfigurationError, DeadlineError, MessageTooLargeError
from aiokproto.producer import Delivery, Outcomes, ProducerRecord, Transaction
from aiokproto.types import Header, OffsetAndMetadata, OffsetAndTimestamp, RecordMetadata, TimestampType


async def producer() -> None:
    async with Producer(bootstrap_servers="localhost:9092", acks="all", linger_ms=0.5) as opened:
        assert_type(opened, Producer)
        assert_type(await opened.send("t", b"v", key=b"k", headers=[("h", None)]), RecordMetadata)
        assert_type(await opened.send("t", None), RecordMetadata)
        delivery = await opened.post("t", b"v", partition=1, timestamp=0)
        assert_type(delivery, Delivery)
        assert_type(await delivery, RecordMetadata)
        assert_type(delivery.result(), RecordMetadata)
        assert_type(delivery.exception(), KafkaError | None)
        assert_type(await delivery.outcome(), RecordMetadata | KafkaError)
        assert_type(opened.try_post("t", b"v"), Delivery)
        outcomes = await opened.send_many("t", [b"a", ProducerRecord(b"b", key=b"k")])
        assert_type(outcomes, Outcomes)
        assert_type(await (await opened.post_many("t", [b"a", ProducerRecord(b"b", key=b"k")])), Outcomes)
        assert_type(outcomes.errors, dict[int, KafkaError])
        for outcome in outcomes:
            if isinstance(outcome, RecordMetadata):
                assert_type(outcome.offset, int)
            else:
                assert_type(outcome, KafkaError)
        assert_type(await opened.partitions_for("t"), int)
        await opened.flush(timeout_ms=10)


async def text_of(raw: bytes) -> str:
    return raw.decode()


def number_of(raw: bytes) -> int:
    return int(raw)


def bytes_of(number: int) -> bytes:
    return str(number).encode()


async def values() -> None:
    assert_type(Consumer("t", bootstrap_servers="s"), Consumer[bytes, bytes])
    json_values = Consumer("t", bootstrap_servers="s", value_deserializer=json.loads)
    assert_type(json_values, Consumer[bytes, Any])
    async for record in json_values:
        assert_type(record, Record[bytes, Any])
        assert_type(record.key, bytes | None)
        assert_type(record.raw_value, bytes | None)
        assert_type(record.error, Exception | None)
    numbers = Producer(bootstrap_servers="s", value_serializer=bytes_of)
    dead = DeadLetterTopic(lambda record: f"{record.topic}.dlq", numbers)
    both = Consumer("t", bootstrap_servers="s", key_deserializer=bytes.decode, value_deserializer=number_of)
    assert_type(both, Consumer[str, int])
    assert_type(await anext(both), Record[str, int])
    assert_type(await both.poll(), list[Record[str, int]])
    assert_type((await both.poll())[0].value, int | None)
    async for batch in both.batches():
        for each in batch:
            assert_type(await both.deserialize(each), Record[str, int])
    later = Consumer[bytes, str]("t", bootstrap_servers="s", value_deserializer=text_of)
    assert_type((await anext(later)).value, str | None)

    async def handle(record: Record[str, int]) -> None:
        assert_type(record.value, int | None)

    async def handle_all(records: list[Record[str, int]]) -> None:
        assert_type(records[0].key, str | None)

    assert_type(await both.run(handle, order=lambda record: record.key, dead_letter=dead), RunSummary)
    assert_type(await both.run(handle_all, batch=10), RunSummary)
    assert_type(numbers, Producer[bytes, int])
    assert_type(await numbers.send("t", 1, key=b"k"), RecordMetadata)
    assert_type(await numbers.send("t", None), RecordMetadata)
    await numbers.send_many("t", [1, 2, ProducerRecord(3)])
    async with numbers.transaction() as txn:
        await txn.post("t", 1)
    assert_type(ProducerRecord(b"v"), ProducerRecord)
    assert_type(ProducerRecord("v", key=1).key, int | None)
    named: ProducerRecord[bytes, int] = ProducerRecord(3, key=b"k", partition=0)
    await numbers.send_many("t", [1, named, ProducerRecord(None, key=b"k")])
    Consumer("t", bootstrap_servers="s", on_undecodable=dead)
    Consumer("t", bootstrap_servers="s", on_undecodable="skip")


async def exactly_once(both: Consumer[str, int], numbers: Producer[bytes, int]) -> None:
    async with ExactlyOnce(both, numbers) as session:
        assert_type(session, ExactlyOnce[str, int, bytes, int])
        async for records, txn in session.batches():
            assert_type(records, list[Record[str, int]])
            assert_type(txn, Transaction[bytes, int])
            await txn.send_many("t", [each.value for each in records if each.value is not None])

        async def process(records: list[Record[str, int]], txn: Transaction[bytes, int]) -> None:
            await txn.post("t", records[0].value)

        await session.run(process)
    plain = ExactlyOnce(Consumer("t", bootstrap_servers="s"), Producer(bootstrap_servers="s"))
    assert_type(plain, ExactlyOnce)


def partitioner(topic: str, key: bytes | None, value: bytes | None, partitions: object, available: object, /) -> int:
    return 0


def options(many: list[str]) -> None:
    Producer(bootstrap_servers=many, partitioner=partitioner, compression_type="zstd", client_id="me")
    Consumer("a", "b", bootstrap_servers=many, group_id=None, partition_assignment_strategy="sticky")
    Client(bootstrap_servers=("a:1", "b:2"), request_timeout_ms=1000, ssl_context=None)


async def consumer(where: TopicPartition) -> None:
    async with Consumer("t", bootstrap_servers="localhost:9092", group_id="g") as opened:
        assert_type(opened, Consumer)
        async for record in opened:
            assert_type(record, Record)
            assert_type(record.key, bytes | None)
            assert_type(record.value, bytes | None)
            assert_type(record.headers, tuple[Header, ...])
            assert_type(record.timestamp_type, TimestampType)
            await opened.commit(record)
            await opened.commit([record])
        assert_type(await opened.poll(max_records=1, timeout_ms=0), list[Record])
        async for batch in opened.batches():
            assert_type(batch, FetchedBatch)
            await opened.commit(batch)
            for each in batch:
                assert_type(each, Record)
        assert_type(opened.assignment(), frozenset[TopicPartition])
        assert_type(opened.partition_state(where), PartitionState)
        assert_type(opened.lag(("t", 0)), int | None)
        assert_type(await opened.position(where), int)
        assert_type(await opened.committed(where), dict[TopicPartition, OffsetAndMetadata | None])
        assert_type(await opened.end_offsets(where), dict[TopicPartition, int])
        assert_type(await opened.offsets_for_times({where: 0}), dict[TopicPartition, OffsetAndTimestamp | None])
        assert_type(await opened.commit({where: 3, ("t", 1): OffsetAndMetadata(4, "note")}), CommitResult)
        async for record in opened.read_to_end(where, timeout_ms=1000):
            assert_type(record, Record)
        async for record in opened.records(timeout_ms=1000):
            assert_type(record, Record)
        assert_type(opened.log_state(where), LogState)
        assert_type(opened.at_end(where), bool)


async def rebalances(opened: Consumer) -> None:
    async def coroutine(partitions: list[TopicPartition]) -> None: ...

    def function(partitions: list[TopicPartition]) -> None: ...

    opened.subscribe("a", "b", on_assigned=coroutine, on_revoked=function)
    opened.subscribe(pattern="a.*", on_lost=function)


async def client() -> None:
    async with Client(bootstrap_servers="localhost:9092") as opened:
        assert_type(opened, Client)
        answer = await opened.request(MetadataRequest(topics=None))
        assert_type(answer, MetadataResponse)
        assert_type(answer.brokers, list[MetadataResponseBroker])
        assert_type(answer.topics[0].name, str | None)
        assert_type(answer.topics[0].topic_id, bytes)
        assert_type(await opened.request(FindCoordinatorRequest(key="g"), node=1), FindCoordinatorResponse)
        assert_type(await opened.version(MetadataRequest, 1), int)
        assert_type(await opened.versions(1), dict[str, Versions])
        for node in opened.brokers.values():
            assert_type(node, BrokerNode)
        for info in (await opened.metadata(["t"])).values():
            assert_type(info, TopicInfo)


def codec(frame: bytearray) -> None:
    topic = MetadataRequestTopic(name="t")
    message = MetadataRequest(topics=[topic], allow_auto_topic_creation=False)
    assert_type(message.encode(12), bytes)
    assert_type(MetadataRequest.decode(b"", 12), MetadataRequest)
    assert_type(MetadataRequest.decode_from(memoryview(b""), 0, 12), tuple[MetadataRequest, int])
    assert_type(MetadataRequest.versions, Versions)
    assert_type(MetadataRequest(), MetadataRequest)
    assert_type(message.topics, list[MetadataRequestTopic] | None)
    assert_type(message.unknown_tags, dict[int, bytes] | None)
    assert_type(OffsetCommitKey.decode(b"", 0).partition, int)
    assert_type(frames.encode_request(message, 12, 1, None), bytearray)
    assert_type(frames.decode_response(frame, MetadataResponse, 12), MetadataResponse)
    assert_type(request(3), type[Request[Any]])
    assert_type(lookup("MetadataResponse"), type[Message])
    generic: Request[MetadataResponse] = message
    answer: Response = MetadataResponse(brokers=[], topics=[MetadataResponseTopic()])
    assert generic != answer


def record_batches(data: memoryview) -> None:
    for batch in kafka_records.decode(data):
        assert_type(batch, kafka_records.RecordBatch)
        assert_type(batch.compression, kafka_records.Compression)
        for record in batch:
            assert_type(record, kafka_records.BatchRecord)
            assert_type(record.headers, tuple[Header, ...])
    builder = kafka_records.BatchBuilder()
    assert_type(builder.append(0, None, b"v"), int | None)
    assert_type(builder.close(), bytearray)
    # What was read, by the consumer too, can be written.
    assert_type(kafka_records.encode([Record("t", 0, 0, 0, None, b"v"), AlsoRecord()]), bytes)


class AlsoRecord:
    """Any object with these will do."""

    timestamp = 0
    key = None
    value = b"v"
    headers = (("h", b"1"),)


async def broker() -> None:
    async with Broker(port=0) as one:
        assert_type(one, Broker)
        assert_type(one.bootstrap_servers, str)
    async with EmbeddedCluster(brokers=3) as three:
        assert_type(three, EmbeddedCluster)
        assert_type(await three.move_leader("t", 0), int)


def errors(error: BrokerError, late: DeadlineError, wrong: ConfigurationError, large: MessageTooLargeError) -> None:
    assert_type(error.code, ErrorCode)
    assert_type(error.detail, str | None)
    assert_type(error.retriable, bool)
    timeout: TimeoutError = late
    value: ValueError = wrong
    refused: BrokerError = large
    everything: list[KafkaError] = [error, late, wrong, large]
    assert everything == [timeout, value, refused]

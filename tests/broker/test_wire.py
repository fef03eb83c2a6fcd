"""The broker over the wire, one API after the other, with a client that shares nothing with this package's client."""

from __future__ import annotations

import asyncio
import logging
from pkgutil import iter_modules

import pytest

from aiokproto.broker import Broker, handlers
from aiokproto.broker.handlers import SERVED
from aiokproto.codec.frames import decode_response
from aiokproto.codec.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from aiokproto.codec.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest
from aiokproto.codec.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.codec.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from aiokproto.codec.messages.vote import VoteRequest
from aiokproto.codec.registry_table import APIS
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.records import BatchBuilder, Compression, decode
from tests.broker.wire import NOW, Wire, batch, connect, fetch_request, parked, produce, produce_request, records_of
from tests.timeouts import LONG_TIMEOUT

PAST = NOW - 86_400_000


async def error_of_fetch(wire: Wire, request: FetchRequest, version: int = 12) -> ErrorCode:
    response = await wire.ask(request, version)
    return ErrorCode(response.responses[0].partitions[0].error_code)


# ---- versions and connections


def test_every_served_api_has_messages_and_a_handler() -> None:
    for api_key in SERVED:
        handler = handlers.find(api_key)
        assert handler is not None
        assert handler.request.versions.covers(handler.versions)


def test_every_handler_is_served() -> None:
    apis = {module for module, _ in APIS.values()}
    found = {module.name for module in iter_modules(handlers.__path__)} & apis
    assert found == {APIS[api_key][0] for api_key in SERVED}


@pytest.mark.parametrize("version", range(6))
async def test_api_versions_lists_the_served_versions(wire: Wire, version: int) -> None:
    response = await wire.ask(ApiVersionsRequest(), version)
    assert {key.api_key: (key.min_version, key.max_version) for key in response.api_keys} == SERVED


async def test_an_unknown_api_versions_version_is_answered_in_version_0(wire: Wire) -> None:
    frame = bytearray(b"\0\x12\0\x63\0\0\0\x07\0\x01x\0")
    wire.writer.write(len(frame).to_bytes(4, "big") + frame)
    response = decode_response(await wire.frame(), ApiVersionsResponse, 0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(key.api_key, key.max_version) for key in response.api_keys] == [(18, 5)]


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"\x7f\xff\0\0\0\0\0\x01\0\0", id="unknown api"),
        pytest.param(b"\0\x03\0\x63\0\0\0\x01\0\0", id="unknown version"),
        pytest.param(b"\0\0\0\x02\0\0\0\x01\0\0", id="version no longer served"),
        pytest.param(b"\0", id="too short"),
        pytest.param(b"\0\x03\0\x01\0\0\0\x01\0\0\x7f\xff\xff\xff", id="array longer than the frame"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="not kafka"),
    ],
)
async def test_a_request_that_cannot_be_served_closes_only_its_connection(
    broker: Broker, wire: Wire, frame: bytes
) -> None:
    async with connect(broker) as other:
        other.writer.write(len(frame).to_bytes(4, "big") + frame)
        assert await other.closed()
    assert (await wire.ask(ApiVersionsRequest())).error_code == 0


@pytest.mark.parametrize("size", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"GET "])
async def test_the_size_of_a_frame_has_a_limit(broker: Broker, size: bytes) -> None:
    async with connect(broker) as wire:
        wire.writer.write(size)
        assert await wire.closed()


async def test_an_inter_broker_request_closes_the_connection(wire: Wire) -> None:
    wire.send(VoteRequest(topics=[]))
    assert await wire.closed()


async def test_a_handler_that_fails_closes_the_connection_and_is_logged(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    handler = handlers.find(MetadataRequest.api_key)
    assert handler is not None
    monkeypatch.setattr("aiokproto.broker.server.dispatch.find", lambda _: handler._replace(handle=fail))
    wire.send(MetadataRequest(topics=None))
    assert await wire.closed()
    assert any(record.exc_info and "Metadata v13" in record.getMessage() for record in caplog.records)


async def test_pipelined_requests_are_answered_in_order(wire: Wire) -> None:
    for offset in range(5):
        wire.send(produce_request("t", batch([b"x"])), 9)
        wire.send(fetch_request("t", offset), 11)
    for expected in range(10):
        assert int.from_bytes((await wire.frame())[:4], "big") == expected + 1


async def test_closing_does_not_wait_for_delayed_fetches_and_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with Broker() as broker:
        await broker.create_topic("t")
        async with connect(broker) as wire:
            wire.send(fetch_request("t", max_wait_ms=600_000), 11)
            await parked(broker)
            await asyncio.wait_for(broker.close(), LONG_TIMEOUT)
            assert await wire.closed()
    assert caplog.messages == []


# ---- produce


@pytest.mark.parametrize("version", range(3, 13))
async def test_produce_and_fetch_in_every_version_by_name(wire: Wire, version: int) -> None:
    produced = await produce(wire, "t", batch([b"a", b"b"]), version=version)
    assert (produced.error_code, produced.base_offset) == (0, 0)
    for each in range(4, 13):
        response = await wire.ask(fetch_request("t", 1), each)
        assert [(record.offset, record.value) for record in records_of(response)] == [(0, b"a"), (1, b"b")]
        assert response.responses[0].partitions[0].high_watermark == 2


async def test_produce_and_fetch_by_topic_id(wire: Wire) -> None:
    topic_id = (await wire.ask(MetadataRequest(topics=None))).topics[0].topic_id
    request = produce_request("t", batch([b"a"]))
    request.topic_data[0].name, request.topic_data[0].topic_id = "", topic_id
    assert (await wire.ask(request, 13)).responses[0].partition_responses[0].error_code == 0
    fetch = fetch_request("t")
    fetch.topics[0].topic, fetch.topics[0].topic_id = "", topic_id
    for version in range(13, 19):
        response = await wire.ask(fetch, version)
        assert response.responses[0].topic_id == topic_id
        assert [record.value for record in records_of(response)] == [b"a"]
    fetch.topics[0].topic_id = b"?" * 16
    assert await error_of_fetch(wire, fetch, 18) is ErrorCode.UNKNOWN_TOPIC_ID
    request.topic_data[0].topic_id = ZERO_UUID
    refused = (await wire.ask(request, 13)).responses[0].partition_responses[0]
    assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def damaged() -> bytes:
    data = bytearray(batch([b"x"]))
    data[-1] ^= 1
    return bytes(data)


def with_byte(at: int, value: int) -> bytes:
    """Return a batch with a changed byte in its header, and a matching checksum."""
    from aiokproto.records import patch

    data = bytearray(batch([b"x"]))
    data[at] = value
    patch.update_crc(data)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param(None, ErrorCode.INVALID_RECORD, id="null"),
        pytest.param(b"", ErrorCode.INVALID_RECORD, id="empty"),
        pytest.param(damaged(), ErrorCode.CORRUPT_MESSAGE, id="checksum"),
        pytest.param(batch([b"x"])[:-1], ErrorCode.CORRUPT_MESSAGE, id="cut short"),
        pytest.param(batch([b"x"]) * 2, ErrorCode.INVALID_RECORD, id="two batches"),
        pytest.param(with_byte(16, 1), ErrorCode.INVALID_RECORD, id="old format"),
        pytest.param(with_byte(22, 7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, id="unknown codec"),
        pytest.param(with_byte(22, 0x20), ErrorCode.INVALID_RECORD, id="control batch"),
        pytest.param(with_byte(26, 5), ErrorCode.INVALID_RECORD, id="last offset delta"),
        pytest.param(batch([b"x"], base_offset=5), ErrorCode.INVALID_RECORD, id="base offset"),
        pytest.param(batch([b"x"], producer_id=1, producer_epoch=0), ErrorCode.INVALID_RECORD, id="no sequence"),
        pytest.param(batch([b"x" * 1_048_588]), ErrorCode.MESSAGE_TOO_LARGE, id="too large"),
        pytest.param(batch([b"x"], timestamp=1 << 60), ErrorCode.INVALID_TIMESTAMP, id="from the future"),
    ],
)
async def test_bad_records_are_refused(wire: Wire, data: bytes | None, error: ErrorCode) -> None:
    refused = await produce(wire, "t", data)
    assert (ErrorCode(refused.error_code), refused.base_offset) == (error, -1)
    assert (await produce(wire, "t", batch([b"fine"]))).base_offset == 0, "nothing of it was kept"


async def test_zstd_needs_produce_v7(wire: Wire) -> None:
    builder = BatchBuilder(compression=Compression.ZSTD)
    builder.append(NOW, None, b"x")
    data = bytes(builder.close())
    assert (await produce(wire, "t", data, version=6)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert (await produce(wire, "t", data, version=7)).error_code == 0


async def test_unknown_partitions_and_acks(wire: Wire) -> None:
    assert (await produce(wire, "nope", batch([b"x"]))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await produce(wire, "t", batch([b"x"]), 2)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    response = await wire.ask(produce_request("t", batch([b"x"]), acks=2), 9)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_REQUIRED_ACKS


async def test_acks_0_has_no_response_and_an_error_closes_the_connection(broker: Broker, wire: Wire) -> None:
    wire.send(produce_request("t", batch([b"x"]), acks=0), 9)
    response = await wire.ask(fetch_request("t"), 11)
    assert [record.value for record in records_of(response)] == [b"x"]
    async with connect(broker) as other:
        other.send(produce_request("nope", batch([b"x"]), acks=0), 9)
        assert await other.closed()


async def test_each_invalid_record_is_reported(broker: Broker, wire: Wire) -> None:
    await broker.create_topic("compacted", config={"cleanup.policy": "compact"})
    builder = BatchBuilder()
    for key in (b"k", None, b"k", None):
        builder.append(NOW, key, b"v")
    refused = await produce(wire, "compacted", bytes(builder.close()))
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in refused.record_errors] == [1, 3]


async def test_log_append_time(broker: Broker, wire: Wire) -> None:
    await broker.create_topic("stamped", config={"message.timestamp.type": "LogAppendTime"})
    produced = await produce(wire, "stamped", batch([b"x"], timestamp=5))
    (record,) = records_of(await wire.ask(fetch_request("stamped"), 11))
    assert record.timestamp == produced.log_append_time_ms > PAST


async def test_the_topic_can_choose_the_compression(broker: Broker, wire: Wire) -> None:
    await broker.create_topic("zipped", config={"compression.type": "gzip"})
    await produce(wire, "zipped", batch([b"x", b"y"], producer_id=4, producer_epoch=0, base_sequence=0))
    response = await wire.ask(fetch_request("zipped"), 11)
    (stored,) = decode(response.responses[0].partitions[0].records or b"")
    assert (stored.compression, stored.producer_id, len(stored)) == (Compression.GZIP, 4, 2)
    assert [record.value for record in stored] == [b"x", b"y"]


async def test_idempotent_produce(wire: Wire) -> None:
    ids = []
    for version in range(6):
        response = await wire.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), version)
        ids.append(response.producer_id)
        assert (response.error_code, response.producer_epoch) == (0, 0)
    assert len(set(ids)) == 6
    data = batch([b"x"], producer_id=ids[0], producer_epoch=0, base_sequence=0)
    assert [(await produce(wire, "t", data)).base_offset for _ in range(3)] == [0, 0, 0]
    gap = batch([b"x"], producer_id=ids[0], producer_epoch=0, base_sequence=2)
    assert (await produce(wire, "t", gap)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_the_coordinator_of_a_transactional_id_is_found_in_every_version(wire: Wire) -> None:
    for version in range(1, 7):
        if version < 4:
            request = FindCoordinatorRequest(key_type=1, key="tx")
        else:
            request = FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"])
        found = await wire.ask(request, version)
        node = found.coordinators[0] if found.coordinators else found
        assert (node.error_code, node.node_id) == (0, 0)
    refused = await wire.ask(InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1), 5)
    assert refused.error_code == ErrorCode.INVALID_REQUEST


# ---- fetch


async def test_a_fetch_waits_for_data(broker: Broker, wire: Wire) -> None:
    wire.send(fetch_request("t", max_wait_ms=600_000), 11)
    await parked(broker)
    async with connect(broker) as other:
        assert (await produce(other, "t", batch([b"x"]))).error_code == 0
    assert len(await wire.frame()) > len(batch([b"x"]))


async def test_a_fetch_waits_for_min_bytes(broker: Broker, wire: Wire) -> None:
    size = len(batch([b"x"]))
    wire.send(fetch_request("t", max_wait_ms=600_000, min_bytes=3 * size), 11)
    await parked(broker)
    async with connect(broker) as other:
        for _ in range(3):
            await produce(other, "t", batch([b"x"]))
    assert len(await wire.frame()) > 3 * size


async def test_a_fetch_ends_after_max_wait(wire: Wire) -> None:
    response = await wire.ask(fetch_request("t", max_wait_ms=1, min_bytes=100), 11)
    assert records_of(response) == []


async def test_a_delayed_fetch_ends_when_its_topic_is_deleted(broker: Broker, wire: Wire) -> None:
    wire.send(fetch_request("t", max_wait_ms=600_000), 11)
    await parked(broker)
    async with connect(broker) as other:
        await other.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1), 5)
    response = decode_response(await wire.frame(), FetchResponse, 11)
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_fetch_limits(wire: Wire) -> None:
    size = len(batch([b"x"]))
    for partition in (0, 1):
        for _ in range(4):
            await produce(wire, "t", batch([b"x"]), partition)
    partitions = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=2 * size) for index in (0, 1)]

    async def sizes(max_bytes: int) -> list[int]:
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=max_bytes, topics=[FetchTopic(topic="t", partitions=partitions)]
        )
        response = await wire.ask(request, 11)
        return [len(each.records or b"") // size for each in response.responses[0].partitions]

    assert await sizes(10 * size) == [2, 2]
    assert await sizes(3 * size) == [2, 1]
    assert await sizes(1) == [1, 0], "the first batch always comes"


async def test_fetch_errors(broker: Broker, wire: Wire) -> None:
    await produce(wire, "t", batch([b"x"]))
    assert await error_of_fetch(wire, fetch_request("t", 2)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert await error_of_fetch(wire, fetch_request("nope")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await error_of_fetch(wire, fetch_request("t", current_leader_epoch=9)) is ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_fetch_sessions(wire: Wire) -> None:
    """KIP-227: the first fetch is full, the next fetches say only what changed, and the epochs have to fit."""
    first = await wire.ask(fetch_request("t", session_epoch=0), 12)
    assert first.session_id > 0
    assert len(first.responses) == 1

    async def go_on(epoch: int, offset: int | None = None) -> tuple[int, int]:
        request = fetch_request("t", offset or 0, session_id=first.session_id, session_epoch=epoch)
        if offset is None:
            request.topics = []
        response = await wire.ask(request, 12)
        return response.error_code, len(records_of(response)) if response.responses else -1

    assert await go_on(1) == (0, -1), "nothing changed"
    await produce(wire, "t", batch([b"x"]))
    assert await go_on(2) == (0, 1), "the partition is remembered"
    assert await go_on(3, offset=1) == (0, -1)
    assert await go_on(3) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, -1)
    closing = fetch_request("t", session_id=first.session_id, session_epoch=-1)
    assert (await wire.ask(closing, 12)).session_id == 0
    assert await go_on(4) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, -1)


# ---- offsets


async def offset_for(wire: Wire, timestamp: int, version: int = 11, epoch: int = -1) -> tuple[int, int, int]:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=epoch)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[partition])])
    (answer,) = (await wire.ask(request, version)).topics[0].partitions
    return answer.error_code, answer.offset, answer.timestamp


@pytest.mark.parametrize("version", range(1, 12))
async def test_list_offsets(wire: Wire, version: int) -> None:
    for timestamp in (NOW, NOW + 20, NOW + 10):
        await produce(wire, "t", batch([b"x"], timestamp))
    assert await offset_for(wire, -1, version) == (0, 3, -1)
    assert await offset_for(wire, -2, version) == (0, 0, -1)
    assert await offset_for(wire, NOW + 1, version) == (0, 1, NOW + 20)
    assert await offset_for(wire, NOW + 21, version) == (0, -1, -1)
    unsupported = (ErrorCode.UNSUPPORTED_VERSION, -1, -1)
    assert await offset_for(wire, -3, version) == ((0, 1, NOW + 20) if version >= 7 else unsupported)
    assert await offset_for(wire, -7, version) == unsupported
    if version >= 4:
        assert await offset_for(wire, -1, version, epoch=7) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)


async def test_delete_records(wire: Wire) -> None:
    await produce(wire, "t", batch([b"x"] * 10))

    async def delete(offset: int) -> tuple[int, int]:
        topic = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
        (answer,) = (await wire.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=1))).topics[0].partitions
        return answer.error_code, answer.low_watermark

    assert await delete(4) == (0, 4)
    assert await delete(11) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert await offset_for(wire, -2) == (0, 4, -1)
    assert await error_of_fetch(wire, fetch_request("t", 3)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert await delete(-1) == (0, 10)


async def test_offset_for_leader_epoch(broker: Broker, wire: Wire) -> None:
    await produce(wire, "t", batch([b"x"] * 3))
    for version in range(5):
        partition = OffsetForLeaderPartition(partition=0, leader_epoch=0)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[partition])])
        (answer,) = (await wire.ask(request, version)).topics[0].partitions
        assert (answer.error_code, answer.end_offset) == (0, 3)

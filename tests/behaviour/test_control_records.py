"""Control records that a consumer asks for, on the embedded broker and on real Kafka."""

from __future__ import annotations

import pickle
import secrets
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.codec.payloads.control_records import EndTxnMarker
from aiokproto.records.control import ControlType, parse
from aiokproto.types import RawControlRecord, Record
from tests.clusters import BehaviourCluster

KINDS = {b"a": ControlType.COMMIT, b"b": ControlType.ABORT, b"c": ControlType.COMMIT}


async def write(cluster: BehaviourCluster, topic: str) -> None:
    """Write three transactions, and abort the second; write a record outside of transactions."""
    await cluster.create_topic(topic)
    name = f"txn-{secrets.token_hex(4)}"
    async with Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=name, linger_ms=0) as producer:
        for value, kind in KINDS.items():
            async with producer.transaction() as txn:
                await txn.send(topic, value)
                if kind is ControlType.ABORT:
                    await txn.abort()
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await producer.send(topic, b"last")


def reader(cluster: BehaviourCluster, topic: str, **options: Any) -> Consumer[bytes, Any]:
    return Consumer(topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", **options)


def shown(record: Record[bytes, Any]) -> Any:
    return parse(record).type if isinstance(record, RawControlRecord) else record.value


@pytest.mark.parametrize("way", ["one by one", "poll", "batches", "deserialized"])
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
async def test_markers_are_delivered_at_their_offsets(
    cluster: BehaviourCluster, topic: str, isolation: str, way: str
) -> None:
    await write(cluster, topic)
    options: dict[str, Any] = {"keep_control_records": True, "isolation_level": isolation}
    if way == "deserialized":
        options["value_deserializer"] = bytes.upper
    records: list[Record[bytes, Any]] = []
    async with reader(cluster, topic, **options) as consumer:
        while not records or records[-1].offset < 6:
            if way == "poll":
                records += await consumer.poll()
            elif way == "batches":
                records += await anext(consumer.batches())
            else:
                records.append(await anext(consumer))
    expected: list[tuple[int, Any]] = []
    for offset, (value, kind) in zip((0, 2, 4), KINDS.items(), strict=True):
        if kind is ControlType.COMMIT or isolation == "read_uncommitted":
            expected.append((offset, value.upper() if way == "deserialized" else value))
        expected.append((offset + 1, kind))
    last = b"LAST" if way == "deserialized" else b"last"
    assert [(record.offset, shown(record)) for record in records] == [*expected, (6, last)]
    marker = next(record for record in records if isinstance(record, RawControlRecord))
    assert isinstance(parse(marker).value, EndTxnMarker)
    assert marker.raw_key == marker.key
    copy = pickle.loads(pickle.dumps(marker))
    assert (type(copy), copy.offset, copy.value) == (RawControlRecord, marker.offset, marker.value)


async def test_control_records_are_left_out_by_default_and_of_tables(cluster: BehaviourCluster, topic: str) -> None:
    pytest.importorskip("pyarrow")
    await write(cluster, topic)
    async with reader(cluster, topic) as consumer:
        assert [(await anext(consumer)).offset for _ in range(4)] == [0, 2, 4, 6]
    rows: list[int] = []
    async with reader(cluster, topic, keep_control_records=True) as consumer:
        while 6 not in rows:
            batch = await anext(consumer.batches())
            rows += batch.to_arrow()["offset"].to_pylist()
    assert rows == [0, 2, 4, 6]

"""The content of keys and values of Kafka's own topics, as the verb `records` decodes them."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from pathlib import Path

import pytest

from aiokproto import records
from aiokproto.cli.codec.contents import BY_KEY
from aiokproto.cli.codec.document import METADATA, REMOTE_LOG_METADATA
from aiokproto.cli.codec.record_sets import pack_batches
from aiokproto.codec.payloads.control_records import LeaderChangeMessage, LeaderChangeMessageVoter
from aiokproto.codec.payloads.kraft_topics import TopicRecord
from aiokproto.codec.payloads.offsets_topic import OffsetCommitKey, OffsetCommitValue
from aiokproto.codec.registry import lookup, payload_names
from aiokproto.codec.schema import Payload
from aiokproto.records import BatchBuilder, BatchRecord
from aiokproto.records.control import encode_end_transaction
from tests.codec.tool.conftest import Run
from tests.codec.tool.test_record_sets import NOW, through_json


def key_of(number: int, key: OffsetCommitKey) -> bytes:
    return struct.pack(">h", number) + key.encode(0)


def one_record(key: bytes | None, value: bytes | None) -> bytes:
    return records.encode([BatchRecord(0, NOW, key, value)])


def test_every_type_of_record_has_its_message() -> None:
    for table in (METADATA, REMOTE_LOG_METADATA):
        assert all(issubclass(lookup(name), Payload) for name in table.values())
    keyed = [f"{name}{part}" for table in BY_KEY.values() for name in table.values() for part in ("Key", "Value")]
    assert all(issubclass(lookup(name), Payload) for name in keyed)
    assert {name for name in payload_names() if name.endswith("Key")} <= set(keyed)


def test_metadata_records() -> None:
    topic = TopicRecord(name="t", topic_id=bytes(16)).encode(0)
    data = one_record(None, b"\x01\x02\x00" + topic)
    batches, again = through_json(data, "metadata")
    assert again == data
    assert batches[0]["records"][0]["value"] == {
        "payload": "TopicRecord",
        "frameVersion": 1,
        "version": 0,
        "body": {"name": "t", "topicId": "AAAAAAAAAAAAAAAAAAAAAA"},
    }


def test_coordinator_records() -> None:
    key = key_of(1, OffsetCommitKey(group="g", topic="t", partition=7))
    value = OffsetCommitValue(offset=5, leader_epoch=1, metadata="", commit_timestamp=NOW)
    data = one_record(key, b"\0\x03" + value.encode(3)) + one_record(key, None)
    batches, again = through_json(data, "consumer-offsets")
    assert again == data
    (record,), (tombstone,) = (batch["records"] for batch in batches)
    assert record["key"] == {
        "payload": "OffsetCommitKey",
        "prefix": 1,
        "version": 0,
        "body": {"group": "g", "topic": "t", "partition": 7},
    }
    assert (record["value"]["payload"], record["value"]["version"]) == ("OffsetCommitValue", 3)
    assert record["value"]["body"]["offset"] == 5
    assert (tombstone["key"], tombstone["value"]) == (record["key"], None)
    record["value"]["body"]["offset"] = 6
    (changed, _) = records.decode(pack_batches(batches))
    (written,) = changed
    assert written.value is not None
    assert OffsetCommitValue.decode(written.value[2:], 3).offset == 6


def control_batch(kind: int, value: bytes) -> bytes:
    builder = BatchBuilder(is_control=True)
    builder.append(NOW, struct.pack(">hh", 0, kind), value)
    return bytes(builder.close())


def test_control_records() -> None:
    voter = LeaderChangeMessageVoter(voter_id=1)
    change = LeaderChangeMessage(version=0, leader_id=1, voters=[voter], granting_voters=[voter])
    marking = encode_end_transaction(
        committed=False, producer_id=7, producer_epoch=3, coordinator_epoch=5, timestamp=NOW, base_offset=9
    )
    data = bytes(marking) + control_batch(2, change.encode(0))
    batches, again = through_json(data)
    assert again == data
    (marker,), (leader,) = (batch["records"] for batch in batches)
    assert marker["controlType"] == "ABORT"
    assert marker["value"] == {"payload": "EndTxnMarker", "prefix": 0, "version": 0, "body": {"coordinatorEpoch": 5}}
    assert leader["controlType"] == "LEADER_CHANGE"
    assert leader["value"]["body"] == {
        "version": 0,
        "leaderId": 1,
        "voters": [{"voterId": 1}],
        "grantingVoters": [{"voterId": 1}],
    }


def test_a_control_record_of_a_later_version_keeps_its_end() -> None:
    data = control_batch(1, b"\0\x05" + b"\0\0\0\x09" + b"more")
    batches, again = through_json(data)
    assert again == data
    (record,) = batches[0]["records"]
    assert record["value"]["prefix"] == 5
    assert record["value"]["trailingBytes"] == b64encode(b"more").decode()


UNREADABLE: list[tuple[str, bytes, str]] = [
    ("metadata", one_record(None, None), "a metadata record has a value"),
    ("metadata", one_record(None, b"\x00\x02\x00"), "frame version 0 is unknown: expected 1"),
    ("metadata", one_record(None, b"\x01\x0d\x00"), "record type 13 is unknown"),
    ("metadata", one_record(None, b"\x01\x02\x09"), "TopicRecord has versions 0, not 9"),
    ("metadata", one_record(None, b"\x01\x02\x00\x05"), "TopicRecord v0: name at byte 1 of 1: "),
    ("metadata", one_record(None, b"\x01\xff"), "bytes end at position 2, within a varint"),
    ("metadata", one_record(None, b"\x81\x00\x14\x00\x00"), "its encoding is not canonical"),
    ("consumer-offsets", one_record(b"\0", b""), "a coordinator's record has its type in the key, which is b'\\x00'"),
    ("consumer-offsets", one_record(b"\0\x63", b""), "record type 99 is unknown"),
    ("transaction-state", one_record(b"\0\0\0\x01t", b"\0"), "TransactionLogValue: 1 byte, too few"),
    ("plain", control_batch(9, b"\0\0"), "control record type UNKNOWN"),
    ("plain", control_batch(1, b"\0"), "a control record of type COMMIT has no version in its value"),
]


@pytest.mark.parametrize(("form", "data", "problem"), UNREADABLE, ids=[problem[:40] for *_, problem in UNREADABLE])
def test_contents_that_cannot_be_read_stay_bytes(run: Run, form: str, data: bytes, problem: str) -> None:
    batches, again = through_json(data, form)
    assert again == data
    (record,) = batches[0]["records"]
    assert record["problem"].startswith(problem)
    (was,) = next(records.decode(data))
    assert record["value"] == (None if was.value is None else b64encode(was.value).decode())
    code, _, err = run("records", "--as", form, "-", stdin=data)
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith(f"error: position 0, offset 0: {problem}")


@pytest.mark.parametrize(
    ("folder", "payload"),
    [("__consumer_offsets-12", "OffsetCommitKey"), ("__transaction_state-0", None), ("t-0", None)],
)
def test_the_form_of_records_follows_from_the_folder(
    run: Run, tmp_path: Path, folder: str, payload: str | None
) -> None:
    (tmp_path / folder).mkdir()
    file = tmp_path / folder / "00000000000000000000.log"
    file.write_bytes(one_record(key_of(1, OffsetCommitKey(group="g", topic="t", partition=7)), None))
    (batch,) = map(json.loads, run("records", str(file)).out.splitlines())
    assert run("records", f"@{file}") == run("records", str(file))
    key = batch["records"][0]["key"]
    assert (key["payload"] if isinstance(key, dict) else None) == payload
    (batch,) = map(json.loads, run("records", "--as", "consumer-offsets", str(file)).out.splitlines())
    assert batch["records"][0]["key"]["payload"] == "OffsetCommitKey"

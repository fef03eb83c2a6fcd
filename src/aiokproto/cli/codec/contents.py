"""Keys and values of the records in Kafka's internal topics."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any, NamedTuple

from aiokproto.cli.codec.document import (
    METADATA,
    REMOTE_LOG_METADATA,
    document_body,
    has_own_version,
    payload_document,
    read_frame,
)
from aiokproto.codec.json import to_json
from aiokproto.codec.registry import lookup
from aiokproto.errors import CodecError, DecodeError
from aiokproto.records import BatchRecord
from aiokproto.records.control import control_type, parse

PLAIN = "plain"

_GROUPS = {
    0: "LegacyOffsetCommit",
    1: "OffsetCommit",
    2: "GroupMetadata",
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    9: "ShareGroupPartitionMetadata",
    10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata",
    16: "ConsumerGroupRegularExpression",
    17: "StreamsGroupMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
}
_TRANSACTIONS = {0: "TransactionLog"}
_SHARES = {0: "ShareSnapshot", 1: "ShareUpdate"}

BY_KEY = {"consumer-offsets": _GROUPS, "transaction-state": _TRANSACTIONS, "share-state": _SHARES}
"""Record types, by the number in the record's key. The group types are Kafka 4.4's, plus type 9 from Kafka 3.9."""

# Metadata records contain their type in the value.
_BY_VALUE = {"metadata": METADATA, "remote-log-metadata": REMOTE_LOG_METADATA}

FORMS = (PLAIN, *_BY_VALUE, *BY_KEY)
"""The forms that records can be opened in."""

_TOPICS = {
    "__cluster_metadata": "metadata",
    "__remote_log_metadata": "remote-log-metadata",
    "__consumer_offsets": "consumer-offsets",
    "__transaction_state": "transaction-state",
    "__share_group_state": "share-state",
}


class Contents(NamedTuple):
    """A record's key and value as JSON: null, base64, or a document that encodes to the same bytes.

    Attributes:
        key: The key.
        value: The value.
        problem: Why the key or value is left as base64 although it should be a document. Empty if neither is.
    """

    key: Any
    value: Any
    problem: str = ""


def form_of_folder(name: str) -> str:
    """Return the form of the records in a partition's folder: ``__consumer_offsets-3`` → ``consumer-offsets``."""
    return _TOPICS.get(name.rpartition("-")[0], PLAIN)


def contents(record: BatchRecord, form: str, is_control: bool) -> Contents:
    """Open a record's key and value."""
    if is_control:
        return _opened(record, _control)
    if form in _BY_VALUE:
        return _opened(record, lambda opened: _framed(opened, _BY_VALUE[form]))
    if form in BY_KEY:
        return _opened(record, lambda opened: _keyed(opened, BY_KEY[form]))
    return Contents(_base64(record.key), _base64(record.value))


def _opened(record: BatchRecord, read: Callable[[BatchRecord], tuple[Any, Any]]) -> Contents:
    plain = Contents(_base64(record.key), _base64(record.value))
    try:
        key, value = read(record)
    except CodecError as error:
        return plain._replace(problem=str(error))
    if _round_trips(key, record.key) and _round_trips(value, record.value):
        return Contents(key, value)
    return plain._replace(problem="its encoding is not canonical: a document would not encode to the same bytes")


def _round_trips(shown: Any, data: bytes | None) -> bool:
    return document_body(shown).data == data if isinstance(shown, dict) else shown == _base64(data)


def _framed(record: BatchRecord, types: dict[int, str]) -> tuple[Any, Any]:
    if record.value is None:
        raise DecodeError("a metadata record has a value")
    frame = read_frame(record.value)
    return _base64(record.key), payload_document(lookup(_name(types, frame.type)), record.value)


def _keyed(record: BatchRecord, types: dict[int, str]) -> tuple[Any, Any]:
    if record.key is None or len(record.key) < 2:
        raise DecodeError(f"a coordinator's record has its type in the key, which is {record.key!r}")
    name = _name(types, int.from_bytes(record.key[:2], "big", signed=True))
    key = payload_document(lookup(f"{name}Key"), record.key)
    return key, None if record.value is None else payload_document(lookup(f"{name}Value"), record.value)


def _name(types: dict[int, str], number: int) -> str:
    if number not in types:
        raise DecodeError(f"record type {number} is unknown")
    return types[number]


def _control(record: BatchRecord) -> tuple[Any, Any]:
    parsed = parse(record)
    key = payload_document(lookup("ControlRecordTypeSchema"), record.key or b"")
    if parsed.value is None:
        raise DecodeError(f"control record type {control_type(record.key).name}")
    message = type(parsed.value)
    version = min(parsed.version, message.versions.highest)
    front = {} if has_own_version(message) else {"prefix": parsed.version}
    document = {"payload": message.__name__, **front, "version": version, "body": to_json(parsed.value, version)}
    # Later versions may have appended fields, which are kept as trailing bytes.
    value = record.value or b""
    rest = value[len(document_body(document).data) :]
    return key, document | ({"trailingBytes": b64encode(rest).decode()} if rest else {})


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()

"""A document: a message as JSON, with its name, its version, and the bytes that precede it when it's stored.

There are three kinds of payloads. Coordinators store values after a two-byte version, and keys after a two-byte record
type (``prefix``). Metadata records have a frame: its version, the record type and the record version, each an unsigned
varint (``frameVersion``). For the records of KRaft's control batches, the version is the first field, and there is no
prefix.
"""

from __future__ import annotations

from base64 import b64decode
from struct import Struct as Packer
from struct import error as StructError
from typing import Any, NamedTuple

from aiokproto.cli.codec.names import InputError, UsageError, checked_version, find
from aiokproto.codec.json import RecordsReader, from_json, to_json
from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import Buffer, Message, Request, Response
from aiokproto.errors import DecodeError
from aiokproto.records.varint import encode_unsigned, read_unsigned
from aiokproto.texts import counted

KINDS = ("request", "response", "payload")
"""The members of a document that can name its message."""

METADATA = {
    0: "RegisterBrokerRecord",
    1: "UnregisterBrokerRecord",
    2: "TopicRecord",
    3: "PartitionRecord",
    4: "ConfigRecord",
    5: "PartitionChangeRecord",
    6: "AccessControlRecord",
    7: "FenceBrokerRecord",
    8: "UnfenceBrokerRecord",
    9: "RemoveTopicRecord",
    10: "DelegationTokenRecord",
    11: "UserScramCredentialRecord",
    12: "FeatureLevelRecord",
    14: "ClientQuotaRecord",
    15: "ProducerIdsRecord",
    16: "RemoveFeatureLevelRecord",
    17: "BrokerRegistrationChangeRecord",
    18: "AccessControlEntryRecord",
    19: "RemoveAccessControlEntryRecord",
    20: "NoOpRecord",
    21: "ZkMigrationStateRecord",
    22: "RemoveUserScramCredentialRecord",
    23: "BeginTransactionRecord",
    24: "EndTransactionRecord",
    25: "AbortTransactionRecord",
    26: "RemoveDelegationTokenRecord",
    27: "RegisterControllerRecord",
    28: "ClearElrRecord",
    29: "UnregisterControllerRecord",
}
"""Record types of the metadata log. 6 and 16 are from Kafka before 3.3."""

REMOTE_LOG_METADATA = {
    0: "RemoteLogSegmentMetadataRecord",
    1: "RemoteLogSegmentMetadataUpdateRecord",
    2: "RemotePartitionDeleteMetadataRecord",
    3: "RemoteLogSegmentMetadataSnapshotRecord",
}
"""Record types of the remote log metadata topic, which uses the same frame (KIP-405)."""

_TYPES = {name: number for table in (METADATA, REMOTE_LOG_METADATA) for number, name in table.items()}
_KEYS = {*KINDS, "version", "prefix", "frameVersion", "header", "body", "trailingBytes"}
_FRAME_VERSION = 1
_INT16 = Packer(">h")


class Frame(NamedTuple):
    """The frame of a metadata record: its type, its version, and the position of its body."""

    type: int
    version: int
    start: int


class Body(NamedTuple):
    """The bytes of a document's body, with prefix and trailing bytes."""

    message: type[Message]
    version: int
    data: bytes


def kind_of(message: type[Message]) -> dict[str, Any]:
    """Return the member that names a message in documents."""
    if issubclass(message, Request):
        return {"request": api_name(message.api_key)}
    if issubclass(message, Response):
        return {"response": api_name(message.api_key)}
    return {"payload": message.__name__}


def has_own_version(message: type[Message]) -> bool:
    """Return whether the payload's first field is its version."""
    first = next(iter(message.fields()), None)
    return first is not None and first.name == "version" and first.kind == "int16"


def read_frame(data: Buffer) -> Frame:
    """Read the frame of a metadata record.

    Raises:
        DecodeError: The frame is truncated, or has an unknown version.
    """
    frame_version, pos = read_unsigned(data, 0)
    if frame_version != _FRAME_VERSION:
        raise DecodeError(f"frame version {frame_version} is unknown: expected {_FRAME_VERSION}")
    number, pos = read_unsigned(data, pos)
    version, pos = read_unsigned(data, pos)
    return Frame(number, version, pos)


def payload_document(message: type[Message], data: Buffer) -> dict[str, Any]:
    """Decode a stored payload, with its prefix or frame.

    Raises:
        DecodeError: Bytes are missing, invalid or left over. The message names the field.
    """
    front, version, start = _front(message, data)
    body = to_json(message.decode(memoryview(data)[start:], version), version)
    return {"payload": message.__name__, **front, "version": version, "body": body}


def _front(message: type[Message], data: Buffer) -> tuple[dict[str, int], int, int]:
    name = message.__name__
    if name in _TYPES:
        frame = read_frame(data)
        if frame.type != _TYPES[name]:
            raise DecodeError(f"record type {frame.type}, but {name} has {_TYPES[name]}")
        return {"frameVersion": _FRAME_VERSION}, frame.version, frame.start
    if len(data) < _INT16.size:
        raise DecodeError(f"{name}: {counted(len(data), 'byte')}, too few for the two-byte prefix")
    (number,) = _INT16.unpack_from(data)
    if has_own_version(message):
        return {}, number, 0
    # This is a value's version or a key's record type. Keys have only one version.
    version = message.versions.lowest if name.endswith("Key") else number
    return {"prefix": number}, version, _INT16.size


def document_body(document: dict[str, Any], records: RecordsReader | None = None) -> Body:
    """Encode a document without its header.

    Raises:
        InputError: The document doesn't name its message, or has unknown members.
        CodecError: A field is missing, unknown, or doesn't fit. The message names the field.
    """
    if unknown := sorted(set(document) - _KEYS):
        raise InputError(f"the document has unknown members: {', '.join(unknown)}")
    kind = next((kind for kind in KINDS if kind in document), None)
    if kind is None or "body" not in document:
        raise InputError("a document needs a body, and one of request, response and payload with the message's name")
    try:
        target = find(str(document[kind]))
        message = target.response() if kind == "response" else target.request()
        version = checked_version(message, str(document.get("version", "(none given)")))
    except UsageError as error:
        raise InputError(str(error)) from None
    if kind not in kind_of(message):
        raise InputError(f"{target.name} is not a {kind}")
    body = from_json(message, document["body"], version, records=records).encode(version)
    return Body(message, version, _front_bytes(document, message, version) + body + _trailing(document))


def _front_bytes(document: dict[str, Any], message: type[Message], version: int) -> bytes:
    front = b""
    if "frameVersion" in document:
        if message.__name__ not in _TYPES or document["frameVersion"] != _FRAME_VERSION:
            raise InputError(f"{message.__name__} has no frame of version {document['frameVersion']!r}")
        front = b"".join(map(encode_unsigned, (_FRAME_VERSION, _TYPES[message.__name__], version)))
    if "prefix" in document:
        try:
            front += _INT16.pack(document["prefix"])
        except StructError:
            raise InputError(f"prefix {document['prefix']!r} is not an int16") from None
    return front


def _trailing(document: dict[str, Any]) -> bytes:
    try:
        return b64decode(document.get("trailingBytes", ""), validate=True)
    except (TypeError, ValueError):
        raise InputError("trailingBytes is not base64") from None

"""Producer snapshots: ``<offset>.snapshot`` contains the producer state at that offset, in Kafka's format."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from aiokproto.broker.log.private_files import write_private
from aiokproto.broker.log.segment import SNAPSHOT
from aiokproto.codec.payloads.transactions import ProducerEntry, ProducerSnapshot
from aiokproto.errors import DecodeError
from aiokproto.records.crc import crc32c

_VERSION = struct.Struct(">h")
_VERSION_NUMBER = 1
_CRC_FROM = _VERSION.size + 4
"""The checksum covers the bytes after it."""


def path_of(directory: Path, offset: int) -> Path:
    """Return the path of the snapshot at an offset."""
    return directory / f"{offset:020}{SNAPSHOT}"


def save(directory: Path, offset: int, producers: list[ProducerEntry]) -> None:
    """Write the snapshot at an offset."""
    body = ProducerSnapshot(crc=0, producer_entries=producers).encode(_VERSION_NUMBER)
    covered = body[_CRC_FROM - _VERSION.size :]
    # The message is encoded twice because the checksum is one of its fields, and covers the rest.
    content = ProducerSnapshot(crc=crc32c(covered), producer_entries=producers).encode(_VERSION_NUMBER)
    write_private(path_of(directory, offset), _VERSION.pack(_VERSION_NUMBER) + content)


def load(directory: Path, offset: int) -> list[ProducerEntry] | None:
    """Read the snapshot at an offset; None if it is missing or damaged."""
    try:
        data = path_of(directory, offset).read_bytes()
        (version,) = _VERSION.unpack_from(data)
        # This isn't an error: if a snapshot can't be used, more of the log is replayed.
        if version != _VERSION_NUMBER:
            return None
        snapshot = ProducerSnapshot.decode(data[_VERSION.size :], version)
    except (OSError, DecodeError, struct.error):
        return None
    return snapshot.producer_entries if crc32c(data[_CRC_FROM:]) == snapshot.crc else None


def retain(directory: Path, offsets: Iterable[int]) -> None:
    """Remove all snapshots except those at the given offsets."""
    names = {path_of(directory, offset).name for offset in offsets}
    for path in directory.glob(f"*{SNAPSHOT}"):
        if path.name not in names:
            path.unlink(missing_ok=True)

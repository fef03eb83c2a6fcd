"""Records of consumer, share and streams groups in the offsets topic.

A key is an int16 record type and the payload, a value an int16 version and the payload. A group is many records: one
for the group, one for the target assignment's epoch, three for each member. A group's *image* is the newest value of
each key, which is what a reader of the compacted topic would know; comparing with it finds the records to write.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from aiokproto.codec.schema import Payload

_INT16 = struct.Struct(">h")
_VERSION = 0
"""Version of all keys and values: each has had only this one so far."""

V = TypeVar("V", bound=Payload)

Image = dict[bytes, bytes]
"""The newest value of each key of a group."""


class Keys:
    """The key classes of one type of group, by record type."""

    def __init__(self, types: Mapping[int, type[Payload]]) -> None:
        self._types = types
        self._numbers = {key: number for number, key in types.items()}

    def prefix(self, kind: type[Payload]) -> bytes:
        """Return the record type of a key class, encoded: all its keys begin with it."""
        return _INT16.pack(self._numbers[kind])

    def encode(self, key: Payload) -> bytes:
        """Encode a record's key."""
        return self.prefix(type(key)) + key.encode(_VERSION)

    def member_records(
        self, kinds: Sequence[Callable[..., Payload]], group_id: str, member_id: str, values: Sequence[bytes] | None
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """Return the records of a member, one for each key class.

        Args:
            kinds: The key classes.
            group_id: The group.
            member_id: The member.
            values: The values in the same order; None for a member that was removed: then tombstones.
        """
        tombstones: Sequence[bytes | None] = [None] * len(kinds)
        for kind, value in zip(kinds, values or tombstones, strict=True):
            yield self.encode(kind(group_id=group_id, member_id=member_id)), value

    def decode(self, key: bytes) -> Payload | None:
        """Decode a record's key; None for a record of another type."""
        found = self._types.get(_INT16.unpack_from(key)[0])
        return found.decode(key[_INT16.size :], _VERSION) if found is not None else None

    def group_of(self, key: bytes) -> str | None:
        """Return the group id in a record's key; None for a record of another type."""
        return getattr(self.decode(key), "group_id", None)


def encode_value(value: Payload) -> bytes:
    """Encode a record's value."""
    return _INT16.pack(_VERSION) + value.encode(_VERSION)


def decode_value(kind: type[V], value: bytes) -> V:
    """Decode a record's value, whose class follows from the key."""
    return kind.decode(value[_INT16.size :], _INT16.unpack_from(value)[0])


def with_epochs(
    partitions: Sequence[int], epochs: Sequence[int] | None, member_epoch: int
) -> Iterator[tuple[int, int]]:
    """Return partitions with their assignment epochs; records before KIP-1251 have none: the member epoch."""
    # Not strict: the lengths come from a log that anyone may have written.
    return zip(partitions, epochs or [member_epoch] * len(partitions), strict=False)


def update(written: Image, current: Mapping[bytes, bytes | None]) -> list[tuple[bytes, bytes | None]]:
    """Return the records that differ from those written, and update ``written``.

    Args:
        written: The image of the group in the topic.
        current: The records as they have to be; None for a tombstone. Keys that are not in it are left as they are.
    """
    # By bytes: whatever changed in memory and back needs no record.
    changed = [(key, value) for key, value in current.items() if written.get(key) != value]
    for key, value in changed:
        if value is None:
            # It is in there: a tombstone for a key that was never written equals ``written.get`` and is left out.
            del written[key]
        else:
            written[key] = value
    return changed

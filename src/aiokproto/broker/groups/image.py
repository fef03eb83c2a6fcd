"""Records of consumer, share and streams groups in the offsets topic.

A key is an int16 record type and the payload; a value is an int16 version and the payload. A group consists of many
records: one for the group, one for the target assignment's epoch, and three for each member. A group's *image* is the
newest value of each key: what a reader of the compacted topic would see. Comparing the group with its image yields the
records to write.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Protocol, TypeVar

from aiokproto.codec.schema import Payload

_INT16 = struct.Struct(">h")
_VERSION = 0
"""The version of all keys and values: there has been only one so far."""

K = TypeVar("K", bound=Payload)
V = TypeVar("V", bound=Payload)
M = TypeVar("M")
T = TypeVar("T")
M_co = TypeVar("M_co", covariant=True)
T_co = TypeVar("T_co", covariant=True)

Record = tuple[bytes, bytes | None]
"""A key and its value; None is a tombstone."""

Image = dict[bytes, bytes]
"""The newest value of each key of a group."""


class ImagedGroup(Protocol[M_co, T_co]):
    """What :meth:`Keys.member_records` needs from a group: its members, their targets, and which of them changed."""

    @property
    def group_id(self) -> str: ...

    @property
    def dirty(self) -> Set[str]: ...

    @property
    def members(self) -> Mapping[str, M_co]: ...

    @property
    def targets(self) -> Mapping[str, T_co]: ...


class Keys:
    """The key classes of one type of group, by record type."""

    def __init__(self, types: Mapping[int, type[Payload]]) -> None:
        self._types = types
        self._numbers = {key: number for number, key in types.items()}

    def prefix(self, kind: type[Payload]) -> bytes:
        """Return the encoded record type of a key class, which is the prefix of all its keys."""
        return _INT16.pack(self._numbers[kind])

    def encode(self, key: Payload) -> bytes:
        """Encode a record's key."""
        return self.prefix(type(key)) + key.encode(_VERSION)

    def member_records(
        self,
        kinds: Sequence[Callable[..., Payload]],
        group: ImagedGroup[M, T],
        encode: Callable[[M, T], Sequence[bytes]],
    ) -> Iterator[Record]:
        """Yield the records of the members in ``dirty``, and tombstones for those that were removed.

        The other members are skipped, because a heartbeat that changes one member must not encode a thousand.

        Args:
            kinds: The key classes of a member's records.
            group: The group.
            encode: Encodes a member and its target into the values of these records, in the order of ``kinds``.
        """
        for member_id in sorted(group.dirty):
            values: Sequence[bytes | None] = [None] * len(kinds)
            if member_id in group.members:
                values = encode(group.members[member_id], group.targets[member_id])
            for kind, value in zip(kinds, values, strict=True):
                yield self.encode(kind(group_id=group.group_id, member_id=member_id)), value

    def read(self, image: Mapping[bytes, bytes], kind: type[K], value_kind: type[V]) -> Iterator[tuple[K, V]]:
        """Yield the keys of one class in an image, each with its value, decoded as ``value_kind``."""
        prefix = self.prefix(kind)
        for key, value in image.items():
            if key.startswith(prefix):
                yield kind.decode(key[_INT16.size :], _VERSION), decode_value(value_kind, value)

    def decode(self, key: bytes) -> Payload | None:
        """Decode a record's key; None if the record is of another type."""
        found = self._types.get(_INT16.unpack_from(key)[0])
        return found.decode(key[_INT16.size :], _VERSION) if found is not None else None

    def group_of(self, key: bytes) -> str | None:
        """Return the group id in a record's key; None if the record is of another type."""
        return getattr(self.decode(key), "group_id", None)


def encode_value(value: Payload) -> bytes:
    """Encode a record's value."""
    return _INT16.pack(_VERSION) + value.encode(_VERSION)


def decode_value(kind: type[V], value: bytes) -> V:
    """Decode a record's value. The key determines its class."""
    return kind.decode(value[_INT16.size :], _INT16.unpack_from(value)[0])


def with_epochs(
    partitions: Sequence[int], epochs: Sequence[int] | None, member_epoch: int
) -> Iterator[tuple[int, int]]:
    """Return partitions with their assignment epochs. Records from before KIP-1251 don't contain them; the member epoch
    takes their place."""
    # This isn't strict, because anyone may have written the log and the lengths may differ.
    return zip(partitions, epochs or [member_epoch] * len(partitions), strict=False)


def update(written: Image, current: Iterable[Record]) -> list[Record]:
    """Return the records that differ from those written, and update ``written``.

    Args:
        written: The image of the group in the topic.
        current: The records that should be in the topic. Other keys stay as they are.
    """
    # Bytes are compared, so a change in memory that was undone isn't written.
    changed = [(key, value) for key, value in current if written.get(key) != value]
    for key, value in changed:
        if value is None:
            # The key is in the image, because a tombstone for a key that was never written isn't a change.
            del written[key]
        else:
            written[key] = value
    return changed

"""Partitioners: they decide which partition a record goes to (KIP-480, KIP-794)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from aiokproto.accelerator import has_compiled_form
from aiokproto.application.calls import check_not_awaitable
from aiokproto.errors import InvalidRecordError
from aiokproto.texts import repr_of

if TYPE_CHECKING:
    from aiokproto.records.columns import BytesColumn, Int64s

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
# Together these limit the cache to 1 MiB of keys.
_CACHED_KEYS = 8192
_LONGEST_CACHED_KEY = 128


class Partitioner(Protocol):
    """A custom partitioner: any callable with this signature.

    It is called in the event loop for each record without a partition, so it must not block.
    """

    def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[int], available: Sequence[int], /
    ) -> int | None:
        """Choose a partition.

        Args:
            topic: The topic's name.
            key: The record's key.
            value: The record's value.
            partitions: All partitions of the topic, ``0`` to ``n - 1``.
            available: Partitions that currently have a leader; can be empty.

        Returns:
            One of ``partitions``, or None to let the producer choose, as it does by default for a record without a key.
        """
        ...


@has_compiled_form
def murmur2(data: bytes) -> int:
    """Return the 32-bit murmur2 hash of ``data``, signed as in Java. The Java client uses it to partition keys.

    >>> murmur2(b"21")
    -973932308
    """
    h = _murmur2(data)
    return h - 0x100000000 if h > 0x7FFFFFFF else h


def _murmur2(data: bytes) -> int:
    length = len(data)
    whole = length >> 2
    h = _SEED ^ length
    for k in struct.unpack_from(f"<{whole}I", data):
        k = k * _M & _MASK
        h = (h * _M ^ (k ^ k >> 24) * _M) & _MASK
    tail = data[whole << 2 :]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def _positive_hash(key: bytes) -> int:
    # Java's toPositive() masks the sign bit. If it were negated instead, keys would go to different partitions.
    return _murmur2(key) & 0x7FFFFFFF


_cached_hash = lru_cache(maxsize=_CACHED_KEYS)(_positive_hash)


@has_compiled_form
def key_hash(key: bytes) -> int:
    """Return the positive hash of a key. As in Java, this modulo the number of partitions is the key's partition.

    Recent hashes are cached: streams repeat their keys, and hashing costs more than the rest of an append.
    """
    return _cached_hash(key) if len(key) <= _LONGEST_CACHED_KEY else _positive_hash(key)


@has_compiled_form
def key_hashes(keys: BytesColumn) -> Int64s:
    """Return the hash of each key in a column. The hash of a null key is arbitrary."""
    import numpy as np

    return np.fromiter((key_hash(keys[row] or b"") for row in range(len(keys))), np.int64, len(keys))


def check_partition(partition: object, topic: str, count: int, chosen_by: str = "") -> int:
    """Return ``partition`` if the topic has it.

    Raises:
        InvalidRecordError: It isn't an int from 0 to ``count - 1``. The message includes ``chosen_by``.
    """
    # bool is a subclass of int, so True would be partition 1.
    if not isinstance(partition, int) or isinstance(partition, bool):
        check_not_awaitable(partition, "partitioner")
        raise InvalidRecordError(f"topic {topic!r}: {chosen_by}partition must be an int, got {repr_of(partition)}")
    if not 0 <= partition < count:
        has = "only partition 0" if count == 1 else f"partitions 0 to {count - 1}"
        raise InvalidRecordError(f"{chosen_by}partition {partition} does not exist: topic {topic!r} has {has}")
    return partition

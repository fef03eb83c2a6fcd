"""Partitioners by name, so that keys go where clients in other languages put them.

The names, and every hash, are librdkafka's (its option ``partitioner``); ``round_robin`` is Java's
RoundRobinPartitioner. ``…_random`` treats records without a key as the default partitioner does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

from aiokproto.producer.config import PartitionerName
from aiokproto.producer.partitioner import Partitioner, key_hash
from aiokproto.runtime import current

_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193
_MASK = 0xFFFFFFFF
_SIGN = 0x80000000


def fnv1a(key: bytes) -> int:
    """Return the absolute value of the signed 32-bit FNV-1a hash of a key, as librdkafka and Sarama compute it."""
    h = _FNV_OFFSET
    for byte in key:
        h = (h ^ byte) * _FNV_PRIME & _MASK
    return (1 << 32) - h if h & _SIGN else h


class KeyHashPartitioner:
    """The partition is the hash of the key modulo the number of partitions."""

    def __init__(self, key_hash: Callable[[bytes], int], without_key: Callable[[bytes | None], bool] | None) -> None:
        """Create a partitioner.

        Args:
            key_hash: The hash function; its results are not negative.
            without_key: Returns whether a record counts as one without a key, whose partition the producer chooses.
                None: a missing key is an empty one.
        """
        self._hash = key_hash
        self._without_key = without_key

    def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[int], available: Sequence[int], /
    ) -> int | None:
        if self._without_key is not None and self._without_key(key):
            return None
        # The hash counts all partitions, with or without a leader, because a key must not move while a broker is down.
        return self._hash(key or b"") % len(partitions)


def random_partition(
    topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[int], available: Sequence[int], /
) -> int:
    """Choose a random partition for each record, whatever its key: one that has a leader, if any has."""
    return current().random.choice(available or partitions)


def ignore_keys(
    topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[int], available: Sequence[int], /
) -> None:
    """Treat every record as one without a key (``partitioner_ignore_keys``, KIP-794)."""
    return


MAX_TOPICS = 10_000
"""Most topics whose turns are counted, because a partitioner doesn't learn which topics were deleted."""


class RoundRobinPartitioner:
    """One partition after the other, whatever the key is: only partitions with a leader, if any has one.

    It counts for the newest :data:`MAX_TOPICS` topics, and starts again with the others.
    """

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}

    def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[int], available: Sequence[int], /
    ) -> int:
        turn = self._turns.get(topic, -1) + 1
        if not turn and len(self._turns) >= MAX_TOPICS:
            del self._turns[next(iter(self._turns))]
        self._turns[topic] = turn
        candidates = available or partitions
        return candidates[turn % len(candidates)]


def _is_none(key: bytes | None) -> bool:
    return key is None


def _is_empty(key: bytes | None) -> bool:
    # librdkafka treats an empty key like a missing one in consistent_random alone.
    return not key


_MAKE: dict[PartitionerName, Callable[[], Partitioner]] = {
    "murmur2": lambda: KeyHashPartitioner(key_hash, None),
    "consistent_random": lambda: KeyHashPartitioner(crc32, _is_empty),
    "consistent": lambda: KeyHashPartitioner(crc32, None),
    "fnv1a_random": lambda: KeyHashPartitioner(fnv1a, _is_none),
    "fnv1a": lambda: KeyHashPartitioner(fnv1a, None),
    "random": lambda: random_partition,
    "round_robin": RoundRobinPartitioner,
}


def by_name(name: PartitionerName) -> Partitioner | None:
    """Return a new partitioner, or None for the default one, which the producer implements itself."""
    return _MAKE[name]() if name in _MAKE else None

"""Partitioners by name. With these, keys go to the same partitions as with clients in other languages.

The names and hashes are librdkafka's (its option ``partitioner``), except ``round_robin``, which is Java's
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
    """A partitioner that takes the hash of the key modulo the number of partitions."""

    def __init__(self, key_hash: Callable[[bytes], int], without_key: Callable[[bytes | None], bool] | None) -> None:
        """Create a partitioner.

        Args:
            key_hash: The hash function. It never returns a negative number.
            without_key: Returns whether a record counts as one without a key, for which the producer chooses a
                partition. If this is None, a missing key is hashed as an empty key.
        """
        self._hash = key_hash
        self._without_key = without_key

    def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[int], available: Sequence[int], /
    ) -> int | None:
        if self._without_key is not None and self._without_key(key):
            return None
        # The modulus counts all partitions, with or without a leader: a key must not move while a broker is down.
        return self._hash(key or b"") % len(partitions)


def random_partition(
    topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[int], available: Sequence[int], /
) -> int:
    """Choose a random partition for each record, whatever its key. Prefers partitions that have a leader."""
    return current().random.choice(available or partitions)


def ignore_keys(
    topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[int], available: Sequence[int], /
) -> None:
    """Treat every record as one without a key (``partitioner_ignore_keys``, KIP-794)."""
    return


MAX_TOPICS = 10_000
"""Maximum number of topics whose turns are counted. A partitioner isn't notified when topics are deleted."""


class RoundRobinPartitioner:
    """Takes the partitions in turn, whatever the key is. Skips partitions without a leader if any partition has one.

    It counts turns for the newest :data:`MAX_TOPICS` topics, and starts over for older topics.
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
    # In librdkafka, only consistent_random treats an empty key like a missing one.
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

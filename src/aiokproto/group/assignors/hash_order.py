"""The order in which Java's hash tables iterate, as far as an assignment depends on it.

The Java client holds members and topics in a ``HashMap``, and the first one there has an advantage: it keeps one
partition more, or wins a disputed claim. Leaders written in different languages must agree on that, so the order is
computed here. It depends on ``String.hashCode`` and the size of the table: keys are in the order of their buckets, and
within a bucket in the order in which they were added. (Java turns a bucket of nine keys into a tree. That takes keys
that were made to collide; assignments are valid then, but not Java's.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from aiokproto.group.assignors.base import Members, different_topics

_SMALLEST = 16
_MASK = 0xFFFFFFFF


def string_hash(text: str) -> int:
    """Return ``String.hashCode()`` as an unsigned number: over the UTF-16 units of the text."""
    result = 0
    if text.isascii():
        for unit in text.encode():
            result = (31 * result + unit) & _MASK
        return result
    data = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(data[::2], data[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & _MASK
    return result


def partition_hash(topic_hash: int, partition: int) -> int:
    """Return ``TopicPartition.hashCode()``, from the hash of the topic's name."""
    return (31 * (31 + partition) + topic_hash) & _MASK


def bucket(code: int, capacity: int) -> int:
    """Return the number of the bucket for a hash code."""
    return (code ^ code >> 16) & (capacity - 1)


def capacity_for(size: int, capacity: int = _SMALLEST) -> int:
    """Return the number of buckets once a table of ``capacity`` has grown to ``size`` keys: it is full at 3/4."""
    while size * 4 > capacity * 3:
        capacity *= 2
    return capacity


def hash_order(keys: Collection[str]) -> list[str]:
    """Return different keys in the order of a table to which they were added one by one."""
    capacity = capacity_for(len(keys))
    return sorted(keys, key=lambda key: bucket(string_hash(key), capacity))


def computed_order(keys: Collection[str]) -> list[str]:
    """Return different keys in the order of a table to which they were added by ``computeIfAbsent``.

    That puts a key at the head of its bucket, and lets the table grow one key later.
    """
    capacity = capacity_for(len(keys) - 1)
    latest_first = list(keys)[::-1]
    return sorted(latest_first, key=lambda key: bucket(string_hash(key), capacity))


def string_order(text: str) -> bytes:
    """Return the key for sorting as ``String.compareTo``: by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def topic_order(partitions: Iterable[str], members: Members) -> list[str]:
    """Return the topics that exist and are subscribed, in the order in which Java's assignors go through them."""
    in_order = different_topics(members[member] for member in hash_order(members))
    named = dict.fromkeys(topic for topics in in_order for topic in topics)
    existing = set(partitions)
    return hash_order([topic for topic in hash_order(named) if topic in existing])


def member_order(members: Members) -> list[str]:
    """Return member ids as range and roundrobin sort them: static members first, by instance id (KIP-345).

    So a static member keeps its position when it restarts with another member id.
    """

    def key(member: str) -> tuple[bool, bytes]:
        instance = members[member].group_instance_id
        return instance is None, string_order(member if instance is None else instance)

    return sorted(members, key=key)

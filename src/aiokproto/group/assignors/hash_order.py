"""The iteration order of Java's hash tables, which assignments depend on.

The Java client keeps members and topics in a ``HashMap``, and the first one in it has an advantage: it keeps one
partition more, or wins a disputed claim. Leaders written in different languages must agree on that, so the order is
computed here. It depends on ``String.hashCode`` and the size of the table: keys are ordered by bucket, and within a
bucket by when they were added. (Java turns a bucket of nine keys into a tree. That only happens with keys crafted to
collide; in that case, the assignment is valid but differs from Java's.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from aiokproto.group.assignors.base import Members, different_topics

_SMALLEST = 16
_MASK = 0xFFFFFFFF


def string_hash(text: str) -> int:
    """Return ``String.hashCode()`` as an unsigned number. It's computed over the UTF-16 code units of the text."""
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
    """Return the bucket number for a hash code."""
    return (code ^ code >> 16) & (capacity - 1)


def capacity_for(size: int, capacity: int = _SMALLEST) -> int:
    """Return the number of buckets once a table of ``capacity`` has grown to ``size`` keys. A table grows when it's 3/4
    full."""
    while size * 4 > capacity * 3:
        capacity *= 2
    return capacity


def hash_order(keys: Collection[str]) -> list[str]:
    """Return distinct keys in the order of a table that they were added to one at a time."""
    capacity = capacity_for(len(keys))
    return sorted(keys, key=lambda key: bucket(string_hash(key), capacity))


def computed_order(keys: Collection[str]) -> list[str]:
    """Return distinct keys in the order of a table that they were added to with ``computeIfAbsent``.

    This puts a key at the head of its bucket, and makes the table grow one key later.
    """
    capacity = capacity_for(len(keys) - 1)
    latest_first = list(keys)[::-1]
    return sorted(latest_first, key=lambda key: bucket(string_hash(key), capacity))


def string_order(text: str) -> bytes:
    """Return a sort key that orders like ``String.compareTo``: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def topic_order(partitions: Iterable[str], members: Members) -> list[str]:
    """Return the topics that exist and are subscribed, in the order that Java's assignors process them."""
    in_order = different_topics(members[member] for member in hash_order(members))
    named = dict.fromkeys(topic for topics in in_order for topic in topics)
    existing = set(partitions)
    return hash_order([topic for topic in hash_order(named) if topic in existing])


def member_order(members: Members) -> list[str]:
    """Return member ids in the sort order of range and roundrobin: static members first, by instance id (KIP-345).

    So a static member keeps its position when it restarts with a new member id.
    """

    def key(member: str) -> tuple[bool, bytes]:
        instance = members[member].group_instance_id
        return instance is None, string_order(member if instance is None else instance)

    return sorted(members, key=key)

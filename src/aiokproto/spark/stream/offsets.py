"""The offset of a stream, as Spark stores it in the query's checkpoint. Pure.

Spark stores the end of each batch before it plans the batch, and nothing else of a Python source: not the initial
offset. If the first batch fails, a query that is started again requests the initial offset again, and would miss what
was written in between. So the end of a batch also has the *begin* of each partition that the offset before it does not
have: of all in the first batch, and later of new ones. A retried batch then reads the same records. For the same reason
a query has a first batch even if there are no records yet.

With topic ids and leader epochs, a query that is started again finds a topic that was created again, and a log that was
truncated, instead of reading other records at the same offsets.

::

    {"aiokproto": 1,
     "topics": {"flights": {"0": 120, "1": 80}},
     "begins": {"flights": {"0": 0, "1": 0}},
     "epochs": {"flights": {"0": [[3, 100]]}},
     "ids": {"flights": "5f1c…"}}

A checkpoint of Spark's own connector has ``{"flights": {"0": 120, "1": 80}}``, and is accepted: a query continues where
it ended there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiokproto.errors import KafkaError
from aiokproto.spark.option_table import INT64_MAX, shorten
from aiokproto.spark.positions import Epochs, Position, as_epochs
from aiokproto.types import TopicPartition

T = TypeVar("T")

VERSION = 1
_KEY = "aiokproto"


class CheckpointError(KafkaError):
    """A checkpoint has an offset that this version cannot read, or that belongs to another source."""


@dataclass(frozen=True)
class StreamOffset:
    """The end of a batch.

    Attributes:
        offsets: The offset after the last one of each partition.
        begins: Where partitions begin that the offset before this one does not have.
        moved: Where partitions begin in place of the offset before this one: records were lost there, and
            ``failOnDataLoss`` is off.
        epochs: The last leader epochs of the records before these offsets, each with its first offset, where known.
        topic_ids: The topics' ids, in hex, where known.
        initial: Whether it is where a query starts, not the end of a batch. Spark does not store such an offset, and
            requests it again for a first batch that it repeats.
    """

    offsets: Mapping[TopicPartition, int]
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)
    moved: Mapping[TopicPartition, int] = field(default_factory=dict)
    epochs: Mapping[TopicPartition, Epochs] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    initial: bool = False

    def position(self, partition: TopicPartition) -> Position:
        """Return the position in a partition that this offset has."""
        return Position(self.offsets[partition], self.epochs.get(partition, ()))

    def begin(self, partition: TopicPartition, before: StreamOffset) -> int | None:
        """Return where a batch that ends here begins in a partition; None if neither offset says so.

        Args:
            partition: The partition.
            before: The end of the batch before, or an initial offset.
        """
        if partition in self.moved:
            return self.moved[partition]
        if not before.initial and partition in before.offsets:
            return before.offsets[partition]
        return self.begins.get(partition)

    def as_json(self) -> dict[str, Any]:
        """Return it as Spark takes it. Equal offsets have equal texts: Spark compares these."""
        parts: dict[str, Any] = {_KEY: VERSION, "topics": _by_topic(self.offsets)}
        for name, begins in (("begins", self.begins), ("moved", self.moved)):
            if begins:
                parts[name] = _by_topic(begins)
        if self.epochs:
            parts["epochs"] = _by_topic(
                {one: [list(entry) for entry in epochs] for one, epochs in self.epochs.items() if epochs}
            )
        if self.topic_ids:
            parts["ids"] = dict(sorted(self.topic_ids.items()))
        if self.initial:
            parts["initial"] = True
        return parts


def parse_offset(given: Mapping[str, Any]) -> StreamOffset:
    """Parse what :meth:`StreamOffset.as_json` returns, or an offset of Spark's own connector.

    Raises:
        CheckpointError: It is neither.
    """
    if _KEY not in given:
        return StreamOffset(_parts("offset", given, _offset))
    version = given[_KEY]
    if version != VERSION:
        raise CheckpointError(
            f"the checkpoint has an offset of version {shorten(version)}; this version of aiokproto reads {VERSION}"
        )
    ids = given.get("ids", {})
    if not isinstance(ids, dict) or not all(isinstance(value, str) for value in ids.values()):
        raise CheckpointError(f"the checkpoint has ids={shorten(ids)}: expected text for each topic")
    return StreamOffset(
        offsets=_parts("topics", given.get("topics"), _offset),
        begins=_parts("begins", given.get("begins", {}), _offset),
        moved=_parts("moved", given.get("moved", {}), _offset),
        epochs=_parts("epochs", given.get("epochs", {}), _epochs),
        topic_ids=ids,
        initial=given.get("initial", False) is True,
    )


def _by_topic(parts: Mapping[TopicPartition, Any]) -> dict[str, dict[str, Any]]:
    topics: dict[str, dict[str, Any]] = {}
    for partition, value in sorted(parts.items()):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = value
    return topics


def _parts(name: str, given: object, read: Callable[[object], T]) -> dict[TopicPartition, T]:
    found: dict[TopicPartition, T] = {}
    if not isinstance(given, dict):
        raise CheckpointError(f"the checkpoint has {name}={shorten(given)}: expected an object of topics")
    for topic, partitions in given.items():
        if not isinstance(partitions, dict):
            raise CheckpointError(
                f"the checkpoint is none of a Kafka source: in its {name}, {shorten(topic)} is {shorten(partitions)}, "
                "not an object of partitions"
            )
        for partition, value in partitions.items():
            try:
                found[TopicPartition(topic, int(partition))] = read(value)
            except (TypeError, ValueError):
                raise CheckpointError(
                    f"the checkpoint has an invalid {name} for partition {shorten(partition)} of topic {topic}: "
                    f"{shorten(value)}"
                ) from None
    return found


def _offset(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= INT64_MAX:
        raise ValueError
    return value


def _epochs(value: object) -> Epochs:
    if not isinstance(value, list):
        raise ValueError
    return as_epochs(value)

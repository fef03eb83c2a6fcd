"""The offset of a stream, as Spark stores it in the query's checkpoint. Pure.

Spark stores the end of each batch before it plans the batch. It stores nothing else for a Python source, not even the
initial offset. If the first batch fails, a query that is started again requests the initial offset again, and would
miss the records that were written in between. So the end of a batch also contains the *start* of each partition that
isn't in the previous offset: in the first batch all partitions, later only new ones. A retried batch then reads the
same records. For the same reason a query runs a first batch even if there are no records yet.

The topic ids and leader epochs let a query that is started again notice that a topic was created again, or a log was
truncated. It would otherwise read other records at the same offsets.

::

    {"aiokproto": 1,
     "topics": {"flights": {"0": 120, "1": 80}},
     "begins": {"flights": {"0": 0, "1": 0}},
     "epochs": {"flights": {"0": [[3, 100]]}},
     "ids": {"flights": "5f1c…"}}

A checkpoint of Spark's own connector has ``{"flights": {"0": 120, "1": 80}}``. It's accepted, and the query continues
where it ended there.
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
    """A checkpoint has an offset that this version can't read, or that belongs to another source."""


@dataclass(frozen=True)
class StreamOffset:
    """The end of a batch.

    Attributes:
        offsets: For each partition, the offset after its last one.
        starts: Where the batch starts in partitions that the previous offset doesn't contain.
        moved: Where the batch starts in partitions that lost records, instead of at the previous offset. Used only if
            ``failOnDataLoss`` is off.
        epochs: The last leader epochs of the records before these offsets, each with its first offset, if known.
        topic_ids: The topics' ids, in hex, if known.
        initial: Whether it's where a query starts, not the end of a batch. Spark doesn't store such an offset, and
            requests it again when it repeats the first batch.
    """

    offsets: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    moved: Mapping[TopicPartition, int] = field(default_factory=dict)
    epochs: Mapping[TopicPartition, Epochs] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    initial: bool = False

    def position(self, partition: TopicPartition) -> Position:
        """Return this offset's position in a partition."""
        return Position(self.offsets[partition], self.epochs.get(partition, ()))

    def start_of(self, partition: TopicPartition, before: StreamOffset) -> int | None:
        """Return where a batch that ends here starts in a partition; None if neither offset says so.

        Args:
            partition: The partition.
            before: The end of the previous batch, or an initial offset.
        """
        if partition in self.moved:
            return self.moved[partition]
        if not before.initial and partition in before.offsets:
            return before.offsets[partition]
        return self.starts.get(partition)

    def as_json(self) -> dict[str, Any]:
        """Return it in the form that Spark takes. Spark compares the JSON texts, so equal offsets have equal texts."""
        parts: dict[str, Any] = {_KEY: VERSION, "topics": _by_topic(self.offsets)}
        for name, starts in (("begins", self.starts), ("moved", self.moved)):
            if starts:
                parts[name] = _by_topic(starts)
        if self.epochs:
            parts["epochs"] = _by_topic(
                {partition: [list(entry) for entry in epochs] for partition, epochs in self.epochs.items() if epochs}
            )
        if self.topic_ids:
            parts["ids"] = dict(sorted(self.topic_ids.items()))
        if self.initial:
            parts["initial"] = True
        return parts


def parse_offset(given: Mapping[str, Any]) -> StreamOffset:
    """Parse what :meth:`StreamOffset.as_json` returns, or an offset of Spark's own connector.

    Raises:
        CheckpointError: The text is neither.
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
        starts=_parts("begins", given.get("begins", {}), _offset),
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

"""What a load writes down of itself: which offsets its files hold. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from aiokproto.errors import KafkaError
from aiokproto.spark.loads.columns import Columns
from aiokproto.types import TopicPartition

FORMAT = 3

Epochs = tuple[tuple[int, int], ...]
"""Leader epochs that have records, each with the first offset it has."""


class ManifestError(KafkaError):
    """A manifest cannot be read, or does not fit the ones before it."""


@dataclass(frozen=True)
class Divergence:
    """Where a log no longer holds what was loaded from it, as after an unclean leader election.

    Attributes:
        offset: The first offset that is not the record that was loaded.
        end: The offset up to which had been loaded: what lies between is lost to Kafka, and only in the output.
        epoch: The leader epoch in which ``end`` was the end of the log.
        found_epoch: The epoch the log had at ``offset``; -1 if the leader could not tell.
    """

    offset: int
    end: int
    epoch: int
    found_epoch: int


@dataclass(frozen=True)
class Position:
    """How far a partition was loaded.

    Attributes:
        offset: The offset after the last one.
        epochs: The leader epochs of what was loaded, each with its first offset, in order: the last ones of them.
            Empty if unknown.
    """

    offset: int
    epochs: Epochs = ()

    def cut(self, offset: int) -> Position:
        """That of a log that ends here."""
        return Position(offset, tuple(entry for entry in self.epochs if entry[1] < offset))

    @property
    def epoch(self) -> int:
        """The leader epoch of the last record; -1 if unknown."""
        return self.epochs[-1][0] if self.epochs else -1


@dataclass(frozen=True)
class LoadedPartition:
    """What a load holds of a partition.

    Attributes:
        topic: The topic.
        topic_id: Its id, in hex.
        partition: The partition.
        start: The first offset to be read.
        end: The offset after the last one to be read; the next load starts there.
        leader_epoch: The leader epoch in which ``end`` was found; -1 if unknown.
        epochs: The leader epochs in which the records between ``start`` and ``end`` were written.
        rows: Rows written.
        first_offset: The first offset among them, None without rows.
        last_offset: The last one.
        after: The position that it was planned from; None if no load had read the partition. It fits no other.
        diverged: Where ``start`` lies before the end of the load before, why.
    """

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    leader_epoch: int = -1
    epochs: Epochs = ()
    rows: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    after: Position | None = None
    diverged: Divergence | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True)
class Manifest:
    """One committed attempt at a load.

    Attributes:
        number: Its place in the sequence of commits, from 1.
        run_id: The load's name, the same for each attempt: the number of its first manifest, a dash, and a token.
        attempt: 1, and one more each time that the load is run again.
        replaces: The number of the attempt that this one replaces, None for the first.
        cluster_id: The cluster's id.
        data: The directory of its files, relative to the output. No other attempt has it.
        files: The names of its files in there. Others that are there do not count, and none is looked for by a list.
        created: When it was committed, ISO 8601, UTC.
        read_committed: Whether only committed records were read.
        include_headers: Whether there is a column with the headers.
        source_rows: Records read, before any transformation.
        partitions: What was read.
        columns: The columns of its files.
        replaced_columns: Those of the attempt that it replaces.
    """

    number: int
    run_id: str
    attempt: int
    replaces: int | None
    cluster_id: str | None
    data: str
    files: tuple[str, ...]
    created: str
    read_committed: bool
    include_headers: bool
    source_rows: int
    partitions: tuple[LoadedPartition, ...]
    columns: Columns = field(default_factory=dict)
    replaced_columns: Columns = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows written, of all partitions."""
        return sum(one.rows for one in self.partitions)

    @property
    def paths(self) -> list[str]:
        """Its files, relative to the output."""
        return [f"{self.data}/{name}" for name in self.files]

    def numbered(self, number: int) -> Manifest:
        """The same at another place in the sequence, where a first attempt gives the load its name."""
        if self.replaces is not None:
            return replace(self, number=number)
        token = self.run_id.rpartition("-")[2]
        return replace(self, number=number, run_id=f"{number:06}-{token}")

    def as_json(self) -> dict[str, Any]:
        """What JSON has of it."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def of_json(cls, fields: dict[str, Any], name: str) -> Manifest:
        """Take what JSON has.

        Raises:
            ManifestError: It is something else, or of another format; ``name`` says which file it stands in.
        """
        try:
            fields = dict(fields)
            found = fields.pop("format")
            if found != FORMAT:
                raise ManifestError(f"manifest {name} has format {found}, this version reads {FORMAT}")
            fields["files"] = tuple(fields["files"])
            fields["partitions"] = tuple(_partition(dict(one)) for one in fields["partitions"])
            return cls(**fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ManifestError(f"manifest {name} cannot be read: {error!r}") from error

    def to_text(self) -> bytes:
        """Its file."""
        return (json.dumps(self.as_json(), indent=1) + "\n").encode()

    @classmethod
    def from_text(cls, text: bytes, name: str) -> Manifest:
        """Read its file.

        Raises:
            ManifestError: See :meth:`of_json`.
        """
        try:
            return cls.of_json(json.loads(text), name)
        except ValueError as error:
            raise ManifestError(f"manifest {name} cannot be read: {error}") from error


def _partition(fields: dict[str, Any]) -> LoadedPartition:
    if (diverged := fields.pop("diverged")) is not None:
        diverged = Divergence(**diverged)
    if (after := fields.pop("after")) is not None:
        after = Position(after["offset"], as_epochs(after["epochs"]))
    return LoadedPartition(**{**fields, "epochs": as_epochs(fields["epochs"])}, after=after, diverged=diverged)


def as_epochs(found: Iterable[tuple[int, int]]) -> Epochs:
    """What JSON has as lists."""
    return tuple((int(epoch), int(first)) for epoch, first in found)

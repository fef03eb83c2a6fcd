"""Manifests describe committed loads, with their files and offsets. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from dataclasses import fields as fields_of
from typing import Any, TypeVar

from aiokproto.errors import KafkaError
from aiokproto.spark.loads.columns import Columns
from aiokproto.spark.positions import Divergence, Epochs, Position, as_epochs
from aiokproto.types import TopicPartition

FORMAT = 3

_TYPES: dict[Any, tuple[type, ...]] = {
    "int": (int,),
    "int | None": (int, type(None)),
    "str": (str,),
    "str | None": (str, type(None)),
    "bool": (bool,),
    "Columns": (dict,),
}
"""The types of values in JSON, by annotation. Fields with other annotations have parsers of their own."""

T = TypeVar("T", "Manifest", "LoadedPartition")


class ManifestError(KafkaError):
    """A manifest can't be read, or doesn't follow the earlier ones."""


@dataclass(frozen=True)
class LoadedPartition:
    """A partition's part of a load.

    Attributes:
        topic: The topic.
        topic_id: The topic's id, in hex.
        partition: The partition.
        start: The first offset to read.
        end: The offset after the last one to read. The next load starts there.
        leader_epoch: The leader epoch of ``end``; -1 if unknown.
        epochs: The leader epochs of the records between ``start`` and ``end``.
        rows: Rows written.
        first_offset: The smallest offset of the rows; None if there are no rows.
        last_offset: The largest offset of the rows; None if there are no rows.
        after: The position that the range was planned from; None if no load had read the partition. The load can be
            committed only while the partition has this position.
        diverged: The truncation, if ``start`` is before the end of the last load.
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
        number: The number of its commit, starting at 1.
        run_id: The load's name, the same for each attempt: the number of its first manifest, a dash, and a token.
        attempt: The number of the attempt: 1 for the load itself, and one more for each rerun.
        replaces: The number of the manifest that this one replaces; None for a first attempt.
        cluster_id: The cluster's id.
        data: The directory of its files, relative to the output. No other attempt uses it.
        files: The names of its files in ``data``. Other files there are ignored.
        created: The time of the load, ISO 8601, UTC. Reruns keep it.
        read_committed: Whether only committed records were read.
        include_headers: Whether there is a column with the headers.
        source_rows: Records read, before any transformation.
        partitions: The ranges that were read, with their counts.
        columns: The columns of its files.
        replaced_columns: The columns of the attempt that it replaces.
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
    def title(self) -> str:
        """The load's name in errors. Before its commit a first attempt has no number."""
        return "this load" if self.run_id.startswith("-") else f"run {self.run_id}"

    @property
    def rows(self) -> int:
        """Rows written, in all partitions."""
        return sum(loaded.rows for loaded in self.partitions)

    @property
    def paths(self) -> list[str]:
        """The paths of its files, relative to the output."""
        return [f"{self.data}/{name}" for name in self.files]

    def numbered(self, number: int) -> Manifest:
        """Return the manifest with another number. The number of a first attempt is part of the ``run_id``, too."""
        if self.replaces is not None:
            return replace(self, number=number)
        token = self.run_id.rpartition("-")[2]
        return replace(self, number=number, run_id=f"{number:06}-{token}")

    def as_json(self) -> dict[str, Any]:
        """Return the manifest as JSON values."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def of_json(cls, fields: dict[str, Any], name: str) -> Manifest:
        """Create a manifest from JSON values.

        Raises:
            ManifestError: The values aren't a manifest, or have another format. The message names the file, ``name``.
        """
        try:
            fields = dict(fields)
            found = fields.pop("format")
            if found != FORMAT:
                raise ManifestError(f"manifest {name} has format {found}; this version reads {FORMAT}")
            fields["files"] = tuple(fields["files"])
            fields["partitions"] = tuple(_partition(dict(partition)) for partition in fields["partitions"])
            return _checked(cls(**fields))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ManifestError(f"manifest {name} cannot be read: {error!r}") from error

    def to_text(self) -> bytes:
        """Return the content of its file."""
        return (json.dumps(self.as_json(), indent=1) + "\n").encode()

    @classmethod
    def from_text(cls, text: bytes, name: str) -> Manifest:
        """Parse the content of a manifest's file.

        Raises:
            ManifestError: See :meth:`of_json`.
        """
        try:
            return cls.of_json(json.loads(text), name)
        except (ValueError, RecursionError) as error:
            raise ManifestError(f"manifest {name} cannot be read: {error}") from error


def _partition(fields: dict[str, Any]) -> LoadedPartition:
    if (diverged := fields.pop("diverged")) is not None:
        diverged = Divergence(**diverged)
    if (after := fields.pop("after")) is not None:
        after = Position(after["offset"], as_epochs(after["epochs"]))
    return _checked(
        LoadedPartition(**{**fields, "epochs": as_epochs(fields["epochs"])}, after=after, diverged=diverged)
    )


def _checked(found: T) -> T:
    """Return a dataclass instance after checking the types of its simple fields."""
    for spec in fields_of(found):
        value = getattr(found, spec.name)
        if type(value) not in _TYPES.get(spec.type, (type(value),)):
            raise ValueError(f"{spec.name} is {value!r}, expected {spec.type}")
    return found

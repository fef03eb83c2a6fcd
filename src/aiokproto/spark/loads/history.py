"""The state of an output after a sequence of manifests, and the rules for the manifest that may follow. Pure.

A manifest that :meth:`History.then` accepts contains only records that no earlier manifest contains. So a load calls it
before each try to commit, and again if another load has committed first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokproto.spark.loads.columns import describe, incompatible_type
from aiokproto.spark.loads.manifest import LoadedPartition, Manifest, ManifestError
from aiokproto.spark.positions import Epochs, Position, as_epochs
from aiokproto.types import TopicPartition

FORMAT = 2

MAX_EPOCHS = 16
"""Number of leader epochs that are kept per partition. Truncation affects the end of a log, so the last ones are
enough."""

NO_ID = "0" * 32
"""The id of topics on brokers before 2.8. A topic gets a real id when the cluster is upgraded."""


class ConflictError(ManifestError):
    """A manifest conflicts with one that another load has committed, so it wasn't committed."""


class SchemaError(ManifestError):
    """A column's type differs from its type in the committed files. Nothing was committed."""


@dataclass(frozen=True)
class History:
    """The state of an output after its last manifest.

    Attributes:
        number: The number of the last manifest, 0 before the first.
        cluster_id: The id of the cluster.
        topic_ids: The ids of the topics that were read, in hex.
        positions: The position of each partition, where the next load starts.
        current: ``run_id`` of a load → number of its current manifest, for loads that were rerun.
        columns: The columns of the current files: name → type → number of loads with this type.
    """

    number: int = 0
    cluster_id: str | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    positions: Mapping[TopicPartition, Position] = field(default_factory=dict)
    current: Mapping[str, int] = field(default_factory=dict)
    columns: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def then(self, manifest: Manifest) -> History:
        """Return the history with one more manifest.

        Raises:
            ConflictError: Some of its records are loaded already, or the attempt that it replaces isn't the current
                one, or its cluster or topic isn't the one that was loaded before.
            ManifestError: Its number isn't the next one.
            SchemaError: See :meth:`with_columns`.
        """
        if manifest.number != self.number + 1:
            raise ManifestError(f"manifest {manifest.number} cannot follow manifest {self.number}")
        if manifest.replaces is not None:
            return self._replaced(manifest)
        if self.cluster_id is not None and manifest.cluster_id != self.cluster_id:
            raise ConflictError(
                f"{manifest.title} has records of cluster {manifest.cluster_id}, expected {self.cluster_id}"
            )
        topic_ids, positions = dict(self.topic_ids), dict(self.positions)
        for loaded in manifest.partitions:
            known = topic_ids.setdefault(loaded.topic, loaded.topic_id)
            if NO_ID not in (known, loaded.topic_id) and known != loaded.topic_id:
                raise ConflictError(
                    f"{manifest.title} has records of another topic {loaded.topic}: its id is {loaded.topic_id}, "
                    f"expected {known}"
                )
            if known == NO_ID:
                topic_ids[loaded.topic] = loaded.topic_id
            if loaded.after is not None and loaded.start == loaded.end:
                # An empty range doesn't conflict with any other load of the partition.
                continue
            self._check_start(manifest, loaded)
            positions[loaded.topic_partition] = Position(loaded.end, _join_epochs(loaded))
        columns = self.with_columns(manifest)
        return History(manifest.number, manifest.cluster_id, topic_ids, positions, self.current, columns)

    def _check_start(self, manifest: Manifest, loaded: LoadedPartition) -> None:
        # Compare positions, not offsets: after a truncation other records have the same offsets.
        if loaded.after != (before := self.positions.get(loaded.topic_partition)):
            then = "not loaded at all" if loaded.after is None else f"loaded up to offset {loaded.after.offset}"
            now = f"offset {before.offset} of leader epoch {before.epoch}" if before else "nothing"
            raise ConflictError(
                f"{manifest.title} was planned when {loaded.topic_partition} was {then}, "
                f"and now it is loaded up to {now}: another load was committed meanwhile"
            )
        if before is not None and loaded.start < before.offset and loaded.diverged is None:
            raise ConflictError(f"{manifest.title} has offsets of {loaded.topic_partition} that are loaded already")

    def _replaced(self, manifest: Manifest) -> History:
        if manifest.replaces != (current := self.current_number(manifest.run_id)):
            raise ConflictError(
                f"{manifest.title} was rerun meanwhile: its current manifest is {current}, not {manifest.replaces}"
            )
        numbers = {**self.current, manifest.run_id: manifest.number}
        columns = self.with_columns(manifest)
        return History(manifest.number, self.cluster_id, self.topic_ids, self.positions, numbers, columns)

    def with_columns(self, manifest: Manifest) -> dict[str, dict[str, int]]:
        """Return the columns once this manifest is added.

        Raises:
            SchemaError: Spark can't read the type of a column together with the types in the output.
        """
        found = {name: dict(types) for name, types in self.columns.items()}
        for name, kind in manifest.replaced_columns.items():
            if not found.get(name, {}).get(kind):
                raise ManifestError(f"{manifest.title} replaces a column {name!r} that the output does not have")
            found[name][kind] -= 1
            if not found[name][kind]:
                del found[name][kind]
        for name, kind in manifest.columns.items():
            types = found.setdefault(name, {})
            if kind not in types and (other := incompatible_type(kind, types)) is not None:
                raise SchemaError(
                    f"{manifest.title}: column {name!r} is {describe(kind)}, but {describe(other)} in the output. "
                    "Spark cannot read files with different types together: cast the column in transform, rerun the "
                    "loads that have it without it, or load into another output"
                )
            types[kind] = types.get(kind, 0) + 1
        return {name: types for name, types in found.items() if types}

    def current_number(self, run_id: str) -> int:
        """Return the number of a load's current manifest.

        Raises:
            ManifestError: No load has this ``run_id``.
        """
        first = run_id.partition("-")[0]
        if not first.isdecimal() or not 0 < int(first) <= self.number:
            raise ManifestError(f"there is no run {run_id!r}")
        return self.current.get(run_id, int(first))

    def as_json(self) -> dict[str, Any]:
        """Return the history as JSON values."""
        positions: dict[str, dict[str, list[Any]]] = {}
        for (topic, partition), position in self.positions.items():
            positions.setdefault(topic, {})[str(partition)] = [position.offset, position.epochs]
        return {
            "format": FORMAT,
            "number": self.number,
            "cluster_id": self.cluster_id,
            "topic_ids": dict(self.topic_ids),
            "positions": positions,
            "current": dict(self.current),
            "columns": {name: dict(types) for name, types in self.columns.items()},
        }

    @classmethod
    def of_json(cls, fields: Mapping[str, Any]) -> History:
        """Create a history from JSON values.

        Raises:
            ManifestError: The values aren't a history, or have another format.
        """
        try:
            if fields["format"] != FORMAT:
                raise ManifestError(f"a history has format {fields['format']}; this version reads {FORMAT}")
            positions = {
                TopicPartition(topic, int(partition)): Position(int(offset), as_epochs(epochs))
                for topic, partitions in fields["positions"].items()
                for partition, (offset, epochs) in partitions.items()
            }
            return cls(
                fields["number"],
                fields["cluster_id"],
                fields["topic_ids"],
                positions,
                fields["current"],
                fields["columns"],
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ManifestError(f"a history cannot be read: {error!r}") from error


def _join_epochs(loaded: LoadedPartition) -> Epochs:
    """Return the leader epochs up to the end of a range: the ones before its start, then its own."""
    before = () if loaded.after is None else loaded.after.cut(loaded.start).epochs
    new = [entry for entry in loaded.epochs if not before or entry[0] > before[-1][0]]
    return (*before, *new)[-MAX_EPOCHS:]

"""What a load writes down of itself: which offsets its files hold. Pure.

A manifest is the commit of its load: files that no manifest names do not count. Together they say where the next load
starts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from aiokproto.errors import KafkaError
from aiokproto.types import TopicPartition

FORMAT = 1


class ManifestError(KafkaError):
    """A manifest cannot be read, or manifests contradict each other."""


@dataclass(frozen=True)
class LoadedPartition:
    """What a load holds of a partition.

    Attributes:
        topic: The topic.
        topic_id: Its id, in hex.
        partition: The partition.
        start: The first offset that was to be read.
        end: The offset after the last one that was to be read; the next load starts there.
        leader_epoch: The leader epoch that ``end`` was found in; -1 when unknown.
        rows: Rows written.
        first_offset: The first offset among them, None without rows.
        last_offset: The last one.
    """

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    leader_epoch: int = -1
    rows: int = 0
    first_offset: int | None = None
    last_offset: int | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True)
class Manifest:
    """One committed load.

    Attributes:
        run_id: Its name; names sort in order of time.
        number: 1 for the first load of an output, and so on.
        attempt: 1, more after it was run again.
        cluster_id: The cluster's id.
        data: The directory with its files, relative to the output.
        created: When it was committed, ISO 8601, UTC.
        read_committed: Whether only committed records were read.
        include_headers: Whether there is a column with the headers.
        partitions: What was read.
    """

    run_id: str
    number: int
    attempt: int
    cluster_id: str | None
    data: str
    created: str
    read_committed: bool
    include_headers: bool
    partitions: tuple[LoadedPartition, ...]

    @property
    def rows(self) -> int:
        """Rows written, of all partitions."""
        return sum(one.rows for one in self.partitions)

    def to_json(self) -> str:
        """The text of its file."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str, name: str) -> Manifest:
        """Read the text of a file.

        Raises:
            ManifestError: It is something else, or of a later format; says which file by ``name``.
        """
        try:
            fields: dict[str, Any] = json.loads(text)
            found = fields.pop("format")
            if found != FORMAT:
                raise ManifestError(f"manifest {name} has format {found}, this version knows {FORMAT}")
            fields["partitions"] = tuple(LoadedPartition(**one) for one in fields["partitions"])
            return cls(**fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ManifestError(f"manifest {name} cannot be read: {error}") from error


@dataclass(frozen=True)
class Progress:
    """How far the loads of an output have come.

    Attributes:
        number: The number of the last load, 0 before the first.
        cluster_id: The cluster that was read.
        topic_ids: The ids of the topics that were read, in hex.
        positions: For each partition where the next load starts.
    """

    number: int
    cluster_id: str | None
    topic_ids: Mapping[str, str]
    positions: Mapping[TopicPartition, int]


def progress(manifests: Iterable[Manifest]) -> Progress:
    """Add up manifests, given in order of their numbers.

    Raises:
        ManifestError: Two have one number, as when two loads ran at the same time: rows may be there twice.
    """
    number, cluster_id = 0, None
    topic_ids: dict[str, str] = {}
    positions: dict[TopicPartition, int] = {}
    for manifest in manifests:
        if manifest.number <= number:
            raise ManifestError(
                f"run {manifest.run_id} was committed beside another one with its number: "
                "two loads ran at the same time, and may have read the same records; delete one of the manifests"
            )
        number, cluster_id = manifest.number, manifest.cluster_id
        for one in manifest.partitions:
            topic_ids[one.topic] = one.topic_id
            positions[one.topic_partition] = one.end
    return Progress(number, cluster_id, topic_ids, positions)

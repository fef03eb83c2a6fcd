"""The topology of a stream processor, to the extent that the group's coordinator has to know it (KIP-1071). Pure.

A *subtopology* is a connected part of the processing graph. It has one *task* for each partition of its input topics.
The coordinator creates the *internal* topics: *repartition* topics, which one subtopology writes and another reads, and
*changelogs*, used to restore the state of a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto
from typing import NamedTuple

from aiokproto.codec.messages import streams_group_heartbeat as wire
from aiokproto.errors import ConfigurationError
from aiokproto.types import TopicPartition


class TaskRole(Enum):
    """What a member does with a task."""

    ACTIVE = auto()
    """It processes the task's records."""
    STANDBY = auto()
    """It replicates the task's state, to be able to take over immediately."""
    WARMUP = auto()
    """It's restoring the task's state, and will become active when it has caught up."""


class StreamsTask(NamedTuple):
    """A task in a role.

    Attributes:
        role: What the member does with it.
        subtopology: The id of the subtopology.
        partition: The partition number, the same for all inputs.
    """

    role: TaskRole
    subtopology: str
    partition: int


class StatusCode(IntEnum):
    """A condition of the group that delays or prevents the assignment of tasks."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6
    UNKNOWN = -1
    """A code from a newer broker."""

    @classmethod
    def _missing_(cls, value: object) -> StatusCode:
        return cls.UNKNOWN


class StreamsStatus(NamedTuple):
    """A condition and the broker's explanation."""

    code: StatusCode
    detail: str


class StreamsEndpoint(NamedTuple):
    """The address where a member answers interactive queries (``application.server``)."""

    host: str
    port: int


class EndpointPartitions(NamedTuple):
    """The input partitions whose state can be queried at an endpoint."""

    active: frozenset[TopicPartition]
    standby: frozenset[TopicPartition]


@dataclass(frozen=True)
class InternalTopic:
    """A topic that the coordinator creates.

    Attributes:
        name: Its name, by convention ``<group id>-<store or step>-changelog`` or ``-repartition``.
        partitions: The number of partitions; 0 means as many as the inputs require. It's always 0 for changelogs.
        replication_factor: The number of replicas of each partition; 0 means the broker's default.
        config: Topic options, such as ``{"cleanup.policy": "compact"}``.
    """

    name: str
    partitions: int = 0
    replication_factor: int = 0
    config: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> wire.TopicInfo:
        """Return the struct for a heartbeat."""
        return wire.TopicInfo(
            name=self.name,
            partitions=self.partitions,
            replication_factor=self.replication_factor,
            topic_configs=[wire.KeyValue(key=key, value=value) for key, value in sorted(self.config.items())],
        )


@dataclass(frozen=True)
class Subtopology:
    """A connected part of a topology.

    Attributes:
        subtopology_id: Its id, unique in the topology; Kafka Streams numbers them from ``"0"``.
        source_topics: Existing topics that it reads.
        repartition_sources: Repartition topics that it reads.
        repartition_sinks: Repartition topics that it writes to, by name.
        changelogs: Changelog topics of its stores.
        copartitioned: Groups of topics, by name, that must have the same number of partitions, as for joins.
    """

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    repartition_sources: tuple[InternalTopic, ...] = ()
    repartition_sinks: tuple[str, ...] = ()
    changelogs: tuple[InternalTopic, ...] = ()
    copartitioned: tuple[frozenset[str], ...] = ()

    def __post_init__(self) -> None:
        for name in ("source_topics", "repartition_sinks"):
            if isinstance(given := getattr(self, name), str):
                raise ConfigurationError(
                    f"subtopology {self.subtopology_id!r}: {name}={given!r}: expected a tuple of names"
                )
        for group in self.copartitioned:
            if unknown := sorted(group - set(self.inputs)):
                raise ConfigurationError(
                    f"subtopology {self.subtopology_id!r}: copartitioned {', '.join(unknown)}: not read by it"
                )

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the topics that it reads."""
        return (*self.source_topics, *(topic.name for topic in self.repartition_sources))

    def encode(self) -> wire.Subtopology:
        """Return the struct for a heartbeat. Its lists are sorted, which is the order that Kafka compares topologies
        in."""
        sources = sorted(self.source_topics)
        repartitions = sorted(self.repartition_sources, key=lambda topic: topic.name)
        names = [topic.name for topic in repartitions]
        return wire.Subtopology(
            subtopology_id=self.subtopology_id,
            source_topics=sources,
            source_topic_regex=[],
            state_changelog_topics=[topic.encode() for topic in sorted(self.changelogs, key=lambda topic: topic.name)],
            repartition_sink_topics=sorted(self.repartition_sinks),
            repartition_source_topics=[topic.encode() for topic in repartitions],
            copartition_groups=[
                wire.CopartitionGroup(
                    source_topics=[sources.index(name) for name in sorted(group.intersection(sources))],
                    source_topic_regex=[],
                    repartition_source_topics=[names.index(name) for name in sorted(group.intersection(names))],
                )
                for group in self.copartitioned
            ],
        )


@dataclass(frozen=True)
class StreamsTopology:
    """What the members of a group process. It must be the same in all of them.

    Attributes:
        subtopologies: Its parts.
        epoch: The version of the topology. Increase it with every change.
    """

    subtopologies: tuple[Subtopology, ...]
    epoch: int = 0

    def __post_init__(self) -> None:
        ids = [each.subtopology_id for each in self.subtopologies]
        if not ids or len(set(ids)) < len(ids):
            raise ConfigurationError(f"topology: needs one or more subtopologies with different ids, not {ids}")

    def encode(self) -> wire.Topology:
        """Return the struct for a heartbeat."""
        parts = sorted(self.subtopologies, key=lambda each: each.subtopology_id)
        return wire.Topology(epoch=self.epoch, subtopologies=[each.encode() for each in parts])

    def inputs_of(self, tasks: Iterable[StreamsTask]) -> frozenset[TopicPartition]:
        """Return the partitions that active tasks read. Their member can commit offsets for these."""
        inputs = {each.subtopology_id: each.inputs for each in self.subtopologies}
        return frozenset(
            TopicPartition(topic, task.partition)
            for task in tasks
            if task.role is TaskRole.ACTIVE
            for topic in inputs.get(task.subtopology, ())
        )


def encode_tasks(tasks: Iterable[StreamsTask], role: TaskRole) -> list[wire.TaskIds]:
    """Return the tasks of a role by subtopology, in order."""
    by_subtopology: dict[str, list[int]] = {}
    for _, subtopology, partition in sorted(
        (each for each in tasks if each.role is role), key=lambda each: (each.subtopology, each.partition)
    ):
        by_subtopology.setdefault(subtopology, []).append(partition)
    return [wire.TaskIds(subtopology_id=name, partitions=numbers) for name, numbers in by_subtopology.items()]


def decode_tasks(ids: Iterable[wire.TaskIds], role: TaskRole) -> frozenset[StreamsTask]:
    """Return tasks in a role."""
    return frozenset(StreamsTask(role, each.subtopology_id, number) for each in ids for number in each.partitions)


def decode_endpoints(entries: Iterable[wire.EndpointToPartitions]) -> dict[StreamsEndpoint, EndpointPartitions]:
    """Return the partitions by endpoint. A process with several threads has several entries."""
    found: dict[StreamsEndpoint, EndpointPartitions] = {}
    for entry in entries:
        endpoint = StreamsEndpoint(entry.user_endpoint.host, entry.user_endpoint.port)
        known = found.get(endpoint, EndpointPartitions(frozenset(), frozenset()))
        found[endpoint] = EndpointPartitions(
            known.active | _flat(entry.active_partitions), known.standby | _flat(entry.standby_partitions)
        )
    return found


def _flat(topics: Iterable[wire.TopicPartition]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(entry.topic, number) for entry in topics for number in entry.partitions)

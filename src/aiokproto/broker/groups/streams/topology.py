"""Configuring a topology (KIP-1071): how many tasks it has, and which internal topics it needs.

Kafka Streams names its internal topics, and the coordinator determines their numbers of partitions, in this order:

1. A repartition topic has the number that the topology requires, or else the maximum over the inputs of the
   subtopologies that write to it. These inputs can be repartition topics themselves, so this is repeated until all are
   known.
2. Copartitioned topics, which are joined, get the same number.
3. A changelog topic has one partition for each task of its subtopology.

The result, including the missing topics, is a pure function of the topology and the cluster's topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from aiokproto.broker.groups.consumer.subscriptions import Topics, metadata_hash
from aiokproto.broker.groups.streams.member import Topology
from aiokproto.codec.payloads.streams_groups import CopartitionGroup, Subtopology, TopicInfo
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.texts import counted


class StatusCode(IntEnum):
    """The status codes in StreamsGroupHeartbeat responses, with their numbers in the protocol."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4


class Status(NamedTuple):
    """A status code with a detail message."""

    code: StatusCode
    detail: str


@dataclass(frozen=True)
class ConfiguredTopology:
    """A topology with the numbers of partitions of its topics.

    Attributes:
        hash: A hash of the topics that it needs and that exist, to detect changes.
        sizes: The number of partitions of each source topic and internal topic, by name.
        tasks: The number of tasks by subtopology.
        missing: The internal topics to create.
        error: Why the topology can't run, or None if it can.
    """

    hash: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict)
    tasks: Mapping[str, int] = field(default_factory=dict)
    missing: Mapping[str, TopicInfo] = field(default_factory=dict)
    error: Status | None = None

    @property
    def ready(self) -> bool:
        """Whether the topology can run: tasks are assigned only then."""
        return self.error is None


class _TopicConfigurationError(Exception):
    """The cluster's topics do not fit the topology."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(code, detail)


def check(topology: Topology) -> None:
    """Validate a topology on its own, without looking at the cluster's topics.

    Raises:
        BrokerError: STREAMS_INVALID_TOPOLOGY; INVALID_REQUEST for regular expressions, which Kafka rejects too.
    """
    seen: set[str] = set()
    for subtopology in topology.subtopologies:
        if subtopology.source_topic_regex:
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail="source topics by regular expression are not supported")
        if subtopology.subtopology_id in seen:
            raise _invalid_topology(f"subtopology {subtopology.subtopology_id!r} is defined twice")
        seen.add(subtopology.subtopology_id)
        if not inputs(subtopology):
            raise _invalid_topology(f"subtopology {subtopology.subtopology_id!r} has no source topics")
        for changelog in subtopology.state_changelog_topics:
            if changelog.partitions:
                raise _invalid_topology(
                    f"changelog {changelog.name!r} must not set a number of partitions ({changelog.partitions})"
                )
        for group in subtopology.copartition_groups:
            _check_indexes(subtopology, group)


def inputs(subtopology: Subtopology) -> list[str]:
    """Return the topics that a subtopology reads."""
    return [*subtopology.source_topics, *(each.name for each in subtopology.repartition_source_topics)]


def internal(topology: Topology) -> Iterator[TopicInfo]:
    """Return the internal topics of a topology."""
    for subtopology in topology.subtopologies:
        yield from subtopology.repartition_source_topics
        yield from subtopology.state_changelog_topics


def configure(topology: Topology, topics: Topics) -> ConfiguredTopology:
    """Compute the numbers of partitions and tasks, and the missing topics, from the cluster's topics."""
    needed = {info.name for info in internal(topology)}
    needed.update(name for each in topology.subtopologies for name in each.source_topics)
    found = {name: topics.find(name) for name in sorted(needed)}
    known = {name: topic for name, topic in found.items() if topic is not None}
    existing = {name: size for name, (_, size) in known.items()}
    # The hash covers the existing topics even if the topology is invalid: the group must notice the topic that makes it
    # valid.
    digest = metadata_hash(known)
    try:
        sizes = _partition_counts(topology, existing)
        missing = _missing_topics(topology, sizes, existing)
    except _TopicConfigurationError as failure:
        return ConfiguredTopology(digest, error=failure.status)
    error = None
    if missing:
        error = Status(StatusCode.MISSING_INTERNAL_TOPICS, f"internal topics are missing: {', '.join(sorted(missing))}")
    tasks = {each.subtopology_id: max(sizes[name] for name in inputs(each)) for each in topology.subtopologies}
    return ConfiguredTopology(digest, sizes, tasks, missing, error)


def _invalid_topology(why: str) -> BrokerError:
    return BrokerError(ErrorCode.STREAMS_INVALID_TOPOLOGY, detail=why)


def _check_indexes(subtopology: Subtopology, group: CopartitionGroup) -> None:
    sources, repartitions = len(subtopology.source_topics), len(subtopology.repartition_source_topics)
    inside = all(0 <= index < sources for index in group.source_topics)
    inside = inside and all(0 <= index < repartitions for index in group.repartition_source_topics)
    if not inside or group.source_topic_regex:
        raise _invalid_topology(
            f"a copartition group of subtopology {subtopology.subtopology_id!r} has topics it does not read"
        )


def _partition_counts(topology: Topology, existing: Mapping[str, int]) -> dict[str, int]:
    """Return the number of partitions of each topic."""
    sources = {name for each in topology.subtopologies for name in each.source_topics}
    absent = sorted(sources - existing.keys())
    if absent:
        raise _TopicConfigurationError(
            StatusCode.MISSING_SOURCE_TOPICS, f"source topics are missing: {', '.join(absent)}"
        )
    sizes = {name: existing[name] for name in sources}
    resizable = _size_repartition_topics(topology, sizes)
    for subtopology in topology.subtopologies:
        repartition_topics = subtopology.repartition_source_topics
        for group in subtopology.copartition_groups:
            copartitioned = {subtopology.source_topics[index] for index in group.source_topics}
            copartitioned |= {repartition_topics[index].name for index in group.repartition_source_topics}
            _enforce_copartitioning(copartitioned, resizable, sizes)
    for subtopology in topology.subtopologies:
        tasks = max(sizes[name] for name in inputs(subtopology))
        sizes.update((changelog.name, tasks) for changelog in subtopology.state_changelog_topics)
    return sizes


def _size_repartition_topics(topology: Topology, sizes: dict[str, int]) -> set[str]:
    """Add the sizes of repartition topics. Return the topics whose size isn't fixed by the topology."""
    infos = {info.name: info for each in topology.subtopologies for info in each.repartition_source_topics}
    sizes.update((name, info.partitions) for name, info in infos.items() if info.partitions)
    resizable = {name for name, info in infos.items() if not info.partitions}
    writers = {
        name: [each for each in topology.subtopologies if name in each.repartition_sink_topics] for name in resizable
    }
    # Sizes follow the flow of records. Each iteration resolves at least one topic, unless the topology has a cycle or a
    # gap.
    unsized = set(resizable)
    while unsized:
        ready = {
            name: upstream
            for name in unsized
            if (upstream := {source for each in writers[name] for source in inputs(each)}) and upstream <= sizes.keys()
        }
        # These topics form a cycle, or no subtopology writes to one of them.
        if not ready:
            names = ", ".join(sorted(unsized))
            raise _TopicConfigurationError(
                StatusCode.MISSING_SOURCE_TOPICS, f"the numbers of partitions cannot be derived: {names}"
            )
        sizes.update({name: max(sizes[source] for source in upstream) for name, upstream in ready.items()})
        unsized -= ready.keys()
    return resizable


def _enforce_copartitioning(copartitioned: Iterable[str], resizable: set[str], sizes: dict[str, int]) -> None:
    """Give copartitioned topics the same number of partitions: the number of the fixed ones, or else the maximum."""
    names = sorted(copartitioned)
    fixed = {sizes[name] for name in names if name not in resizable}
    if len(fixed) > 1:
        sizes_text = ", ".join(f"{name} {sizes[name]}" for name in names if name not in resizable)
        raise _TopicConfigurationError(
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            f"copartitioned topics have different numbers of partitions: {sizes_text}",
        )
    number = fixed.pop() if fixed else max((sizes[name] for name in names), default=0)
    sizes.update((name, number) for name in names)


def _missing_topics(topology: Topology, sizes: Mapping[str, int], existing: Mapping[str, int]) -> dict[str, TopicInfo]:
    """Return the internal topics that do not exist, with the number of partitions that they need."""
    missing = {}
    for info in internal(topology):
        size = sizes[info.name]
        if info.name not in existing:
            missing[info.name] = TopicInfo(
                name=info.name,
                partitions=size,
                replication_factor=info.replication_factor,
                topic_configs=info.topic_configs,
            )
        elif existing[info.name] != size:
            raise _TopicConfigurationError(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"topic {info.name} has {counted(existing[info.name], 'partition')}, and needs {size}",
            )
    return missing

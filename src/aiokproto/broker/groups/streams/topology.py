"""What a topology needs of the cluster's topics: how many tasks it has, and which internal topics are to be created.

Kafka Streams names its internal topics, and leaves it to the coordinator how many partitions they get: a repartition
topic as many as the inputs of those who write to it, if nothing else is asked for; those that are read together the
same number; a changelog one for each task.
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


class StatusCode(IntEnum):
    """What a heartbeat's answer may say besides, with the protocol's numbers."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4


class Status(NamedTuple):
    """One such thing, and the sentence about it."""

    code: StatusCode
    detail: str


@dataclass(frozen=True)
class ConfiguredTopology:
    """A topology on the topics that there are.

    Attributes:
        hash: Of the topics it needs and that exist; it changes if these do.
        sizes: Number of partitions by topic, of those it reads and of its internal ones.
        tasks: Number of tasks by subtopology.
        missing: The internal topics to create.
        trouble: Why it cannot run; None if it can.
    """

    hash: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict)
    tasks: Mapping[str, int] = field(default_factory=dict)
    missing: Mapping[str, TopicInfo] = field(default_factory=dict)
    error: Status | None = None

    @property
    def ready(self) -> bool:
        """Whether all is there."""
        return self.error is None


class _TopicConfigurationError(Exception):
    """The topics are not what the topology needs."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(code, detail)


def check(topology: Topology) -> None:
    """Whether a topology makes sense, whatever topics there are.

    Raises:
        BrokerError: STREAMS_INVALID_TOPOLOGY, or INVALID_REQUEST for patterns, which Kafka does not take either.
    """
    seen: set[str] = set()
    for each in topology.subtopologies:
        if each.source_topic_regex:
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail="source topics by patterns are not supported")
        if each.subtopology_id in seen:
            raise _invalid(f"subtopology {each.subtopology_id!r} is there twice")
        seen.add(each.subtopology_id)
        if not inputs(each):
            raise _invalid(f"subtopology {each.subtopology_id!r} reads nothing")
        for changelog in each.state_changelog_topics:
            if changelog.partitions:
                raise _invalid(f"changelog {changelog.name!r} cannot ask for {changelog.partitions} partitions")
        for group in each.copartition_groups:
            _check_indexes(each, group)


def inputs(subtopology: Subtopology) -> list[str]:
    """The topics that a subtopology reads."""
    return [*subtopology.source_topics, *(each.name for each in subtopology.repartition_source_topics)]


def internal(topology: Topology) -> Iterator[TopicInfo]:
    """The topics that are the application's own."""
    for each in topology.subtopologies:
        yield from each.repartition_source_topics
        yield from each.state_changelog_topics


def configure(topology: Topology, topics: Topics) -> ConfiguredTopology:
    """See what there is, and decide the rest."""
    needed = {info.name for info in internal(topology)}
    needed.update(name for each in topology.subtopologies for name in each.source_topics)
    found = {name: topics.find(name) for name in sorted(needed)}
    known = {name: topic for name, topic in found.items() if topic is not None}
    existing = {name: size for name, (_, size) in known.items()}
    digest = metadata_hash(known)
    try:
        sizes = _partition_counts(topology, existing)
        missing = _missing(topology, sizes, existing)
    except _TopicConfigurationError as failure:
        return ConfiguredTopology(digest, error=failure.status)
    error = None
    if missing:
        error = Status(StatusCode.MISSING_INTERNAL_TOPICS, f"internal topics are missing: {', '.join(sorted(missing))}")
    tasks = {each.subtopology_id: max(sizes[name] for name in inputs(each)) for each in topology.subtopologies}
    return ConfiguredTopology(digest, sizes, tasks, missing, error)


def _invalid(why: str) -> BrokerError:
    return BrokerError(ErrorCode.STREAMS_INVALID_TOPOLOGY, detail=why)


def _check_indexes(subtopology: Subtopology, group: CopartitionGroup) -> None:
    sources, repartitions = len(subtopology.source_topics), len(subtopology.repartition_source_topics)
    inside = all(0 <= index < sources for index in group.source_topics)
    inside = inside and all(0 <= index < repartitions for index in group.repartition_source_topics)
    if not inside or group.source_topic_regex:
        raise _invalid(f"a copartition group of subtopology {subtopology.subtopology_id!r} has topics it does not read")


def _partition_counts(topology: Topology, existing: Mapping[str, int]) -> dict[str, int]:
    """Number of partitions by topic."""
    sources = {name for each in topology.subtopologies for name in each.source_topics}
    absent = sorted(sources - existing.keys())
    if absent:
        raise _TopicConfigurationError(
            StatusCode.MISSING_SOURCE_TOPICS, f"source topics are missing: {', '.join(absent)}"
        )
    sizes = {name: existing[name] for name in sources}
    adjustable = _size_repartition_topics(topology, sizes)
    for each in topology.subtopologies:
        for group in each.copartition_groups:
            together = {each.source_topics[index] for index in group.source_topics}
            together |= {each.repartition_source_topics[index].name for index in group.repartition_source_topics}
            _enforce_copartitioning(together, adjustable, sizes)
    for each in topology.subtopologies:
        tasks = max(sizes[name] for name in inputs(each))
        sizes.update((changelog.name, tasks) for changelog in each.state_changelog_topics)
    return sizes


def _size_repartition_topics(topology: Topology, sizes: dict[str, int]) -> set[str]:
    """Give the repartition topics their sizes; returns those that did not ask for any."""
    infos = {info.name: info for each in topology.subtopologies for info in each.repartition_source_topics}
    sizes.update((name, info.partitions) for name, info in infos.items() if info.partitions)
    adjustable = {name for name, info in infos.items() if not info.partitions}
    writers = {
        name: [each for each in topology.subtopologies if name in each.repartition_sink_topics] for name in adjustable
    }
    open_ = set(adjustable)
    while open_:
        ready = {
            name: feeding
            for name in open_
            if (feeding := {source for each in writers[name] for source in inputs(each)}) and feeding <= sizes.keys()
        }
        if not ready:
            names = ", ".join(sorted(open_))
            raise _TopicConfigurationError(
                StatusCode.MISSING_SOURCE_TOPICS, f"nothing tells how many partitions are needed of {names}"
            )
        sizes.update({name: max(sizes[source] for source in feeding) for name, feeding in ready.items()})
        open_ -= ready.keys()
    return adjustable


def _enforce_copartitioning(together: Iterable[str], adjustable: set[str], sizes: dict[str, int]) -> None:
    """Have topics that are read together the same number of partitions."""
    names = sorted(together)
    fixed = {sizes[name] for name in names if name not in adjustable}
    if len(fixed) > 1:
        told = ", ".join(f"{name} {sizes[name]}" for name in names if name not in adjustable)
        raise _TopicConfigurationError(
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            f"topics read together differ in their number of partitions: {told}",
        )
    number = fixed.pop() if fixed else max((sizes[name] for name in names), default=0)
    sizes.update((name, number) for name in names)


def _missing(topology: Topology, sizes: Mapping[str, int], existing: Mapping[str, int]) -> dict[str, TopicInfo]:
    """The internal topics that do not exist, with the number of partitions that they need."""
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
                f"topic {info.name} has {existing[info.name]} partitions, and needs {size}",
            )
    return missing

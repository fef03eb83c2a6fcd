"""A streams group with a clock that only tests advance, and its members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from aiokproto.broker.groups.image import Image
from aiokproto.broker.groups.streams import records
from aiokproto.broker.groups.streams.group import StreamsGroup, StreamsGroupSettings, StreamsHeartbeatResult
from aiokproto.broker.groups.streams.member import Endpoint, StreamsHeartbeat, Task, TaskRole, Tasks, Topology
from aiokproto.codec.payloads.streams_groups import CopartitionGroup, Subtopology, TopicConfig, TopicInfo
from tests.broker.consumer_harness import Topics

SESSION, REBALANCE = 45.0, 60.0


def subtopology(
    name: str = "0",
    sources: Sequence[str] = ("a",),
    sinks: Sequence[str] = (),
    repartitions: dict[str, int] | None = None,
    changelogs: Sequence[str] = (),
    together: Sequence[tuple[Sequence[int], Sequence[int]]] = (),
) -> Subtopology:
    """A subtopology: ``repartitions`` with their required numbers of partitions, ``together`` as indexes."""
    return Subtopology(
        subtopology_id=name,
        source_topics=list(sources),
        source_topic_regex=[],
        state_changelog_topics=[_info(changelog, 0) for changelog in changelogs],
        repartition_sink_topics=list(sinks),
        repartition_source_topics=[_info(topic, size) for topic, size in (repartitions or {}).items()],
        copartition_groups=[
            CopartitionGroup(source_topics=list(own), source_topic_regex=[], repartition_source_topics=list(internal))
            for own, internal in together
        ],
    )


def _info(name: str, partitions: int) -> TopicInfo:
    configs = [TopicConfig(key="cleanup.policy", value="compact")]
    return TopicInfo(name=name, partitions=partitions, replication_factor=0, topic_configs=configs)


def topology(*subtopologies: Subtopology, epoch: int = 0) -> Topology:
    return Topology(epoch=epoch, subtopologies=list(subtopologies))


def active(subtopology_id: str, *partitions: int) -> Tasks:
    return frozenset(Task(TaskRole.ACTIVE, subtopology_id, each) for each in partitions)


SIMPLE = topology(subtopology())


@dataclass
class Thread:
    """A member from the point of view of Kafka Streams: what it owns, and what it was assigned."""

    member_id: str
    process_id: str = "p"
    topology: Topology = field(default_factory=lambda: SIMPLE)
    instance_id: str | None = None
    endpoint: Endpoint | None = None
    epoch: int = 0
    owned: Tasks = frozenset()
    assigned: Tasks = frozenset()
    joined: bool = False


class Harness:
    """A group, the topics and the time."""

    def __init__(self, max_size: int = 100, standbys: int = 0, **sizes: int) -> None:
        self.topics = Topics(**(sizes or {"a": 4}))
        self.settings = StreamsGroupSettings(SESSION, 5.0, max_size, standbys)
        self.group = StreamsGroup("g", self.topics, self.settings)
        self.now = 1000.0
        self.image: Image = {}

    def join(self, thread: Thread) -> StreamsHeartbeatResult:
        thread.owned = thread.assigned = frozenset()
        heartbeat = StreamsHeartbeat(
            thread.member_id,
            0,
            thread.instance_id,
            rebalance_timeout=REBALANCE,
            topology=thread.topology,
            owned=frozenset(),
            process_id=thread.process_id,
            endpoint=thread.endpoint,
            tags={},
        )
        return self._apply(thread, self.group.heartbeat(heartbeat, self.now))

    def heartbeat(self, thread: Thread, silent: bool = False, shutdown: bool = False) -> StreamsHeartbeatResult:
        owned = None if silent else thread.owned
        heartbeat = StreamsHeartbeat(thread.member_id, thread.epoch, thread.instance_id, owned=owned, shutdown=shutdown)
        return self._apply(thread, self.group.heartbeat(heartbeat, self.now))

    def _apply(self, thread: Thread, answer: StreamsHeartbeatResult) -> StreamsHeartbeatResult:
        thread.joined, thread.epoch = True, answer.epoch
        if answer.assigned is not None:
            thread.assigned = answer.assigned
        return answer

    def work(self, *threads: Thread) -> None:
        """Send heartbeats that follow the assignments until nothing changes any more."""
        for _ in range(6 + 2 * len(threads)):
            for thread in threads:
                self.heartbeat(thread)
                thread.owned = thread.assigned

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while (deadline := self.group.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.group.tick(self.now)
        self.now = end

    def save(self) -> list[tuple[bytes, bytes | None]]:
        written = records.changes(self.group, self.image, 0)
        self.group.changed = False
        self.group.dirty.clear()
        return written

    def restart(self) -> None:
        """Restore the group at another coordinator from the records that this one has written."""
        self.save()
        self.group = StreamsGroup("g", self.topics, self.settings)
        records.restore(self.group, self.image, self.now)

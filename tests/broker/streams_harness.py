"""A streams group with a clock that only tests advance, and its members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from aiokproto.broker.groups.reconciliation import LEAVE_GROUP_MEMBER_EPOCH
from aiokproto.broker.groups.streams import records
from aiokproto.broker.groups.streams.group import StreamsGroup, StreamsGroupSettings, StreamsHeartbeatResult
from aiokproto.broker.groups.streams.member import Endpoint, StreamsHeartbeat, Task, TaskRole, Tasks, Topology
from aiokproto.codec.payloads.streams_groups import CopartitionGroup, Subtopology, TopicConfig, TopicInfo
from tests.broker.epoch_harness import REBALANCE, SESSION, EpochClient, EpochHarness


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
class Thread(EpochClient[Task]):
    """A member of a streams group, as Kafka Streams sees it."""

    process_id: str = "p"
    topology: Topology = field(default_factory=lambda: SIMPLE)
    instance_id: str | None = None
    endpoint: Endpoint | None = None


class Harness(EpochHarness[StreamsGroup, Thread, StreamsHeartbeatResult]):
    """A streams group, its topics and the time."""

    records: ClassVar[Any] = records

    def __init__(self, max_size: int = 100, standbys: int = 0, **sizes: int) -> None:
        self.settings = StreamsGroupSettings(SESSION, 5.0, max_size, standbys)
        super().__init__(**sizes)

    def _new_group(self) -> StreamsGroup:
        return StreamsGroup("g", self.topics, self.settings)

    def join(self, client: Thread) -> StreamsHeartbeatResult:
        client.owned = client.assigned = frozenset()
        heartbeat = StreamsHeartbeat(
            client.member_id,
            0,
            client.instance_id,
            rebalance_timeout=REBALANCE,
            topology=client.topology,
            owned=frozenset(),
            process_id=client.process_id,
            endpoint=client.endpoint,
            tags={},
        )
        return self._apply(client, self.group.heartbeat(heartbeat, self.now))

    def heartbeat(self, client: Thread, silent: bool = False, shutdown: bool = False) -> StreamsHeartbeatResult:
        owned = None if silent else client.owned
        heartbeat = StreamsHeartbeat(client.member_id, client.epoch, client.instance_id, owned=owned, shutdown=shutdown)
        return self._apply(client, self.group.heartbeat(heartbeat, self.now))

    def leave(self, client: Thread) -> None:
        self.group.remove_or_keep_static(client.member_id, None, LEAVE_GROUP_MEMBER_EPOCH)

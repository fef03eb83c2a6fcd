"""A member of a streams group, which is a thread of Kafka Streams, and the tasks it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from aiokproto.broker.groups.reconciliation import JOIN_GROUP_MEMBER_EPOCH, ReconciledMember
from aiokproto.codec.payloads.streams_groups import StreamsGroupTopologyValue

Topology = StreamsGroupTopologyValue
"""A topology, as it is told and written down."""


class TaskRole(IntEnum):
    """What a member does with a task: process it, keep its state at hand, or fetch its state to process it soon."""

    ACTIVE = 0
    STANDBY = 1
    WARMUP = 2


class Task(NamedTuple):
    """A task: a partition of a subtopology's inputs, and what is done with it."""

    role: TaskRole
    subtopology: str
    partition: int

    @property
    def task_id(self) -> tuple[str, int]:
        """The subtopology and partition, whatever is done with it."""
        return self.subtopology, self.partition


Tasks = frozenset[Task]


class Endpoint(NamedTuple):
    """Where a process answers interactive queries."""

    host: str
    port: int


@dataclass(frozen=True)
class StreamsHeartbeat:
    """A StreamsGroupHeartbeat request: None means that nothing changed since the last. The timeout in seconds.

    Attributes:
        topology: What the application is made of; told by who joins.
        process_id: Which process the member is a thread of.
        endpoint_epoch: The state of the endpoints that the member knows.
        shutdown: Whether all members should end.
    """

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout: float | None = None
    topology: Topology | None = None
    owned: Tasks | None = None
    process_id: str | None = None
    endpoint: Endpoint | None = None
    tags: Mapping[str, str] | None = None
    endpoint_epoch: int = 0
    shutdown: bool = False
    client_id: str = ""
    client_host: str = ""

    @property
    def joins(self) -> bool:
        """Whether it is the first of a member."""
        return self.epoch == JOIN_GROUP_MEMBER_EPOCH


@dataclass(eq=False)
class StreamsMember(ReconciledMember[Task]):
    """A member of a streams group. ``topology_epoch`` is that of the topology it came with."""

    topology_epoch: int = 0
    process_id: str = ""
    endpoint: Endpoint | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

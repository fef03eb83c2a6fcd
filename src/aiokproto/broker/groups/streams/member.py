"""A member of a streams group, which is one thread of Kafka Streams; its heartbeat; and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from aiokproto.broker.groups.reconciliation import JOIN_GROUP_MEMBER_EPOCH, ReconciledMember
from aiokproto.codec.payloads.streams_groups import StreamsGroupTopologyValue

Topology = StreamsGroupTopologyValue
"""A topology, as the group's record stores it."""


class TaskRole(IntEnum):
    """What a member does with a task: process it, replicate its state, or restore its state to process it later."""

    ACTIVE = 0
    STANDBY = 1
    WARMUP = 2


class Task(NamedTuple):
    """A task (a partition of a subtopology's inputs) in a role."""

    role: TaskRole
    subtopology: str
    partition: int

    @property
    def task_id(self) -> tuple[str, int]:
        """The task's id, which is the same in all roles: subtopology and partition."""
        return self.subtopology, self.partition


Tasks = frozenset[Task]


class Endpoint(NamedTuple):
    """The address at which a process serves interactive queries (``application.server``)."""

    host: str
    port: int


@dataclass(frozen=True)
class StreamsHeartbeat:
    """A StreamsGroupHeartbeat request. A field that is None hasn't changed since the last heartbeat. Timeouts are in
    seconds.

    Attributes:
        topology: The topology; set only in the heartbeat that joins.
        process_id: The process that the member is a thread of.
        endpoint_epoch: The endpoint epoch that the member knows.
        shutdown: Whether the member requests a shutdown of the whole application.
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
        """Whether the member joins with this heartbeat."""
        return self.epoch == JOIN_GROUP_MEMBER_EPOCH


@dataclass(eq=False)
class StreamsMember(ReconciledMember[Task]):
    """A member of a streams group. ``topology_epoch`` is the epoch of the topology that it joined with."""

    topology_epoch: int = 0
    process_id: str = ""
    endpoint: Endpoint | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

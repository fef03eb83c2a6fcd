"""The streams group: members, topology and tasks of a Kafka Streams application.

See :mod:`aiokproto.broker.groups.epoch_group` for the epochs. Members own tasks here instead of partitions. The first
member to join provides the topology; tasks are assigned once the topics that it needs exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from aiokproto.broker.groups.assignment import TopicIdPartition
from aiokproto.broker.groups.consumer.subscriptions import Topics
from aiokproto.broker.groups.epoch_group import INITIAL_EPOCH, EpochGroup, GroupSettings
from aiokproto.broker.groups.streams.assignor import MemberSpec, sticky
from aiokproto.broker.groups.streams.member import StreamsHeartbeat, StreamsMember, Task, TaskRole, Tasks, Topology
from aiokproto.broker.groups.streams.topology import ConfiguredTopology, Status, StatusCode, configure, inputs
from aiokproto.codec.payloads.streams_groups import Subtopology
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

NEVER = -1
"""The validated topology epoch of a group whose topology has not been valid yet."""
_MODERN_COMMIT = 9


@dataclass(frozen=True)
class StreamsGroupSettings(GroupSettings):
    """The options of a streams group. ``standbys`` is the number of standby tasks for each stateful task."""

    standbys: int = 0

    @property
    def assignment_configs(self) -> dict[str, str]:
        """The options that the assignor uses, as they are stored in the group's record."""
        return {"num.standby.replicas": str(self.standbys)}


class StreamsHeartbeatResult(NamedTuple):
    """The result of a StreamsGroupHeartbeat. ``assigned`` is None if the member already has its assignment."""

    member_id: str
    epoch: int
    assigned: Tasks | None = None
    statuses: tuple[Status, ...] = ()
    endpoint_epoch: int = 0


class StreamsGroup(EpochGroup[StreamsMember, Task]):
    """A streams group.

    Attributes:
        settings: Its options, which can change at any time.
        topology: The topology that the first member provided; None before that.
        configured: The topology with the numbers of partitions, as of the last heartbeat or change of members.
        validated_topology_epoch: The topology epoch as of ``epoch`` if the topology was valid then; otherwise -1.
        last_assignment_configs: The options that the assignor uses, as of ``epoch``.
        endpoint_epoch: Grows when the tasks of a member with an endpoint for interactive queries change.
        shutdown_requested_by: The member that requested a shutdown of the application, if any.
    """

    type: ClassVar = "streams"

    def __init__(self, group_id: str, topics: Topics, settings: StreamsGroupSettings | None = None) -> None:
        super().__init__(group_id, INITIAL_EPOCH)
        self.topics = topics
        self.settings = settings or StreamsGroupSettings()
        self.topology: Topology | None = None
        self.configured = ConfiguredTopology()
        self.validated_topology_epoch = NEVER
        self.last_assignment_configs: dict[str, str] = {}
        self.endpoint_epoch = 0
        self.shutdown_requested_by: str | None = None

    # ---- requests

    def heartbeat(self, heartbeat: StreamsHeartbeat, now: float) -> StreamsHeartbeatResult:
        """Apply a StreamsGroupHeartbeat of a member that joins or stays.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID,
                INVALID_REQUEST, GROUP_MAX_SIZE_REACHED. In that case the group is unchanged.
        """
        self.check_not_full(heartbeat.member_id)
        # All checks are done before the member is added: a rejected request must leave the group as it was.
        self._check_topology(heartbeat.topology)
        self._check_owned(heartbeat.owned)
        member = self._get_or_add_member(heartbeat)
        before = member.assigned.keys()
        self._advance(member, heartbeat, now)
        # No record stores the request: a new coordinator starts without it.
        if heartbeat.shutdown:
            self.shutdown_requested_by = member.member_id
        # A member that joins again may have lost its state, so it gets its assignment even if it's the same.
        changed = heartbeat.joins or member.assigned.keys() != before
        # Other members route interactive queries by the endpoints. Responses contain these only when this number has
        # grown.
        if changed and member.endpoint is not None:
            self.endpoint_epoch += 1
        return StreamsHeartbeatResult(
            member.member_id,
            member.epoch,
            frozenset(member.assigned) if changed else None,
            tuple(self._statuses(member)),
            self.endpoint_epoch,
        )

    def check_commit(self, member_id: str, epoch: int, version: int, partitions: Iterable[TopicIdPartition]) -> None:
        """Check that a member can commit offsets for these partitions.

        An older epoch is accepted for the inputs of active tasks that the member has owned since that epoch. A request
        without a member is accepted only if the group is empty.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, UNSUPPORTED_VERSION.
        """
        if epoch < 0 and not self.members:
            return
        member = self.find(member_id)
        if version < _MODERN_COMMIT:
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, detail="a streams group commits with OffsetCommit v9")
        if epoch < member.epoch and all(self._assignment_epoch(member, partition) <= epoch for partition in partitions):
            return
        self._check_same_epoch(member, epoch)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Check the member epoch of an OffsetFetch. A request without a member id and epoch, as admin clients send it,
        passes.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
        """
        if member_id is not None or epoch >= 0:
            self._check_same_epoch(self.find(member_id or ""), epoch)

    # ---- queries

    @property
    def state(self) -> str:
        """The group's state, as StreamsGroupDescribe reports it."""
        # This state takes precedence: as long as topics are missing, there are no tasks to be stable with.
        return "NotReady" if self.members and not self.configured.ready else super().state

    def subscribed(self, topic: str) -> bool:
        """Return whether the group has members and its topology reads a topic."""
        read = (name for subtopology in self._subtopologies for name in inputs(subtopology))
        return bool(self.members) and topic in read

    def partitions(self, member: StreamsMember, role: TaskRole) -> dict[str, list[int]]:
        """Return the partitions that a member reads for its tasks of a role, by topic."""
        found: dict[str, list[int]] = {}
        for subtopology in self._subtopologies:
            own = sorted(
                task.partition
                for task in member.assigned
                if task.role is role and task.subtopology == subtopology.subtopology_id
            )
            for name in inputs(subtopology):
                # The inputs of a task can have different numbers of partitions. The subtopology has as many tasks as
                # the largest input has partitions.
                indexes = [index for index in own if index < self.configured.sizes.get(name, 0)]
                if indexes:
                    found[name] = indexes
        return found

    # ---- what EpochGroup needs

    @property
    def max_size(self) -> int:
        """The maximum number of members."""
        return self.settings.max_size

    def _new_member(self, member_id: str) -> StreamsMember:
        return StreamsMember(member_id)

    def _session_timeout(self, member: StreamsMember) -> float:
        return self.settings.session_timeout

    def _is_free(self, wanted: Task, member: StreamsMember) -> bool:
        """Return whether no other member has the task active, and no thread of the same process has it in any role."""
        return not any(
            # A task in another role counts too: two threads of a process must not open one state directory.
            task.task_id == wanted.task_id
            and (other.process_id == member.process_id or wanted.role is task.role is TaskRole.ACTIVE)
            for other in self.members.values()
            for task in (*other.assigned, *other.pending_revocation)
        )

    def _refresh_topics(self) -> None:
        if self.topology is not None:
            self.configured = configure(self.topology, self.topics)

    def remove(self, member: StreamsMember) -> None:
        """Remove a member. Removing the last one also clears the shutdown request, so the application can start
        again."""
        super().remove(member)
        # Other members must stop sending it queries.
        if member.endpoint is not None:
            self.endpoint_epoch += 1
        if not self.members:
            self.shutdown_requested_by = None

    # ---- internals

    def _check_topology(self, topology: Topology | None) -> None:
        # An older topology isn't an error: the member gets the status STALE_TOPOLOGY, and tasks from the group's
        # topology.
        if (
            topology is not None
            and self.topology is not None
            and topology.epoch >= self.topology.epoch
            and topology != self.topology
        ):
            raise BrokerError(
                ErrorCode.INVALID_REQUEST,
                detail=f"the topology differs from that of the group (epoch {self.topology.epoch}), which cannot change"
                " while the group exists",
            )

    def _check_owned(self, owned: Tasks | None) -> None:
        """Reject tasks that are not in the topology. While topics are missing, the number of tasks is unknown."""
        for task in owned or ():
            if self.configured.ready and task.partition not in range(self.configured.tasks.get(task.subtopology, 0)):
                raise BrokerError(
                    ErrorCode.INVALID_REQUEST,
                    detail=f"there is no task {task.subtopology}_{task.partition} in the topology",
                )

    def _advance(self, member: StreamsMember, heartbeat: StreamsHeartbeat, now: float) -> None:
        """Update a member from its heartbeat, compute a new target if needed, and reconcile the member."""
        changed = self._update(member, heartbeat)
        if self.topology is None:
            # The first member's topology becomes the group's.
            self.topology, changed = heartbeat.topology, True
        self._refresh_topics()
        # These change the group epoch as well: tasks are assigned or taken away when topics appear or disappear.
        validated_topology_epoch = self.topology.epoch if self.topology is not None and self.configured.ready else NEVER
        inputs_now = (self.configured.hash, validated_topology_epoch, self.settings.assignment_configs)
        if changed or inputs_now != (self.metadata_hash, self.validated_topology_epoch, self.last_assignment_configs):
            self.epoch += 1
            self.metadata_hash, self.validated_topology_epoch, self.last_assignment_configs = inputs_now
            self.changed = True
        if self.epoch > self.assignment_epoch:
            self._assign()
        self._reconcile(member, heartbeat.owned, now)
        member.session_deadline = now + self.settings.session_timeout

    def _update(self, member: StreamsMember, heartbeat: StreamsHeartbeat) -> bool:
        """Update a member from its heartbeat, and return whether it is new or changed."""
        before = replace(member)
        self._set_instance_id(member, heartbeat.instance_id)
        member.rack_id = heartbeat.rack_id or member.rack_id
        member.process_id = heartbeat.process_id or member.process_id
        member.endpoint = heartbeat.endpoint or member.endpoint
        member.tags = member.tags if heartbeat.tags is None else heartbeat.tags
        if heartbeat.topology is not None:
            member.topology_epoch = heartbeat.topology.epoch
        if heartbeat.rebalance_timeout is not None:
            member.rebalance_timeout = heartbeat.rebalance_timeout
        member.client_id, member.client_host = heartbeat.client_id, heartbeat.client_host
        # A member without a session deadline has just been added, which always changes the group.
        changed = vars(before) != vars(member) or member.session_deadline is None
        if changed:
            self._mark_dirty(member)
        return changed

    def _assign(self) -> None:
        stateful = frozenset(
            subtopology.subtopology_id for subtopology in self._subtopologies if subtopology.state_changelog_topics
        )
        specs = {
            member_id: MemberSpec(member.process_id, self.targets[member_id])
            for member_id, member in self.members.items()
        }
        # While a topic is missing, the group has no tasks: members must revoke them rather than process incomplete
        # input.
        tasks = self.configured.tasks if self.configured.ready else {}
        self._set_targets(sticky(specs, tasks, stateful, self.settings.standbys))

    def _statuses(self, member: StreamsMember) -> Iterable[Status]:
        if self.topology is not None and member.topology_epoch < self.topology.epoch:
            detail = f"the member's topology epoch is {member.topology_epoch}, the group's is {self.topology.epoch}"
            yield Status(StatusCode.STALE_TOPOLOGY, detail)
        if self.configured.error is not None:
            yield self.configured.error
        if self.shutdown_requested_by is not None:
            detail = f"member {self.shutdown_requested_by} requested that the application shut down"
            yield Status(StatusCode.SHUTDOWN_APPLICATION, detail)

    def _assignment_epoch(self, member: StreamsMember, partition: TopicIdPartition) -> int:
        """Return the assignment epoch of the member's active task that reads a partition, or the member epoch if there
        is no such task."""
        name = self.topics.name(partition[0])
        for subtopology in self._subtopologies:
            if name in inputs(subtopology):
                task = Task(TaskRole.ACTIVE, subtopology.subtopology_id, partition[1])
                return member.assigned.get(task, member.epoch)
        return member.epoch

    @property
    def _subtopologies(self) -> Sequence[Subtopology]:
        return self.topology.subtopologies if self.topology is not None else ()

    def _check_same_epoch(self, member: StreamsMember, epoch: int) -> None:
        if epoch != member.epoch:
            raise BrokerError(ErrorCode.STALE_MEMBER_EPOCH, detail=f"the member's epoch is {member.epoch}, not {epoch}")

"""A member of a streams group (KIP-1071): the group distributes the tasks of a topology among its members."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, get_args

from aiokproto.application.calls import calling, check_not_awaitable
from aiokproto.cluster import ClusterClient, CoordinatorKind
from aiokproto.cluster.coordinator_requests import CoordinatorRequests
from aiokproto.codec.messages.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskOffset,
)
from aiokproto.codec.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
    TopologyDescription,
)
from aiokproto.config.values import duration, one_of, seconds
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import ClientClosedError, ConfigurationError, KafkaError, error_for
from aiokproto.failures import Situation
from aiokproto.group.arguments import Offsets, Partition, to_offsets, to_partition, to_position
from aiokproto.group.config import LeaveMode
from aiokproto.group.epoch_member import EpochMember
from aiokproto.group.epoch_membership import EpochMembership
from aiokproto.group.streams_topology import (
    EndpointPartitions,
    StatusCode,
    StreamsEndpoint,
    StreamsStatus,
    StreamsTask,
    StreamsTopology,
    TaskRole,
    decode_endpoints,
    decode_tasks,
    encode_tasks,
)
from aiokproto.runtime import create_task, current
from aiokproto.runtime.coroutines import is_async
from aiokproto.runtime.timeouts import apart
from aiokproto.types import GroupMetadata, TopicPartition

log = logging.getLogger("aiokproto.group")

Tasks = frozenset[StreamsTask]
TaskId = tuple[str, int]
"""A subtopology and a partition."""

_DESCRIBE_TIMEOUT = 30.0


class StreamsListener:
    """Handles the changes of a stream processor's tasks. Override the methods you need.

    The group waits for :meth:`revoked`, and the member doesn't change anything else while one of the coroutines is
    running. If any method raises, :meth:`StreamsMember.run` ends and raises the exception. If :meth:`StreamsMember.run`
    is cancelled, it gives a coroutine a second to end, and then leaves it alone.

    :meth:`status_changed` and :meth:`endpoints_changed` may be coroutine functions in a subclass. The member continues
    while these are awaited, one at a time, each with the state at the time of its turn.
    """

    async def assigned(self, tasks: Tasks) -> None:
        """Start these tasks. A task whose role changes is revoked in the old role and assigned in the new one.
        ``tasks`` is empty if the member has joined and there are none yet."""

    async def revoked(self, tasks: Tasks) -> None:
        """End these tasks: commit processed offsets, and close their state. No other member gets them before this
        returns."""

    async def lost(self, tasks: Tasks) -> None:
        """Close the state of these tasks without committing: the group has continued without this member."""

    def removed(self) -> None:
        """Stop processing immediately: the group has removed the member. :meth:`lost` follows, which can await. This
        isn't a coroutine function, because other members might own the tasks by the time it would run."""

    def status_changed(self, statuses: tuple[StreamsStatus, ...]) -> Awaitable[None] | None:
        """Called when the conditions of the group have changed: topics are missing, or a member has requested the end
        of the application."""

    def endpoints_changed(self, endpoints: Mapping[StreamsEndpoint, EndpointPartitions]) -> Awaitable[None] | None:
        """Called when the endpoints where the state of partitions can be queried have changed."""


class StreamsMember:
    """A member of a streams group, which can also have Kafka Streams members.

    ::

        async with ClusterClient(ClusterConfig.parse({"bootstrap_servers": "localhost:9092"})) as cluster:
            member = StreamsMember(cluster, "word-count", topology, listener)
            await member.run()

    Reading and writing records is up to you: read the partitions of :attr:`inputs` (``Consumer.assign()`` without a
    group), and commit their offsets with :meth:`commit`.

    Attributes:
        statuses: The conditions of the group, according to the last response.
        endpoints: Where the state of partitions can be queried.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        group_id: str,
        topology: StreamsTopology,
        listener: StreamsListener,
        *,
        process_id: str | None = None,
        instance_id: str | None = None,
        rack: str | None = None,
        client_tags: Mapping[str, str] | None = None,
        endpoint: StreamsEndpoint | None = None,
        rebalance_timeout_ms: float = 300_000,
        session_timeout_ms: float = 45_000,
        description: TopologyDescription | None = None,
    ) -> None:
        """Create a member that joins with :meth:`run`.

        Args:
            cluster: The cluster, started.
            group_id: The group (``application.id``).
            topology: What the group processes. It must be the same in all members.
            listener: Carries out the changes.
            process_id: The process (a UUID as text): tasks with the same state aren't assigned to the same process
                twice. Members in the same process must pass the same value. If None, this member is alone in its
                process.
            instance_id: The static identity (KIP-345).
            rack: The member's rack, if known.
            client_tags: Tags for spreading standby tasks, such as ``{"zone": "a"}``.
            endpoint: The address for interactive queries, which is shared with other members.
            rebalance_timeout_ms: How long the group waits for tasks to be revoked.
            session_timeout_ms: The broker's ``group.streams.session.timeout.ms``: a heartbeat waits for its response
                for at most a third of this.
            description: A description of the processing graph for people and tools, sent when the broker asks for it
                (KIP-1331).

        Raises:
            ConfigurationError: ``topology`` isn't a :class:`StreamsTopology`, a timeout isn't a duration, or a method
                of the listener is a coroutine function but must not be, or the reverse.
        """
        _check_arguments(topology, listener)
        rebalance_timeout = duration("rebalance_timeout_ms", rebalance_timeout_ms)
        self.statuses: tuple[StreamsStatus, ...] = ()
        self.endpoints: Mapping[StreamsEndpoint, EndpointPartitions] = {}
        self._group_id = group_id
        self._topology = topology
        self._notifier = _Notifier(listener)
        self._api_timeout = cluster.config.api_timeout
        self._description = description
        self._description_wanted = asyncio.Event()
        self._requests = CoordinatorRequests(cluster, CoordinatorKind.GROUP, group_id)
        self._form = _Form(
            topology,
            {
                "rebalance_timeout_ms": int(rebalance_timeout * 1000),
                "process_id": process_id or str(current().uuid()),
                "client_tags": [KeyValue(key=key, value=value) for key, value in sorted((client_tags or {}).items())],
            }
            | ({"rack_id": rack} if rack else {})
            | ({"user_endpoint": Endpoint(host=endpoint.host, port=endpoint.port)} if endpoint else {}),
            self,
        )
        self._membership: EpochMembership[StreamsTask] = EpochMembership(instance_id, _Form.reports)
        self._membership.choose_id()
        self._member: EpochMember[StreamsTask] = EpochMember(
            cluster,
            group_id,
            self._membership,
            self._form,
            _Owner(topology, listener),
            duration("session_timeout_ms", session_timeout_ms),
        )

    # State

    @property
    def member_id(self) -> str:
        """The id that this member has chosen."""
        return self._membership.member_id

    @property
    def metadata(self) -> GroupMetadata:
        """The member's current identity, for the offsets of a transaction (KIP-447). The generation is the member
        epoch, or -1."""
        return self._member.metadata

    @property
    def tasks(self) -> Tasks:
        """The tasks that the member owns."""
        return self._membership.owned

    @property
    def inputs(self) -> frozenset[TopicPartition]:
        """The partitions that the member's active tasks read."""
        return self._topology.inputs_of(self.tasks)

    @property
    def state(self) -> str:
        """The member's state in words."""
        return self._member.state

    @property
    def problem(self) -> str:
        """Why the member cannot join, or has no tasks; empty if nothing is wrong."""
        conditions = "; ".join(f"{each.code.name}: {each.detail}" for each in self.statuses)
        return self._member.problem or conditions

    # What the application has to say

    def report_offsets(self, offsets: Mapping[TaskId, int], ends: Mapping[TaskId, int]) -> None:
        """Report how far the state of tasks is restored. The group uses this to decide when a warm-up task can become
        active.

        Args:
            offsets: Task → how far its state is restored: the sum of the offsets in its changelogs.
            ends: Task → the sum of the end offsets of its changelogs.
        """
        self._form.report(offsets, ends)
        self._member.heartbeat.wake()

    def request_shutdown(self) -> None:
        """Ask all members of the group to end: they get the status SHUTDOWN_APPLICATION."""
        self._form.shutdown = True
        self._member.heartbeat.wake()

    # Lifecycle

    async def run(self) -> None:
        """Be a member until cancelled. Call :meth:`leave` afterwards.

        Raises:
            GroupError: The group has permanently rejected the topology or this member.
            FencedError, AuthorizationError: The group has permanently rejected this member, because another process
                uses the instance id, or an ACL is missing.
            UnsupportedVersionError: The broker doesn't support streams groups.
        """
        self._form.subscribed = True
        self._member.reconciliation.subscription_changed()
        describing = create_task(self._describe(), name="aiokproto-group-describe")
        notifying = create_task(self._notifier.run(), name="aiokproto-group-notify")
        notifying.add_done_callback(self._notifier_ended)
        try:
            await self._member.run()
        finally:
            notifying.remove_done_callback(self._notifier_ended)
            describing.cancel()
            notifying.cancel()
            await asyncio.wait([describing, notifying])

    async def leave(self, timeout_ms: float = 3000, how: LeaveMode = "default") -> None:
        """Leave the group after :meth:`run` has ended. Failures are only logged.

        Args:
            timeout_ms: How long it may take.
            how: As in :meth:`Consumer.close() <aiokproto.Consumer.close>`: a static member is expected to return unless
                this is ``"leave"``; with ``"remain"``, a dynamic member stays until its session expires.
        """
        timeout = seconds("timeout_ms", timeout_ms)
        one_of("how", how, get_args(LeaveMode))
        if how != "remain" or self._membership.instance_id is not None:
            await self._member.leave(timeout, for_good=how == "leave")

    async def commit(
        self, offsets: Offsets[Partition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, KafkaError]:
        """Commit offsets of :attr:`inputs` within ``timeout_ms``, by default ``default_api_timeout_ms``; see
        :meth:`Commits.as_member <aiokproto.group.commits.Commits.as_member>`.

        Returns:
            The partitions that were not committed. A :class:`CommitError` means that a partition isn't an input of the
            member's active tasks (any more), a :class:`BrokerError` that the coordinator rejected its offset.

        Raises:
            ConfigurationError: A partition or an offset is invalid.
        """
        chosen = {to_partition(partition): to_position(at) for partition, at in to_offsets("commit", offsets).items()}
        timeout = self._api_timeout if timeout_ms is None else seconds("timeout_ms", timeout_ms)
        return await self._member.commits.as_member(chosen, timeout)

    # Internals

    def _read_response(self, response: StreamsGroupHeartbeatResponse) -> None:
        """Read the conditions of the group, its endpoints, and whether it wants a description of the topology."""
        statuses = tuple(
            StreamsStatus(StatusCode(each.status_code), each.status_detail) for each in response.status or ()
        )
        if statuses != self.statuses:
            self.statuses = statuses
            self._notifier.call("status_changed", statuses)
        if response.partitions_by_user_endpoint is not None:
            self.endpoints = decode_endpoints(response.partitions_by_user_endpoint)
            self._notifier.call("endpoints_changed", self.endpoints)
        if response.topology_description_required:
            self._description_wanted.set()

    def _notifier_ended(self, task: asyncio.Task[None]) -> None:
        error = ClientClosedError(f"{task.get_name()} was cancelled") if task.cancelled() else task.exception()
        if error is not None:
            self._member.reconciliation.fail(error)

    async def _describe(self) -> None:
        """Send the description of the topology whenever the broker asks for it. If the broker rejects it, never send it
        again."""
        if self._description is None:
            return
        while True:
            await self._description_wanted.wait()
            exchange = _Describe(self._group_id, self.member_id, self._topology.epoch, self._description)
            try:
                response = await self._requests.send(exchange, asyncio.get_running_loop().time() + _DESCRIBE_TIMEOUT)
                if response.error_code:
                    raise error_for(response.error_code, exchange.name, response.error_message)
            except KafkaError as error:
                log.warning("group %s: the topology's description was not stored: %s", self._group_id, error)
                return
            self._description_wanted.clear()


def _check_arguments(topology: object, listener: StreamsListener) -> None:
    if not isinstance(topology, StreamsTopology):
        raise ConfigurationError(f"topology={topology!r}: expected a StreamsTopology")
    # These are called while a response is being handled, where nothing can be awaited: a coroutine would never run.
    if is_async(getattr(listener, "removed", None)):
        raise ConfigurationError("StreamsListener.removed() is not awaited: make it a plain method; lost() can await")
    for name in ("assigned", "revoked", "lost"):
        if not is_async(getattr(listener, name, None)):
            raise ConfigurationError(f"StreamsListener.{name}() is awaited: make it a coroutine function")


def _called(method: Callable[..., object], name: str, *args: Any) -> None:
    with calling(f"StreamsListener.{name}"):
        check_not_awaitable(method(*args), f"StreamsListener.{name}")


async def _awaited(method: Callable[..., Awaitable[object]], name: str, *args: Any) -> None:
    # Run it in a separate task: a coroutine that swallows its cancellation would keep run() from ending.
    with calling(f"StreamsListener.{name}", awaited=True):
        await apart(method(*args), f"StreamsListener.{name}")


class _Notifier:
    """Calls the listener's methods for responses: immediately, or one at a time if they are coroutine functions.

    If several calls of the same method are waiting, only the newest is made: it has the current state, and a method
    that hangs doesn't fill up memory.
    """

    def __init__(self, listener: StreamsListener) -> None:
        self._listener = listener
        self._waiting: dict[str, tuple[Any, ...]] = {}
        self._called = asyncio.Event()

    def call(self, name: str, *args: Any) -> None:
        """Call a method, or make :meth:`run` await it."""
        method = getattr(self._listener, name)
        if is_async(method):
            self._waiting[name] = args
            self._called.set()
        else:
            _called(method, name, *args)

    async def run(self) -> None:
        """Await calls until cancelled. Raises any exception that a method raises."""
        while True:
            await self._called.wait()
            self._called.clear()
            while self._waiting:
                name = next(iter(self._waiting))
                await _awaited(getattr(self._listener, name), name, *self._waiting.pop(name))


class _Form:
    """StreamsGroupHeartbeat."""

    request_type = StreamsGroupHeartbeatRequest
    reports = ("active_tasks", "standby_tasks", "warmup_tasks")

    def __init__(self, topology: StreamsTopology, constant: dict[str, Any], member: StreamsMember) -> None:
        """``constant`` contains the fields that never change. ``member`` reads the rest of each response."""
        # Set by StreamsMember.run(): only then is there a reason to be a member.
        self.subscribed = False
        self.shutdown = False
        self._topology = topology.encode()
        self._constant = constant
        self._member = member
        self._endpoint_epoch = 0
        self._roles: dict[TaskRole, Tasks] = {}
        self._newest: dict[str, list[TaskOffset]] = {}
        self._offsets: dict[str, list[TaskOffset]] = {}
        self._offsets_at = float("-inf")
        self._offset_interval = 0.0

    def report(self, offsets: Mapping[TaskId, int], ends: Mapping[TaskId, int]) -> None:
        """Replace the offsets of tasks. They are sent at the interval that the broker sets."""
        self._newest = {"task_offsets": _task_offsets(offsets), "task_end_offsets": _task_offsets(ends)}

    def fields(self, owned: Tasks, version: int) -> dict[str, Any]:
        now = asyncio.get_running_loop().time()
        if self._newest != self._offsets and now - self._offsets_at >= self._offset_interval:
            self._offsets, self._offsets_at = self._newest, now
        tasks = {name: encode_tasks(owned, role) for name, role in zip(self.reports, TaskRole, strict=True)}
        return {**self._constant, **tasks, **self._offsets, "shutdown_application": self.shutdown}

    def always(self, version: int, joins: bool) -> dict[str, Any]:
        topology = {"topology": self._topology} if joins else {}
        return {"endpoint_information_epoch": self._endpoint_epoch, **topology}

    def target(self, response: StreamsGroupHeartbeatResponse) -> Tasks | None:
        self._endpoint_epoch = response.endpoint_information_epoch
        self._offset_interval = response.task_offset_interval_ms / 1000
        self._member._read_response(response)
        lists = (response.active_tasks, response.standby_tasks, response.warmup_tasks)
        if all(ids is None for ids in lists):
            return None
        for role, ids in zip(TaskRole, lists, strict=True):
            if ids is not None:
                self._roles[role] = decode_tasks(ids, role)
        return frozenset().union(*self._roles.values())


class _Owner:
    """Passes on changes to the listener.

    Attributes:
        owned: The partitions whose offsets the member can commit.
    """

    def __init__(self, topology: StreamsTopology, listener: StreamsListener) -> None:
        self.owned: frozenset[TopicPartition] = frozenset()
        self._topology = topology
        self._listener = listener
        self._tasks: Tasks = frozenset()

    def known(self, items: Tasks) -> Tasks:
        return items

    async def look_up(self, items: Tasks) -> None:
        """Do nothing: tasks have no names to look up."""

    async def assign(self, items: Tasks) -> None:
        self._replace(self._tasks | items)
        await _awaited(self._listener.assigned, "assigned", items)

    async def revoke(self, items: Tasks) -> None:
        await _awaited(self._listener.revoked, "revoked", items)
        self._replace(self._tasks - items)

    async def lose(self, items: Tasks) -> None:
        self._replace(self._tasks - items)
        await _awaited(self._listener.lost, "lost", items)

    async def left(self) -> None:
        """Do nothing: all tasks were already revoked or lost."""

    def lost(self) -> None:
        _called(self._listener.removed, "removed")

    def session(self, confirmed: bool) -> None:
        """Do nothing: no other member gets the tasks before they are revoked or lost."""

    def _replace(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self.owned = self._topology.inputs_of(tasks)


class _Describe:
    """StreamsGroupTopologyDescriptionUpdate."""

    request_type = StreamsGroupTopologyDescriptionUpdateRequest
    situation = Situation(StreamsGroupTopologyDescriptionUpdateRequest.api_key)

    def __init__(self, group_id: str, member_id: str, epoch: int, description: TopologyDescription) -> None:
        self.name = f"StreamsGroupTopologyDescriptionUpdate of group {group_id!r}"
        self._request = StreamsGroupTopologyDescriptionUpdateRequest(
            group_id=group_id, member_id=member_id, topology_epoch=epoch, topology_description=description
        )

    def highest(self) -> int | None:
        return None

    def build(self, version: int) -> StreamsGroupTopologyDescriptionUpdateRequest:
        return self._request

    def failure(self, response: StreamsGroupTopologyDescriptionUpdateResponse) -> ErrorCode:
        return ErrorCode(response.error_code)


def _task_offsets(offsets: Mapping[TaskId, int]) -> list[TaskOffset]:
    return [
        TaskOffset(subtopology_id=subtopology, partition=partition, offset=offset)
        for (subtopology, partition), offset in sorted(offsets.items())
    ]

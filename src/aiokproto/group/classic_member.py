"""The consumer's view of a member of a classic group."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress

from aiokproto.cluster import ClusterClient, CoordinatorKind
from aiokproto.cluster.coordinator_requests import CoordinatorRequests
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import ClientClosedError, FencedError, KafkaError
from aiokproto.failures import Action
from aiokproto.group.assignors import Assignor
from aiokproto.group.changes import PartitionOwner
from aiokproto.group.commits import Commits
from aiokproto.group.config import GroupConfig, LeaveMode
from aiokproto.group.heartbeat import Heartbeat
from aiokproto.group.joining import Joining
from aiokproto.group.membership import Membership, Phase
from aiokproto.group.offsets import FoundOffsets, GroupOffsets
from aiokproto.group.rebalance import RebalanceLoop
from aiokproto.observe.observers import Timing
from aiokproto.runtime import create_task
from aiokproto.types import GroupMetadata, OffsetAndMetadata, TopicPartition

_LEAVE_TIMEOUT = 3.0


class ClassicMember:
    """A member of a classic group: the members compute the assignment.

    :meth:`run` does the work: it joins, and has the owner carry out each change of partitions. A separate task sends
    heartbeats, so neither joining nor callbacks delay them.

    Invariant: when any of its tasks learns that the group has permanently rejected this member, :meth:`run` raises the
    error.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        config: GroupConfig,
        assignors: Sequence[Assignor],
        owner: PartitionOwner,
        member_id: str = "",
    ) -> None:
        """``member_id`` is the id of the consumer-protocol member that this one replaces; empty for a new member."""
        self._config = config
        self._membership = Membership(
            config.group_id, config.group_instance_id, config.session_timeout, config.max_poll_interval, member_id
        )
        requests = CoordinatorRequests(cluster, CoordinatorKind.GROUP, config.group_id)
        self._heartbeat = Heartbeat(cluster, config, self._membership, requests, self, owner)
        self._joining = Joining(cluster, config, assignors, self._membership, requests, self._heartbeat)
        self._offsets = GroupOffsets(cluster, config.group_id)
        self._commits = Commits(cluster, self, self._offsets)
        self._rebalance = RebalanceLoop(cluster, config, self._membership, self._joining, owner, self._commits)

    # Called by the consumer

    def set_topics(self, topics: Iterable[str], pattern: str | None = None) -> None:
        """Replace the subscription. If there are no topics, the member leaves the group. There is never a pattern."""
        self._rebalance.set_topics(frozenset(topics))

    async def matches_patterns(self) -> bool:
        """Return False: the client matches patterns itself, and subscribes to the matching topics."""
        return False

    def metadata_changed(self) -> None:
        """Rejoin if this member leads and the topics have changed since it computed the assignment."""
        if reason := self._joining.outdated():
            self._rebalance.rejoin(reason)

    def watches(self, topic: str) -> bool:
        """Return whether this member leads, and any member of the group subscribes to a topic. If so, the topic is
        assigned once it exists."""
        return self._joining.watches(topic)

    def leave_on_poll_timeout(self, reason: str) -> None:
        """Leave the group until :meth:`rejoin`: the application isn't requesting records."""
        if not self._rebalance.left_reason:
            self._rebalance.set_left_reason(reason)

    def rejoin(self) -> None:
        """Rejoin after :meth:`leave_on_poll_timeout`."""
        if self._rebalance.left_reason:
            self._rebalance.set_left_reason("")

    def enforce_rebalance(self, reason: str) -> None:
        """Trigger a rebalance of the group (KIP-568), unless this member is outside it."""
        if not self._rebalance.outside and not self._rebalance.left_reason:
            self._rebalance.rejoin(reason)

    def check_session(self) -> None:
        """Check now whether the session is still confirmed: see :class:`~aiokproto.group.session.Session`."""
        self._heartbeat.session.check()

    # State

    @property
    def owned(self) -> AbstractSet[TopicPartition]:
        """The partitions that this member owns."""
        return self._rebalance.owned

    @property
    def metadata(self) -> GroupMetadata:
        """The member's current identity. Outside any generation, the coordinator accepts it only while the group is
        empty."""
        member = self._membership
        return GroupMetadata(member.group_id, member.generation, member.member_id, member.instance_id)

    @property
    def outside(self) -> bool:
        """Whether it isn't a member and has no subscription to join for."""
        return self._rebalance.outside

    @property
    def removed(self) -> bool:
        """Whether the member isn't in a generation. If so, it owns nothing, whatever it owned before."""
        return self._membership.generation < 0

    @property
    def rebalances(self) -> Timing:
        """How long it took to join each generation."""
        return self._rebalance.rebalances

    @property
    def joining_since(self) -> float | None:
        """When joining the current generation started (loop time); None if no generation is being joined."""
        return self._rebalance.joining_since

    @property
    def state(self) -> str:
        """The member's state in words."""
        if self._rebalance.left_reason:
            return f"out of group {self._config.group_id!r}: {self._rebalance.left_reason}"
        return f"{self._membership.phase.name.lower()} in group {self._config.group_id!r}"

    @property
    def problem(self) -> str:
        """Why the member has no partitions; empty if nothing is wrong."""
        if (self.outside and not self._rebalance.has_subscription) or self._rebalance.join_ended.is_set() or self.owned:
            return ""
        return f"{self.state}: {self._rebalance.problem}"

    # Lifecycle

    async def run(self) -> None:
        """Be a member whenever there is a subscription, until cancelled.

        Raises:
            GroupError, FencedError, AuthorizationError: The group has permanently rejected this member.
            ClientClosedError: The heartbeat task was cancelled.
        """
        heartbeats = create_task(self._heartbeat.run(), name="aiokproto-heartbeat")
        heartbeats.add_done_callback(self._heartbeats_ended)
        try:
            await self._rebalance.run()
        except FencedError:
            self._fenced()
            raise
        finally:
            heartbeats.cancel()
            with suppress(asyncio.CancelledError, KafkaError):
                await heartbeats

    async def leave(self, reason: str, timeout: float = _LEAVE_TIMEOUT, how: LeaveMode = "default") -> None:
        """Leave the group after :meth:`run` has ended, or stay in it until the session expires (KIP-1092). Failures are
        only logged."""
        self._rebalance.owned.clear()
        if how == "remain":
            self._membership.forget()
        else:
            await self._joining.leave(reason, timeout, for_good=how == "leave")

    # Offsets

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout: float, *, partly: bool = False
    ) -> FoundOffsets:
        """Look up committed offsets; see :meth:`GroupOffsets.lookup <aiokproto.group.offsets.GroupOffsets.lookup>`.

        The request doesn't include the member: classic groups don't check it, and Java's members don't include it
        either.
        """
        at = asyncio.get_running_loop().time() + timeout
        return await self._offsets.lookup(partitions, None, at, partly=partly)

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float, *, blocked: str = ""
    ) -> dict[TopicPartition, KafkaError]:
        """Commit offsets of owned partitions; see :meth:`Commits.as_member
        <aiokproto.group.commits.Commits.as_member>`."""
        return await self._commits.as_member(offsets, timeout, blocked=blocked)

    async def commit_from_outside(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float
    ) -> dict[TopicPartition, KafkaError]:
        """Commit offsets of partitions that the group does not assign; see :meth:`Commits.from_outside
        <aiokproto.group.commits.Commits.from_outside>`."""
        return await self._commits.from_outside(offsets, timeout)

    @property
    def catches_up_alone(self) -> bool:
        """False: a rebalance waits for the callbacks of all members."""
        return False

    def commit_refused(self, code: ErrorCode, generation: int, error: KafkaError) -> Action:
        """See :class:`~aiokproto.group.commits.CommittingMember`."""
        if not self._membership.is_current(generation):
            return Action.REJOIN
        action = self._membership.responded(code, generation, OffsetCommitRequest.api_key)
        self._rebalance.take(action, error)
        if isinstance(error, FencedError):
            # Do this immediately: the loop may be cancelled before it sees the note.
            self._fenced()
        return action

    async def catch_up(self, generation: int) -> None:
        """Wait until a rebalance ends, but don't wait for a JoinGroup, which the coordinator can hold back for a whole
        rebalance timeout.

        While the coordinator is waiting for members to join, it accepts commits of the last generation. If it rejects
        one, all members have joined, and the response is on its way.
        """
        # guard: a commit does not wait for a JoinGroup -> True
        if self._membership.phase is not Phase.JOINING:
            await self._rebalance.join_ended.wait()

    def _fenced(self) -> None:
        """Forget the membership: another member has taken over the instance id, and the partitions with it."""
        self._membership.forget()
        self._rebalance.owned.clear()

    def heartbeat_refused(self, action: Action, error: KafkaError) -> None:
        """Handle a heartbeat response that requires an action."""
        self._rebalance.take(action, error)

    def _heartbeats_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self._rebalance.fail(error or ClientClosedError("the heartbeat task was cancelled"))

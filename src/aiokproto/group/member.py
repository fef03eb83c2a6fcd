"""A member of a consumer group, as the consumer sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress

from aiokproto.cluster import ClusterClient, CoordinatorKind
from aiokproto.cluster.coordinator_requests import CoordinatorRequests
from aiokproto.errors import ClientClosedError, KafkaError
from aiokproto.failures import Action
from aiokproto.group.assignors import Assignor
from aiokproto.group.changes import PartitionOwner
from aiokproto.group.commits import Commits
from aiokproto.group.config import GroupConfig
from aiokproto.group.heartbeat import Heartbeat
from aiokproto.group.joining import Joining
from aiokproto.group.membership import Membership
from aiokproto.group.rebalance import RebalanceLoop
from aiokproto.observe.observers import Timing
from aiokproto.types import GroupMetadata, OffsetAndMetadata, TopicPartition

_LEAVE_TIMEOUT = 3.0


class GroupMember:
    """A member of a group.

    :meth:`run` does the work: it joins, and has the owner carry out each change of partitions. Heartbeats are sent by a
    task of their own, so that neither joining nor callbacks delay them.

    Invariant: whichever task learns that the group refuses this member for good, :meth:`run` raises the error.
    """

    def __init__(
        self, cluster: ClusterClient, config: GroupConfig, assignors: Sequence[Assignor], owner: PartitionOwner
    ) -> None:
        self._config = config
        self._membership = Membership(
            config.group_id, config.group_instance_id, config.session_timeout, config.max_poll_interval
        )
        requests = CoordinatorRequests(cluster, CoordinatorKind.GROUP, config.group_id)
        # Built from the inside out: the loop needs Joining, which needs the heartbeat, whose notes go back to the loop
        # by _take.
        self._heartbeat = Heartbeat(cluster, config, self._membership, requests, self._take, owner.session)
        self._joining = Joining(cluster, config, assignors, self._membership, requests, self._heartbeat)
        self._rebalance = RebalanceLoop(cluster, config, self._membership, self._joining, owner)
        self._commits = Commits(cluster, self._membership, self._rebalance, config.group_id)

    # Called by the consumer

    def set_topics(self, topics: Iterable[str]) -> None:
        """Replace the subscription; without topics the member leaves the group."""
        self._rebalance.set_topics(frozenset(topics))

    def metadata_changed(self) -> None:
        """Rejoin if this member leads and the topics have changed since it computed the assignment."""
        if reason := self._joining.outdated():
            self._rebalance.rejoin(reason)

    def leave_on_poll_timeout(self, reason: str) -> None:
        """Leave the group until :meth:`rejoin`, since the application requests no records."""
        if not self._rebalance.left_reason:
            self._rebalance.set_left_reason(reason)

    def rejoin(self) -> None:
        """Join again after :meth:`leave_on_poll_timeout`."""
        if self._rebalance.left_reason:
            self._rebalance.set_left_reason("")

    def check_session(self) -> None:
        """Check now whether the session is still confirmed: see :class:`~aiokproto.group.heartbeat.Heartbeat`."""
        self._heartbeat.check_session()

    # State

    @property
    def owned(self) -> AbstractSet[TopicPartition]:
        """The partitions that this member owns."""
        return self._rebalance.owned

    @property
    def metadata(self) -> GroupMetadata:
        """Its identity now. Outside of any generation the coordinator accepts it only while the group is empty."""
        member = self._membership
        return GroupMetadata(member.group_id, member.generation, member.member_id, member.instance_id)

    @property
    def outside(self) -> bool:
        """Whether it is not a member, and has no subscription for which to join."""
        return self._rebalance.outside

    @property
    def removed(self) -> bool:
        """Whether the member is in no generation: it owns nothing now, whatever it owned before."""
        return self._membership.generation < 0

    @property
    def rebalances(self) -> Timing:
        """How long it took to join each generation."""
        return self._rebalance.rebalances

    @property
    def joining_since(self) -> float | None:
        """When joining the current generation began (s, the loop's clock); None while none is being joined."""
        return self._rebalance.joining_since

    @property
    def state(self) -> str:
        """The member's state, as text."""
        if self._rebalance.left_reason:
            return f"out of group {self._config.group_id!r}: {self._rebalance.left_reason}"
        return f"{self._membership.phase.name.lower()} in group {self._config.group_id!r}"

    @property
    def trouble(self) -> str:
        """Why the member has no partitions, if something is wrong; else empty."""
        if (self.outside and not self._rebalance.has_subscription) or self._rebalance.settled.is_set() or self.owned:
            return ""
        return f"{self.state}: {self._rebalance.join_failure or 'no response from the coordinator'}"

    # Lifecycle

    async def run(self) -> None:
        """Be a member whenever there is a subscription, until cancelled.

        Raises:
            GroupError, FencedError, AuthorizationError: The group refuses this member for good.
            ConfigurationError: The group agreed on an assignor that this member does not have.
            ClientClosedError: The heartbeat task was cancelled.
        """
        # A task of its own for the member's whole life: the loop may wait minutes for a callback or a JoinGroup, and a
        # session lasts 45 s.
        heartbeats = asyncio.create_task(self._heartbeat.run(), name="aiokproto-heartbeat")
        heartbeats.add_done_callback(self._heartbeats_ended)
        try:
            await self._rebalance.run()
        finally:
            heartbeats.cancel()
            # Its error, if any, has ended the loop already by way of _heartbeats_ended.
            with suppress(asyncio.CancelledError, KafkaError):
                await heartbeats

    async def leave(self, reason: str, timeout: float = _LEAVE_TIMEOUT) -> None:
        """Leave the group after :meth:`run` has ended. Failures are only logged."""
        # The consumer has revoked them; the loop that would have is over.
        self._rebalance.owned.clear()
        await self._joining.leave(reason, timeout)

    # Commits

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float, *, blocked: str = ""
    ) -> None:
        """Commit offsets of owned partitions; see :meth:`Commits.as_member
        <aiokproto.group.commits.Commits.as_member>`."""
        await self._commits.as_member(offsets, timeout, blocked=blocked)

    async def commit_from_outside(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float) -> None:
        """Commit offsets of partitions that the group does not assign. Raises as :meth:`commit`."""
        await self._commits.from_outside(offsets, timeout)

    def _take(self, action: Action, error: KafkaError) -> None:
        self._rebalance.take(action, error)

    def _heartbeats_ended(self, task: asyncio.Task[None]) -> None:
        # Also when run() cancels it at its own end: the note is then never read.
        error = None if task.cancelled() else task.exception()
        self._rebalance.fail(error or ClientClosedError("the heartbeat task was cancelled"))

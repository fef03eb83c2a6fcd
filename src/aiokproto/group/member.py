"""A member of a consumer group: what the consumer sees of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress

from aiokproto.cluster import Cluster
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
from aiokproto.group.requests import GroupRequests
from aiokproto.types import OffsetAndMetadata, TopicPartition

_LEAVE_TIMEOUT = 3.0


class GroupMember:
    """One member of a group.

    :meth:`run` does the work: it has the owner carry out each change of partitions, and nothing else happens to them
    meanwhile. Heartbeats go on, in a task of their own.

    Invariant: whichever task learns that the group refuses this member for good, :meth:`run` raises it.
    """

    def __init__(
        self, cluster: Cluster, config: GroupConfig, assignors: Sequence[Assignor], owner: PartitionOwner
    ) -> None:
        self._config = config
        self._membership = Membership(
            config.group_id, config.group_instance_id, config.session_timeout, config.max_poll_interval
        )
        requests = GroupRequests(cluster, config.group_id)
        self._heartbeat = Heartbeat(cluster, config, self._membership, requests, self._take, owner.session)
        self._joining = Joining(cluster, config, assignors, self._membership, requests, self._heartbeat)
        self._rebalance = RebalanceLoop(cluster, config, self._membership, self._joining, owner)
        self._commits = Commits(cluster, self._membership, self._rebalance, config.group_id)

    # What the consumer says

    def set_topics(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics; to none to leave the group."""
        self._rebalance.set_topics(frozenset(topics))

    def metadata_changed(self) -> None:
        """Join again if this member leads and the cluster is no longer the one that the assignment is for."""
        if reason := self._joining.outdated():
            self._rebalance.rejoin(reason)

    def step_away(self, reason: str) -> None:
        """Leave the group until :meth:`come_back`: nobody asks for its records."""
        if not self._rebalance.away:
            self._rebalance.set_away(reason)

    def come_back(self) -> None:
        """Be a member again after :meth:`step_away`."""
        if self._rebalance.away:
            self._rebalance.set_away("")

    def check_session(self) -> None:
        """Notice now if the session may be over: see :class:`~aiokproto.group.heartbeat.Heartbeat`."""
        self._heartbeat.check_session()

    # What it is

    @property
    def owned(self) -> AbstractSet[TopicPartition]:
        """The partitions that are this member's."""
        return self._rebalance.owned

    @property
    def outside(self) -> bool:
        """Whether it is no member, and does not want to be."""
        return self._rebalance.outside

    @property
    def removed(self) -> bool:
        """Whether the group has gone on without this member, or never had it: nothing that it owned is its own now."""
        return self._membership.generation < 0

    @property
    def state(self) -> str:
        """What the member is doing, for people."""
        if self._rebalance.away:
            return f"out of group {self._config.group_id!r}: {self._rebalance.away}"
        return f"{self._membership.phase.name.lower()} in group {self._config.group_id!r}"

    @property
    def trouble(self) -> str:
        """Why it has no partitions, if that is not as it should be; empty if it is."""
        if (self.outside and not self._rebalance.has_subscription) or self._rebalance.settled.is_set() or self.owned:
            return ""
        return f"{self.state}: {self._rebalance.join_failure or 'the coordinator has not answered'}"

    # Its life

    async def run(self) -> None:
        """Be a member whenever there is a subscription, for ever.

        Raises:
            GroupError, FencedError, AuthorizationError: The group refuses this member for good.
            ConfigurationError: The group agreed on an assignor that cannot be used.
            ClientClosedError: The heartbeat task was cancelled.
        """
        heartbeats = asyncio.create_task(self._heartbeat.run(), name="aiokproto-heartbeat")
        heartbeats.add_done_callback(self._heartbeats_ended)
        try:
            await self._rebalance.run()
        finally:
            heartbeats.cancel()
            with suppress(asyncio.CancelledError, KafkaError):
                await heartbeats

    async def leave(self, reason: str, timeout: float = _LEAVE_TIMEOUT) -> None:
        """Leave the group at once, after :meth:`run` has ended. Failures are only logged."""
        self._rebalance.owned.clear()
        await self._joining.leave(reason, timeout)

    # Commits

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float, *, blocked: str = ""
    ) -> None:
        """Commit what this member owns; see :meth:`Commits.as_member <aiokproto.group.commits.Commits.as_member>`."""
        await self._commits.as_member(offsets, timeout, blocked=blocked)

    async def commit_from_outside(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float) -> None:
        """Commit for partitions that the group does not assign. Raises as :meth:`commit`."""
        await self._commits.from_outside(offsets, timeout)

    def _take(self, action: Action, error: KafkaError) -> None:
        self._rebalance.take(action, error)

    def _heartbeats_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self._rebalance.fail(error or ClientClosedError("the heartbeat task was cancelled"))

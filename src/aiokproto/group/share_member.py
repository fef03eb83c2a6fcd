"""A member of a share group (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiokproto.application.calls import calling, check_not_awaitable
from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from aiokproto.config.values import seconds
from aiokproto.group.epoch_member import EpochMember
from aiokproto.group.epoch_membership import EpochMembership, MemberState
from aiokproto.group.topic_ids import TopicIdPartition, TopicNames, from_topics
from aiokproto.observe.observers import Timing
from aiokproto.types import TopicPartition

_SESSION_TIMEOUT = 45.0
"""The default of ``group.share.session.timeout.ms``, in seconds. Only the timeout of individual heartbeats depends on
it."""


class ShareMember:
    """A member of a share group. It joins with ShareGroupHeartbeat, and reports each assignment.

    Members share partitions: several can have the same partition, and no member waits until another has given one up.
    So each assignment takes effect immediately, and isn't acknowledged.

    Attributes:
        problem: Why there is no assignment; empty if nothing is wrong.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        group_id: str,
        rack: str,
        assigned: Callable[[frozenset[TopicPartition]], None],
    ) -> None:
        """Create a member without a subscription.

        Args:
            cluster: The cluster.
            group_id: The share group.
            rack: This client's rack; empty if unknown.
            assigned: Called in the event loop with the whole new set whenever it changes. The set is empty if the group
                has removed the member, which then rejoins on its own, or if the member has left. If the function
                raises, :meth:`run` ends.
        """
        self._membership: EpochMembership[TopicIdPartition] = EpochMembership()
        # Share sessions use the id, too, even before the client has joined.
        self._membership.choose_id()
        self._form = _Form(rack)
        owner = _Owner(TopicNames(cluster), assigned)
        self._member: EpochMember[TopicIdPartition] = EpochMember(
            cluster, group_id, self._membership, self._form, owner, _SESSION_TIMEOUT
        )

    @property
    def member_id(self) -> str:
        """The id that this client has chosen: a UUID in base64, 22 characters."""
        return self._membership.member_id

    @property
    def member_epoch(self) -> int:
        """The member epoch: 0 before the first response, -1 after leaving."""
        return self._membership.epoch

    @property
    def state(self) -> str:
        """The member's state in words."""
        return self._member.state

    @property
    def problem(self) -> str:
        """Why there is no assignment; empty if nothing is wrong."""
        if self._membership.state is MemberState.JOINING and not self._member.problem:
            return f"{self.state}: no response from the coordinator yet"
        return self._member.problem

    @property
    def removed(self) -> bool:
        """Whether the group has removed the member, and it hasn't rejoined yet."""
        return self._membership.state is MemberState.FENCED

    @property
    def rebalances(self) -> Timing:
        """How long it took to join, and to carry out each assignment."""
        return self._member.reconciliation.rebalances

    @property
    def joining_since(self) -> float | None:
        """When joining, or carrying out an assignment, started (loop time); None if neither is in progress."""
        return self._member.reconciliation.joining_since

    @property
    def heartbeats(self) -> Timing:
        """How long successful heartbeats took."""
        return self._member.heartbeat.latency

    def set_topics(self, topics: frozenset[str]) -> None:
        """Replace the subscription. If there are no topics, the member leaves the group."""
        if topics != self._form.topics:
            self._form.topics = topics
            self._member.reconciliation.subscription_changed()

    async def run(self) -> None:
        """Be a member whenever there is a subscription, until cancelled.

        Raises:
            KafkaError: The group has permanently rejected this member.
        """
        await self._member.run()

    async def leave(self, timeout_ms: float = 3000) -> None:
        """Leave the group within ``timeout_ms``, after :meth:`run` has ended. Failures are only logged."""
        await self._member.leave(seconds("timeout_ms", timeout_ms))


class _Form:
    """ShareGroupHeartbeat."""

    request_type = ShareGroupHeartbeatRequest
    reports = ()

    def __init__(self, rack: str) -> None:
        self.topics: frozenset[str] = frozenset()
        self._rack = rack

    @property
    def subscribed(self) -> bool:
        return bool(self.topics)

    def fields(self, owned: frozenset[TopicIdPartition], version: int) -> dict[str, Any]:
        return {"rack_id": self._rack or None, "subscribed_topic_names": sorted(self.topics)}

    def always(self, version: int, joins: bool) -> dict[str, Any]:
        return {}

    def target(self, response: ShareGroupHeartbeatResponse) -> frozenset[TopicIdPartition] | None:
        return None if response.assignment is None else from_topics(response.assignment.topic_partitions)


class _Owner:
    """Reports the assignment as a whole.

    Attributes:
        owned: Always empty: members of share groups acknowledge records instead of committing offsets.
    """

    owned: frozenset[TopicPartition] = frozenset()

    def __init__(self, names: TopicNames, assigned: Callable[[frozenset[TopicPartition]], None]) -> None:
        self._names = names
        self._assigned = assigned
        self._owned: frozenset[TopicIdPartition] = frozenset()

    def known(self, items: frozenset[TopicIdPartition]) -> frozenset[TopicIdPartition]:
        return self._names.known(items)

    async def look_up(self, items: frozenset[TopicIdPartition]) -> None:
        await self._names.look_up(items)

    async def assign(self, items: frozenset[TopicIdPartition]) -> None:
        self._replace(self._owned | items)
        # Forget names only here: a revocation may be followed by an assignment whose names are already known.
        self._names.retain(self._owned)

    async def revoke(self, items: frozenset[TopicIdPartition]) -> None:
        self._replace(self._owned - items)

    async def lose(self, items: frozenset[TopicIdPartition]) -> None:
        self._replace(self._owned - items)

    async def left(self) -> None:
        self._replace(frozenset())

    def lost(self) -> None:
        self._replace(frozenset())

    def session(self, confirmed: bool) -> None:
        """Do nothing: the member shares its partitions, so it can't lose them to another member."""

    def _replace(self, owned: frozenset[TopicIdPartition]) -> None:
        if owned != self._owned:
            self._owned = owned
            with calling("ShareMember(assigned)"):
                result: object = self._assigned(frozenset(self._names.named(owned)))
                check_not_awaitable(result, "ShareMember(assigned)")

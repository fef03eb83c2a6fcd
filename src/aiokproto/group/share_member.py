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
"""The default of ``group.share.session.timeout.ms``, in seconds. Only the timeout of single heartbeats depends on
it."""


class ShareMember:
    """A member of a share group: joins by ShareGroupHeartbeat, and reports each assignment.

    Members share partitions: several can have the same one, and no member waits until another has given one up. So each
    assignment takes effect at once, and nothing is acknowledged.

    Attributes:
        problem: Why there is no assignment, if something is wrong; else empty.
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
            rack: The rack of this client; empty if unknown.
            assigned: Called in the event loop with the whole new set whenever it changes; with an empty set when the
                group has removed the member, which then joins again by itself, or when it has left. What it raises ends
                :meth:`run`.
        """
        self._membership: EpochMembership[TopicIdPartition] = EpochMembership()
        # The share sessions of a client that hasn't joined yet have the id as well.
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
        """The member's state, as text."""
        return self._member.state

    @property
    def problem(self) -> str:
        """Why there is no assignment, if something is wrong; else empty."""
        if self._membership.state is MemberState.JOINING and not self._member.problem:
            return f"{self.state}: no response from the coordinator yet"
        return self._member.problem

    @property
    def removed(self) -> bool:
        """Whether the group has removed it, and it has not joined again yet."""
        return self._membership.state is MemberState.FENCED

    @property
    def rebalances(self) -> Timing:
        """How long it took to join, and to carry out each assignment."""
        return self._member.reconciliation.rebalances

    @property
    def joining_since(self) -> float | None:
        """When joining, or carrying out an assignment, started (loop time); None while neither is under way."""
        return self._member.reconciliation.joining_since

    @property
    def heartbeats(self) -> Timing:
        """How long heartbeats took that had success."""
        return self._member.heartbeat.latency

    def set_topics(self, topics: frozenset[str]) -> None:
        """Replace the subscription; without topics the member leaves the group."""
        if topics != self._form.topics:
            self._form.topics = topics
            self._member.reconciliation.subscription_changed()

    async def run(self) -> None:
        """Be a member whenever there is a subscription, until cancelled.

        Raises:
            KafkaError: The group refuses this member for good.
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
        owned: Nothing: members of share groups acknowledge records instead of committing offsets.
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
        # Names are forgotten only here: a revocation may be followed by an assignment whose names are known already.
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
        """Nothing: the member shares its partitions, so it can't lose them to another member."""

    def _replace(self, owned: frozenset[TopicIdPartition]) -> None:
        if owned != self._owned:
            self._owned = owned
            with calling("ShareMember(assigned)"):
                result: object = self._assigned(frozenset(self._names.named(owned)))
                check_not_awaitable(result, "ShareMember(assigned)")

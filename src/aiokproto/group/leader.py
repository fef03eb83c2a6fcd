"""The leader's part: computes the assignment from the subscriptions of all members."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from aiokproto.cluster import ClusterClient, ClusterSnapshot
from aiokproto.errors import BrokerError, DeadlineError, DecodeError
from aiokproto.group.assignors import Assignor, Subscription
from aiokproto.group.protocol import decode_subscription, encode_assignment
from aiokproto.plurals import counted

log = logging.getLogger("aiokproto.group")

# Below group.min.session.timeout.ms (6 s by default), for coordinators that expect no heartbeat before SyncGroup.
_TOPIC_TIMEOUT = 5.0


class Leader:
    """Computes the group's assignment.

    Invariant: a mistake of one member does not affect the others. A subscription that cannot be decoded, or a topic
    that does not exist, yields no partitions; the others are assigned theirs.
    """

    def __init__(self, cluster: ClusterClient, group_id: str) -> None:
        self._cluster = cluster
        self._group_id = group_id
        # Topic → number of partitions that the assignment was computed with; 0 for one that was not found.
        self._sizes: dict[str, int] = {}

    async def assign(self, assignor: Assignor, members: Mapping[str, tuple[str | None, bytes]]) -> dict[str, bytes]:
        """Return the encoded assignment of every member.

        Args:
            assignor: The assignor that the group agreed on.
            members: Member id → (instance id, encoded subscription).
        """
        subscriptions = await self.watch(members)
        existing = {topic: size for topic, size in self._sizes.items() if size}
        assigned = assignor.assign(existing, subscriptions)
        return {member_id: encode_assignment(assigned.get(member_id, [])) for member_id in subscriptions}

    async def watch(self, members: Mapping[str, tuple[str | None, bytes]]) -> dict[str, Subscription]:
        """Let :meth:`outdated` compare with the topics as they are now. Returns what the members subscribe to."""
        subscriptions = {member_id: self._decode(member_id, *encoded) for member_id, encoded in members.items()}
        topics = sorted({topic for subscription in subscriptions.values() for topic in subscription.topics})
        # At once, as every member waits for this SyncGroup. A failed lookup is a size of 0, so that no exception leaves
        # the others running.
        sizes = await asyncio.gather(*(self._size(topic) for topic in topics))
        self._sizes = dict(zip(topics, sizes, strict=True))
        return subscriptions

    def outdated(self, snapshot: ClusterSnapshot) -> str:
        """Return why the assignment is outdated; empty if it is not."""
        for topic, size in self._sizes.items():
            info = snapshot.topics.get(topic)
            # A topic missing from the snapshot is no reason: one that was deleted keeps its assignment, and one that
            # expired says nothing.
            if info is not None and len(info.partitions) != size:
                return f"topic {topic!r} has {counted(len(info.partitions), 'partition')}, not {size}"
        return ""

    def _decode(self, member_id: str, instance_id: str | None, encoded: bytes) -> Subscription:
        try:
            return decode_subscription(encoded, instance_id)
        except DecodeError as error:
            log.warning("group %s: subscription of member %s: %s", self._group_id, member_id, error)
            return Subscription(frozenset(), group_instance_id=instance_id)

    async def _size(self, topic: str) -> int:
        """Return the number of partitions of a topic; 0 if it cannot be looked up."""
        try:
            info = await self._cluster.topic(topic, timeout=_TOPIC_TIMEOUT)
        except (BrokerError, DeadlineError) as error:
            log.warning("group %s: a member subscribes to topic %s: %s", self._group_id, topic, error)
            return 0
        return len(info.partitions)

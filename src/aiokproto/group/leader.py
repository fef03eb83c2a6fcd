"""The leader's part: computes the assignment from the subscriptions of all members.

With a hundred members and a hundred thousand partitions, it takes most of a second to decode the subscriptions, run the
assignor, and encode the assignments. All of this runs in one of the client's threads, so the event loop can send
heartbeats and deliver records in the meantime. Only the application's assignors run in the loop, unless they say
otherwise. The thread uses its own copies of the data and can't be stopped: if the attempt to join is cancelled, its
result is dropped, and if the group has started another rebalance, the coordinator rejects it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from aiokproto.application.calls import calling, check_not_awaitable
from aiokproto.cluster import BrokerNode, ClusterClient, ClusterSnapshot, TopicInfo
from aiokproto.errors import BrokerError, DeadlineError, DecodeError
from aiokproto.group.assignors import Assignment, Assignor, Members, Racks, Subscription
from aiokproto.group.assignors.base import subscribed_topics
from aiokproto.group.protocol import SharedTopics, decode_subscription, encode_assignment
from aiokproto.texts import counted, repr_of
from aiokproto.types import TopicPartition

log = logging.getLogger("aiokproto.group")

# This is below group.min.session.timeout.ms (6 s by default), for coordinators that don't accept heartbeats before
# SyncGroup.
_TOPIC_TIMEOUT = 5.0

Encoded = Mapping[str, tuple[str | None, bytes]]
"""Member id → (instance id, encoded subscription)."""


class Leader:
    """Computes the group's assignment.

    Invariant: one member's mistake does not affect the others. A subscription that cannot be decoded, or a topic that
    does not exist, yields no partitions; the rest are assigned normally.
    """

    def __init__(self, cluster: ClusterClient, group_id: str) -> None:
        self._cluster = cluster
        self._group_id = group_id
        # Topic → the number of partitions used to compute the assignment; 0 for a topic that was not found.
        self._sizes: dict[str, int] = {}
        self._racks: Racks = {}

    async def assign(self, assignor: Assignor, members: Encoded) -> dict[str, bytes]:
        """Return the encoded assignment of every member. If cancelled, the result is dropped.

        Args:
            assignor: The assignor that the group agreed on.
            members: Member id → (instance id, encoded subscription).
        """
        subscriptions = await self.watch(members)
        sizes, racks = {topic: size for topic, size in self._sizes.items() if size}, self._racks
        in_thread = assignor.in_thread
        with calling(f"the assignor {assignor.name!r}", awaited=in_thread):
            if in_thread:
                return await self._cluster.run_in_thread(_assigned_in_thread, assignor, sizes, subscriptions, racks)
            assigned = _checked(assignor.assign(sizes, subscriptions, racks), assignor)
        return await self._cluster.run_in_thread(_encoded, assigned, subscriptions)

    async def watch(self, members: Encoded) -> Members:
        """Make :meth:`outdated` compare with the current topics. Return the members' subscriptions."""
        decoded, topics, failures = await self._cluster.run_in_thread(_decoded, members)
        for member_id, error in failures:
            log.warning("group %s: subscription of member %s: %s", self._group_id, member_id, error)
        infos = await self._topics(topics)
        racks: Racks = {}
        if any(subscription.rack_id for subscription in decoded.values()):
            brokers = self._cluster.snapshot.brokers
            racks = await self._cluster.run_in_thread(_racks, list(infos.values()), brokers)
        self._sizes = {topic: len(infos[topic].partitions) if topic in infos else 0 for topic in topics}
        self._racks = racks
        return decoded

    def watches(self, topic: str) -> bool:
        """Return whether :meth:`outdated` compares this topic."""
        return topic in self._sizes

    def outdated(self, snapshot: ClusterSnapshot) -> str:
        """Return why the assignment is outdated; empty if it is not."""
        for topic, size in self._sizes.items():
            info = snapshot.topics.get(topic)
            # A topic missing from the snapshot isn't a reason: a deleted topic keeps its assignment, and an expired
            # topic says nothing.
            if info is None:
                continue
            if len(info.partitions) != size:
                return f"topic {topic!r} has {counted(len(info.partitions), 'partition')}, not {size}"
            if topic in self._racks and self._moved(info, snapshot):
                return f"replicas of topic {topic!r} have moved to other racks"
        return ""

    def _moved(self, info: TopicInfo, snapshot: ClusterSnapshot) -> bool:
        """Return whether replicas have moved to other racks (KIP-881). The racks of stopped brokers aren't known."""
        now = _racks([info], snapshot.brokers)[info.name]
        return now != self._racks[info.name] and any(
            racks != before and all(replica in snapshot.brokers for replica in partition.replicas)
            for racks, before, partition in zip(now, self._racks[info.name], info.partitions, strict=True)
        )

    async def _topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """Return the topics that can be found. If all are known, as they usually are, this returns immediately."""
        known = [name for name in names if name in self._cluster.snapshot.topics]
        infos = dict(await self._cluster.topics(known, _TOPIC_TIMEOUT))
        # It takes seconds to find out that a topic doesn't exist, and until then no member can read the other topics.
        # So this waits only once. After that, metadata refreshes request the topic, and once it exists, the assignment
        # is outdated.
        absent = self._cluster.metadata.absent(names)
        if absent:
            self._cluster.metadata.invalidate("members of the group subscribe to topics that do not exist", absent)
        missing = [name for name in names if name not in infos and name not in absent]
        infos.update({info.name: info for info in await asyncio.gather(*map(self._topic, missing)) if info is not None})
        return infos

    async def _topic(self, name: str) -> TopicInfo | None:
        try:
            return await self._cluster.topic(name, timeout=_TOPIC_TIMEOUT)
        except (BrokerError, DeadlineError) as error:
            log.warning("group %s: a member subscribes to topic %s: %s", self._group_id, name, error)
            return None


# These functions run in a thread. They depend only on their arguments, which no other code changes.


def _decoded(members: Encoded) -> tuple[dict[str, Subscription], list[str], list[tuple[str, DecodeError]]]:
    """Return the subscriptions, their topics, and any members with a malformed subscription, each with its error."""
    subscriptions: dict[str, Subscription] = {}
    failures, shared = [], SharedTopics()
    for member_id, (instance_id, encoded) in members.items():
        try:
            subscriptions[member_id] = decode_subscription(encoded, instance_id, shared)
        except DecodeError as error:
            failures.append((member_id, error))
            subscriptions[member_id] = Subscription(frozenset(), group_instance_id=instance_id)
    return subscriptions, sorted(subscribed_topics(subscriptions)), failures


def _racks(infos: Iterable[TopicInfo], brokers: Mapping[int, BrokerNode]) -> dict[str, list[frozenset[str]]]:
    """Return the racks of each partition's replicas."""
    named = {node.id: node.rack for node in brokers.values() if node.rack}
    by_replicas: dict[tuple[int, ...], frozenset[str]] = {}
    racks: dict[str, list[frozenset[str]]] = {}
    for info in infos:
        racks[info.name] = found = []
        for partition in info.partitions:
            replicas = partition.replicas
            if replicas not in by_replicas:
                by_replicas[replicas] = frozenset(named[replica] for replica in replicas if replica in named)
            found.append(by_replicas[replicas])
    return racks


def _assigned_in_thread(
    assignor: Assignor, sizes: Mapping[str, int], members: Members, racks: Racks
) -> dict[str, bytes]:
    return _encoded(_checked(assignor.assign(sizes, members, racks), assignor), members)


def _checked(assigned: Assignment, assignor: Assignor) -> Assignment:
    check_not_awaitable(assigned, f"the assignor {assignor.name!r}")
    if not isinstance(assigned, Mapping):
        raise TypeError(
            f"the assignor {assignor.name!r} returned {repr_of(assigned, 80)}: expected {{member id: partitions}}"
        )
    return assigned


def _encoded(assigned: Assignment, members: Members) -> dict[str, bytes]:
    nothing: Sequence[TopicPartition] = ()
    return {member_id: encode_assignment(assigned.get(member_id, nothing)) for member_id in members}

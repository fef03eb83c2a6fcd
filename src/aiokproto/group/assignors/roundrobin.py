"""``roundrobin``: all partitions of all topics, assigned one by one in turn."""

from __future__ import annotations

from collections.abc import Mapping

from aiokproto.group.assignors.base import NO_RACKS, Assignment, Assignor, Members, Racks
from aiokproto.group.assignors.hash_order import member_order, string_order
from aiokproto.types import TopicPartition


class RoundRobinAssignor(Assignor):
    """Assigns the sorted partitions to the sorted members in turn, skipping members not subscribed to the topic.

    Balanced within one partition where all members read the same topics.
    """

    name = "roundrobin"
    in_thread = True

    def assign(self, partitions: Mapping[str, int], members: Members, racks: Racks = NO_RACKS) -> Assignment:
        """See :meth:`Assignor.assign`."""
        order = member_order(members)
        wanted = {topic for subscription in members.values() for topic in subscription.topics}
        result: Assignment = {member: [] for member in members}
        turn = 0
        for topic in sorted(wanted & partitions.keys(), key=string_order):
            # Whoever skips a member does so for all partitions of the topic: only the takers are gone through.
            takes = [topic in members[member].topics for member in order]
            takers = [member for member, does in zip(order, takes, strict=True) if does]
            size, first = partitions[topic], sum(takes[:turn]) % len(takers)
            for offset in range(len(takers)):
                numbers = range(offset, size, len(takers))
                result[takers[(first + offset) % len(takers)]] += [TopicPartition(topic, number) for number in numbers]
            if size:
                turn = (order.index(takers[(first + size - 1) % len(takers)]) + 1) % len(order)
        return result

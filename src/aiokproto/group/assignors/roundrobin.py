"""``roundrobin``: all partitions of all topics, assigned one by one in turn."""

from __future__ import annotations

from collections.abc import Mapping

from aiokproto.group.assignors.base import Assignment, Members, Stateless, member_order
from aiokproto.types import TopicPartition


class RoundRobinAssignor(Stateless):
    """Assigns the sorted partitions to the sorted members in turn, skipping members not subscribed to the topic.

    Balanced within one partition where all members read the same topics.
    """

    name = "roundrobin"

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        """See :meth:`Assignor.assign`."""
        order = member_order(members)
        wanted = {topic for subscription in members.values() for topic in subscription.topics}
        result: Assignment = {member: [] for member in members}
        turn = 0
        for topic in sorted(wanted & partitions.keys()):
            for number in range(partitions[topic]):
                while topic not in members[order[turn % len(order)]].topics:
                    turn += 1
                result[order[turn % len(order)]].append(TopicPartition(topic, number))
                turn += 1
        return result

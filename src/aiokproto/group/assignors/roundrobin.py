"""``roundrobin``: all partitions of all topics, assigned to members in turn."""

from __future__ import annotations

from array import array
from collections.abc import Mapping

from aiokproto.group.assignors.base import NO_RACKS, Assignment, Assignor, Members, Racks, subscribed_topics
from aiokproto.group.assignors.hash_order import member_order, string_order
from aiokproto.group.partition_list import PartitionList, TopicNames


class RoundRobinAssignor(Assignor):
    """Assigns the sorted partitions to the sorted members in turn, skipping members that aren't subscribed to the
    topic.

    If all members read the same topics, their numbers of partitions differ by at most one.
    """

    name = "roundrobin"
    in_thread = True

    def assign(self, partitions: Mapping[str, int], members: Members, racks: Racks = NO_RACKS) -> Assignment:
        """See :meth:`Assignor.assign`."""
        order = member_order(members)
        subscribed = subscribed_topics(members)
        topics = TopicNames(sorted((topic for topic in subscribed if partitions.get(topic)), key=string_order))
        assignment = {member: (array("i"), array("i")) for member in members}
        turn = 0
        for topic_index, topic in enumerate(topics):
            # A member that isn't subscribed is skipped for all partitions of the topic, so only the topic's consumers
            # matter.
            consumers = [index for index, member in enumerate(order) if topic in members[member].topics]
            first = sum(index < turn for index in consumers)
            size, width = partitions[topic], len(consumers)
            for offset in range(min(width, size)):
                topic_indexes, numbers = assignment[order[consumers[(first + offset) % width]]]
                numbers.extend(range(offset, size, width))
                topic_indexes.extend([topic_index] * (len(numbers) - len(topic_indexes)))
            turn = consumers[(first + size - 1) % width] + 1
        return {member: PartitionList(topics, *assignment[member]) for member in members}

"""``range``: each member gets consecutive partitions of every topic."""

from __future__ import annotations

from collections.abc import Mapping

from aiokproto.group.assignors.base import Assignment, Members, Stateless, member_order
from aiokproto.types import TopicPartition


class RangeAssignor(Stateless):
    """Assigns topic by topic, so that one member gets the same partition numbers of all topics, as joins need.

    Members are sorted; the first ones get one more where the partitions cannot be split evenly. With many topics that
    adds up for the first members: the price of keeping equal numbers together.
    """

    name = "range"

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        """See :meth:`Assignor.assign`."""
        order = member_order(members)
        result: Assignment = {member: [] for member in members}
        for topic in sorted(partitions):
            takers = [member for member in order if topic in members[member].topics]
            if not takers:
                continue
            each, extra = divmod(partitions[topic], len(takers))
            start = 0
            for index, member in enumerate(takers):
                end = start + each + (index < extra)
                result[member] += [TopicPartition(topic, number) for number in range(start, end)]
                start = end
        return result

"""What a test can look at in one step, which takes a client several requests, or which no request tells."""

from __future__ import annotations

from typing import NamedTuple

from aiokproto.broker.groups.classic_group import ClassicGroup
from aiokproto.broker.groups.store import AnyGroup
from aiokproto.broker.metadata.topics import Partition


class GroupView(NamedTuple):
    """A group, at one moment.

    Attributes:
        group_id: Its name.
        type: ``"classic"``, ``"consumer"``, ``"share"`` or ``"streams"``, as ListGroups names it.
        state: ``"Stable"``, ``"PreparingRebalance"``, …, as its kind's Describe request names it.
        epoch: How manieth generation or, of the newer kinds, epoch this is.
        members: The ids of the members.
    """

    group_id: str
    type: str
    state: str
    epoch: int
    members: frozenset[str]

    @classmethod
    def of(cls, group: AnyGroup) -> GroupView:
        """A group as it is now."""
        members = frozenset(group.members)
        if isinstance(group, ClassicGroup):
            return cls(group.group_id, group.type, group.state.value, group.generation, members)
        return cls(group.group_id, group.type, group.state, group.epoch, members)

    def is_stable(self, members: int | None) -> bool:
        """Whether it is stable with so many members (None: one or more), or empty if that is to be none."""
        if members == 0:
            return not self.members
        return self.state == "Stable" and len(self.members) == (members or len(self.members))


class PartitionView(NamedTuple):
    """A partition, at one moment.

    Attributes:
        leader: The node that leads it; -1 if none does.
        leader_epoch: Grows with each change of leader.
        replicas: The nodes that have it, the preferred leader first.
        isr: Those that are in sync.
        start_offset: The first offset that can be read.
        stable_offset: The end of what is read with ``read_committed``.
        end_offset: The offset that the next record gets; also the high watermark.
        size: The size of its segments, in bytes.
    """

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    start_offset: int
    stable_offset: int
    end_offset: int
    size: int

    @classmethod
    def of(cls, partition: Partition) -> PartitionView:
        """A partition as it is now."""
        log = partition.log
        return cls(
            partition.leader,
            partition.leader_epoch,
            tuple(partition.replicas),
            tuple(partition.isr),
            log.start_offset,
            log.last_stable_offset,
            log.end_offset,
            log.size,
        )

"""Snapshots of groups and partitions, for assertions. A client would need several requests for the same information."""

from __future__ import annotations

from typing import NamedTuple

from aiokproto.broker.groups.classic_group import ClassicGroup
from aiokproto.broker.groups.store import AnyGroup
from aiokproto.broker.metadata.topics import Partition


class GroupView(NamedTuple):
    """A snapshot of a group.

    Attributes:
        group_id: The group id.
        type: ``"classic"``, ``"consumer"``, ``"share"`` or ``"streams"``, as in ListGroups.
        state: ``"Stable"``, ``"PreparingRebalance"``, …, as in the Describe response of its type.
        epoch: The generation of a classic group, the group epoch of the other types.
        members: The ids of the members.
    """

    group_id: str
    type: str
    state: str
    epoch: int
    members: frozenset[str]

    @classmethod
    def of(cls, group: AnyGroup) -> GroupView:
        """Take a snapshot of a group."""
        members = frozenset(group.members)
        if isinstance(group, ClassicGroup):
            return cls(group.group_id, group.type, group.state.value, group.generation, members)
        return cls(group.group_id, group.type, group.state, group.epoch, members)

    def is_stable(self, members: int | None) -> bool:
        """Return whether the group is stable with ``members`` members (None: at least one), or empty if ``members`` is
        0."""
        if members == 0:
            return not self.members
        return self.state == "Stable" and len(self.members) == (members or len(self.members))


class PartitionView(NamedTuple):
    """A snapshot of a partition.

    Attributes:
        leader: The id of the leader, or -1 if the partition has none.
        leader_epoch: The leader epoch.
        replicas: The ids of the replicas, the preferred leader first.
        isr: The ids of the in-sync replicas.
        start_offset: The log start offset.
        stable_offset: The last stable offset: ``read_committed`` consumers read up to here.
        end_offset: The offset of the next record; also the high watermark.
        size: The total size of the segments, in bytes.
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
        """Take a snapshot of a partition."""
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

"""Conversion between classic and consumer groups while they have members (KIP-848, online migration).

Generations and group epochs form one sequence: an upgrade turns a member's generation into its member epoch, and a
fenced member never becomes valid again.
"""

from __future__ import annotations

from aiokproto.broker.groups.assignment import TopicIdPartitions
from aiokproto.broker.groups.classic_group import ClassicGroup
from aiokproto.broker.groups.classic_member import ClassicMember, select_protocol
from aiokproto.broker.groups.consumer.classic_protocol import to_partition_ids, to_topic_names
from aiokproto.broker.groups.consumer.group import ConsumerGroup
from aiokproto.broker.groups.consumer.member import ClassicProtocolMetadata, ConsumerMember
from aiokproto.broker.groups.consumer.subscriptions import Topics
from aiokproto.broker.groups.consumer_protocol import (
    CONSUMER,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    version_of,
)
from aiokproto.broker.groups.epoch_group import GroupSettings


def upgrade(group: ClassicGroup, topics: Topics, settings: GroupSettings, now: float) -> ConsumerGroup:
    """Return a consumer group with the members of a classic group and their assignments.

    Raises:
        BrokerError: INCONSISTENT_GROUP_PROTOCOL if a subscription or assignment is malformed.
    """
    upgraded = ConsumerGroup(group.group_id, topics, settings)
    # Both epochs are equal because the classic assignment is the target until the member that causes the upgrade bumps
    # the epoch.
    upgraded.epoch = upgraded.assignment_epoch = group.generation
    taken: set[tuple[bytes, int]] = set()
    members: list[ConsumerMember] = []
    for member in group.members.values():
        # A group without a protocol hasn't completed a rebalance yet.
        metadata = member.metadata(group.protocol) or member.protocols[0][1]
        subscription = decode_subscription(metadata)
        # A classic leader can assign a partition to two members, but in a consumer group a partition has one owner.
        partitions = to_partition_ids(decode_assignment(member.assignment), topics) - taken
        taken |= partitions
        members.append(
            ConsumerMember(
                member.member_id,
                member.instance_id,
                subscription.rack_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout,
                frozenset(subscription.topics),
                classic=ClassicProtocolMetadata(member.session_timeout, member.protocols),
                epoch=group.generation,
                previous_epoch=group.generation,
                assigned=dict.fromkeys(partitions, group.generation),
            )
        )
    upgraded.restore(members, {member.member_id: frozenset(member.assigned) for member in members}, now)
    return upgraded


def can_downgrade(group: ConsumerGroup) -> bool:
    """Whether the group has members, and all of them use the classic protocol."""
    return bool(group.members) and all(member.classic is not None for member in group.members.values())


def downgrade(group: ConsumerGroup, into: ClassicGroup, generation: int, now: float) -> None:
    """Restore a new classic group with the members of a consumer group and their target assignments.

    The members get their targets rather than their current assignments, because a classic group can't finish the
    reconciliation.
    """
    members = []
    for member in group.members.values():
        classic_metadata = member.classic
        assert classic_metadata is not None, "only members of the classic protocol can be in a classic group"
        target: TopicIdPartitions = group.targets[member.member_id]
        members.append(
            ClassicMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                classic_metadata.session_timeout,
                member.rebalance_timeout,
                classic_metadata.protocols,
                encode_assignment(to_topic_names(target, group.topics), version_of(classic_metadata.protocols[0][1])),
            )
        )
    into.restore(
        members,
        now,
        generation=generation,
        protocol_type=CONSUMER,
        protocol=select_protocol(members),
        # Any leader will do: the next rebalance elects one.
        leader=members[0].member_id,
    )
    # The consumer group's tombstones are already written: without this record, a crash would lose the members.
    into.changed = True

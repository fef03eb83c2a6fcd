"""From a classic group to a consumer group and back, while its members stay (KIP-848)."""

from __future__ import annotations

from aiokproto.broker.groups.assignment import TopicIdPartitions
from aiokproto.broker.groups.classic_group import ClassicGroup
from aiokproto.broker.groups.classic_member import ClassicMember
from aiokproto.broker.groups.consumer.classic_protocol import names_of, places_of
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
from aiokproto.broker.groups.protocols import select_protocol


def upgrade(group: ClassicGroup, topics: Topics, settings: GroupSettings, now: float) -> ConsumerGroup:
    """A consumer group with the members of a classic one, each with what it had.

    Raises:
        BrokerError: INCONSISTENT_GROUP_PROTOCOL: what its members told each other cannot be read.
    """
    upgraded = ConsumerGroup(group.group_id, topics, settings)
    upgraded.epoch = upgraded.assignment_epoch = group.generation
    taken: set[tuple[bytes, int]] = set()
    members: list[ConsumerMember] = []
    for member in group.members.values():
        metadata = member.metadata(group.protocol) or member.protocols[0][1]
        subscription = decode_subscription(metadata)
        # The leader was free to assign a partition twice; here it can be one member's alone.
        places = places_of(decode_assignment(member.assignment), topics) - taken
        taken |= places
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
                assigned=dict.fromkeys(places, group.generation),
            )
        )
    upgraded.restore(members, {member.member_id: frozenset(member.assigned) for member in members}, now)
    return upgraded


def can_downgrade(group: ConsumerGroup) -> bool:
    """Whether nobody is left who needs a consumer group."""
    return bool(group.members) and all(member.classic is not None for member in group.members.values())


def downgrade(group: ConsumerGroup, into: ClassicGroup, now: float) -> None:
    """Have a new classic group get a consumer group's members, each with what it should have."""
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
                encode_assignment(names_of(target, group.topics), version_of(classic_metadata.protocols[0][1])),
            )
        )
    into.restore(
        members,
        now,
        generation=group.epoch,
        protocol_type=CONSUMER,
        protocol=select_protocol(members),
        leader=members[0].member_id,
    )
    into.changed = True

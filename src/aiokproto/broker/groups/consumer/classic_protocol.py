"""Members of a consumer group that still use the classic protocol (KIP-848, online migration).

To such a member the group looks like a classic group with cooperative rebalancing in which it is never the leader:

- JoinGroup returns at once. It counts as a heartbeat that reports the subscription and the owned partitions. The
  generation is the member epoch.
- SyncGroup returns the member's current assignment. Assignments in the request are ignored.
- Heartbeat returns REBALANCE_IN_PROGRESS while a JoinGroup is needed for the next step of the reconciliation.

Cooperative rebalancing makes this work: the member revokes partitions, and joins again without them.
"""

from __future__ import annotations

from aiokproto.broker.groups.assignment import TopicIdPartitions
from aiokproto.broker.groups.classic_member import Identity, JoinRequest, JoinResult, SyncResult
from aiokproto.broker.groups.consumer.group import ConsumerGroup
from aiokproto.broker.groups.consumer.member import ClassicProtocolMetadata, ConsumerHeartbeat, ConsumerMember
from aiokproto.broker.groups.consumer.subscriptions import Topics
from aiokproto.broker.groups.consumer_protocol import (
    CONSUMER,
    decode_subscription,
    encode_assignment,
    flatten,
    version_of,
)
from aiokproto.broker.groups.reconciliation import MemberState
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.runtime import current


def join(group: ConsumerGroup, request: JoinRequest, now: float) -> JoinResult:
    """Apply a JoinGroup."""
    # The id is a UUID, as in the consumer protocol, because the client may be upgraded and keep it.
    member_id = request.member_id or str(current().uuid())
    try:
        group.check_not_full(member_id)
        if request.protocol_type != CONSUMER or not _has_common_protocol(group, request):
            raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        # The first assignor's metadata is enough: the server assigns, so the client's choice of assignor doesn't
        # matter.
        subscription = decode_subscription(request.protocols[0][1])
        # The id isn't remembered, unlike in a classic group: nothing waits for members that haven't joined.
        if request.requires_known_member_id and not request.member_id and request.instance_id is None:
            return JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        member = _get_or_add_member(group, request, member_id)
    except BrokerError as error:
        return JoinResult(error.code, request.member_id)
    member.classic = ClassicProtocolMetadata(request.session_timeout, request.protocols)
    heartbeat = ConsumerHeartbeat(
        member_id,
        member.epoch,
        request.instance_id,
        subscription.rack_id,
        request.rebalance_timeout,
        frozenset(subscription.topics),
        regex="",
        owned=to_partition_ids(flatten(subscription.owned_partitions), group.topics),
        client_id=request.client_id,
        client_host=request.client_host,
    )
    group.advance(member, heartbeat, now)
    # As in Kafka, the deadline applies until the member sends SyncGroup: it must not hold an assignment without
    # fetching it.
    member.rebalance_deadline = now + request.rebalance_timeout
    return JoinResult(ErrorCode.NONE, member_id, member.epoch, CONSUMER, request.protocols[0][0])


def sync(
    group: ConsumerGroup, identity: Identity, protocol_type: str | None, protocol: str | None, now: float
) -> SyncResult:
    """Apply a SyncGroup."""
    try:
        member, classic_metadata = _classic_member(group, identity)
        name, metadata = classic_metadata.protocols[0]
        if (protocol_type or CONSUMER) != CONSUMER or (protocol or name) != name:
            raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        # If the member has to revoke partitions, this SyncGroup must return the smaller assignment first. The member
        # joins again afterwards anyway.
        if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            _expect_join(member, now)
            raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS)
    except BrokerError as error:
        return SyncResult(error.code)
    member.rebalance_deadline = None
    member.session_deadline = now + classic_metadata.session_timeout
    assignment = encode_assignment(to_topic_names(frozenset(member.assigned), group.topics), version_of(metadata))
    return SyncResult(ErrorCode.NONE, CONSUMER, name, assignment)


def heartbeat(group: ConsumerGroup, identity: Identity, now: float) -> ErrorCode:
    """Apply a Heartbeat."""
    try:
        member, classic_metadata = _classic_member(group, identity)
    except BrokerError as error:
        return error.code
    member.session_deadline = now + classic_metadata.session_timeout
    # The partitions that it was waiting for are free now. It gets them with a JoinGroup.
    released = member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)
    if member.epoch == group.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS and not released:
        return ErrorCode.NONE
    _expect_join(member, now)
    return ErrorCode.REBALANCE_IN_PROGRESS


def leave(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """Apply LeaveGroup for one member. The instance id alone is enough to identify a static member."""
    known = group.static_member(instance_id)
    try:
        member = group.find(member_id or (known.member_id if known else ""), instance_id)
    except BrokerError as error:
        return error.code
    # A member that uses the consumer protocol leaves with a heartbeat. A classic request must not remove it.
    if member.classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    group.remove(member)
    return ErrorCode.NONE


def to_partition_ids(named: set[tuple[str, int]], topics: Topics) -> TopicIdPartitions:
    """Replace topic names with topic ids. Topics that do not exist are left out."""
    found = {(topics.find(name), index) for name, index in named}
    return frozenset((topic[0], index) for topic, index in found if topic is not None)


def to_topic_names(partitions: TopicIdPartitions, topics: Topics) -> set[tuple[str, int]]:
    """Replace topic ids with topic names. Topics that do not exist are left out."""
    found = {(topics.name(topic_id), index) for topic_id, index in partitions}
    return {(name, index) for name, index in found if name is not None}


def _has_common_protocol(group: ConsumerGroup, request: JoinRequest) -> bool:
    """Return whether the member supports a protocol that all other classic members support."""
    names = {name for name, _ in request.protocols}
    others = [member.classic for member in group.members.values() if member.member_id != request.member_id]
    for classic_metadata in others:
        if classic_metadata is not None:
            names &= {name for name, _ in classic_metadata.protocols}
    return bool(names)


def _get_or_add_member(group: ConsumerGroup, request: JoinRequest, member_id: str) -> ConsumerMember:
    if request.instance_id is None:
        return group.members.get(member_id) or group.add(member_id)
    if request.member_id:
        return group.find(request.member_id, request.instance_id)
    known = group.static_member(request.instance_id)
    return group.add(member_id) if known is None else group.replace(known, member_id)


def _classic_member(group: ConsumerGroup, identity: Identity) -> tuple[ConsumerMember, ClassicProtocolMetadata]:
    """Return a member that uses the classic protocol. Raises :class:`BrokerError` if it doesn't, or if its epoch
    differs."""
    member = group.find(identity.member_id, identity.instance_id)
    if member.classic is None:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
    if member.epoch != identity.generation:
        raise BrokerError(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


def _expect_join(member: ConsumerMember, now: float) -> None:
    # The timeout starts at the first heartbeat that requires a JoinGroup. Later heartbeats must not extend it.
    if member.rebalance_deadline is None:
        member.rebalance_deadline = now + member.rebalance_timeout

"""JoinGroup: join a classic group. The request waits until the rebalance has collected all members.

v1: rebalance timeout. v4: MEMBER_ID_REQUIRED (KIP-394). v5: static members (KIP-345). v7: protocol type, nullable
protocol name (KIP-559). v9: ``skip_assignment`` (KIP-814).
"""

from __future__ import annotations

from aiokproto.broker.groups.classic_member import JoinRequest, JoinResult
from aiokproto.broker.groups.store import check_group_id
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (Required(Operation.READ, ResourceType.GROUP),)


async def handle(request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
    try:
        # As in Kafka, check the timeout before the coordinator: any node can tell whether it's valid.
        check_group_id(request.group_id)
        _check_session(request, context)
        context.groups.check_coordinator(request.group_id, context.node.node_id)
    except BrokerError as error:
        result = JoinResult(error.code, request.member_id)
    else:
        result = await context.groups.join(request.group_id, _parse(request, context))
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        # The field is nullable since v7.
        protocol_name=result.protocol if context.version >= 7 else result.protocol or "",
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
            )
            for member in result.members
        ],
    )


def _check_session(request: JoinGroupRequest, context: RequestContext) -> None:
    number = context.state.options.number
    shortest, longest = number("group.min.session.timeout.ms"), number("group.max.session.timeout.ms")
    if not shortest <= request.session_timeout_ms <= longest:
        raise BrokerError(ErrorCode.INVALID_SESSION_TIMEOUT)


def _parse(request: JoinGroupRequest, context: RequestContext) -> JoinRequest:
    # v0 has one timeout for both.
    rebalance_ms = request.rebalance_timeout_ms if context.version >= 1 else request.session_timeout_ms
    return JoinRequest(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        session_timeout=request.session_timeout_ms / 1000,
        rebalance_timeout=max(rebalance_ms, 0) / 1000,
        client_id=context.client_id,
        # Java's InetAddress prints a slash before the address. Tools show it, and it's stored in the group's record.
        client_host=f"/{context.client_host}",
        # Earlier clients don't know MEMBER_ID_REQUIRED (KIP-394).
        requires_known_member_id=context.version >= 4,
        # Since v9, a static leader that rejoins stays the leader, but doesn't have to assign partitions (KIP-814).
        supports_skipping_assignment=context.version >= 9,
    )

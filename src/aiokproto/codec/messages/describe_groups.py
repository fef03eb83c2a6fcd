"""DescribeGroups (ApiKey 15): state and members of classic groups."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Request, Response, Route, Struct, field, int16, int32, string


class DescribedGroupMember(Struct):
    member_id: string = ""
    group_instance_id: string | None = field("4+", default=None, ignorable=True)
    client_id: string = ""
    client_host: string = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(Struct):
    error_code: int16 = 0
    error_message: string | None = field("6+", default=None)
    group_id: GroupId = ""
    group_state: string = ""
    protocol_type: string = ""
    protocol_data: string = ""
    members: list[DescribedGroupMember] = field(factory=list)
    authorized_operations: int32 = field("3+", default=-2147483648)


class DescribeGroupsResponse(Response, key=15, versions="0-6", flexible="5+", client_throttles="2+"):
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    groups: list[DescribedGroup] = field(factory=list)


class DescribeGroupsRequest(Request[DescribeGroupsResponse], key=15, versions="0-6", flexible="5+", route=Route.GROUP):
    groups: list[GroupId] = field(factory=list)
    include_authorized_operations: bool = field("3+", default=False)

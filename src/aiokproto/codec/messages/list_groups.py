"""ListGroups (ApiKey 16): the groups that a broker coordinates."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Request, Response, Route, Struct, field, int16, int32, string


class ListedGroup(Struct):
    group_id: GroupId = ""
    protocol_type: string = ""
    group_state: string = field("4+", default="", ignorable=True)
    group_type: string = field("5+", default="", ignorable=True)


class ListGroupsResponse(Response, key=16, versions="0-5", flexible="3+", client_throttles="2+"):
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16 = 0
    groups: list[ListedGroup] = field(factory=list)


class ListGroupsRequest(Request[ListGroupsResponse], key=16, versions="0-5", flexible="3+", route=Route.EVERY):
    states_filter: list[string] = field("4+", factory=list)
    types_filter: list[string] = field("5+", factory=list)

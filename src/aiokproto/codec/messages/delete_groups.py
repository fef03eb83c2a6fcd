"""DeleteGroups (ApiKey 42): remove empty groups with their offsets."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Request, Response, Route, Struct, field, int16, int32, string


class DeletableGroupResult(Struct):
    group_id: GroupId = ""
    error_code: int16 = 0
    error_message: string | None = field("3+", default=None, ignorable=True)


class DeleteGroupsResponse(Response, key=42, versions="0-3", flexible="2+", client_throttles="1+"):
    throttle_time_ms: int32 = 0
    results: list[DeletableGroupResult] = field(factory=list)


class DeleteGroupsRequest(Request[DeleteGroupsResponse], key=42, versions="0-3", flexible="2+", route=Route.GROUP):
    groups_names: list[GroupId] = field(factory=list)

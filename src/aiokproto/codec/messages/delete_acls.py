"""DeleteAcls (ApiKey 31): remove the access rules that match filters."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class DeleteAclsMatchingAcl(Struct):
    error_code: int16 = 0
    error_message: string | None = ""
    resource_type: int8 = 0
    resource_name: string = ""
    pattern_type: int8 = field("1+", default=3)
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0


class DeleteAclsFilterResult(Struct):
    error_code: int16 = 0
    error_message: string | None = ""
    matching_acls: list[DeleteAclsMatchingAcl] = field(factory=list)


class DeleteAclsResponse(Response, key=31, versions="0-3", flexible="2+", client_throttles="1+"):
    throttle_time_ms: int32 = 0
    filter_results: list[DeleteAclsFilterResult] = field(factory=list)


class DeleteAclsFilter(Struct):
    resource_type_filter: int8 = 0
    resource_name_filter: string | None = ""
    pattern_type_filter: int8 = field("1+", default=3)
    principal_filter: string | None = ""
    host_filter: string | None = ""
    operation: int8 = 0
    permission_type: int8 = 0


class DeleteAclsRequest(Request[DeleteAclsResponse], key=31, versions="0-3", flexible="2+", route=Route.CONTROLLER):
    filters: list[DeleteAclsFilter] = field(factory=list)

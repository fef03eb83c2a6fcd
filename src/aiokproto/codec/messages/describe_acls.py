"""DescribeAcls (ApiKey 29): the access rules that match a filter."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class AclDescription(Struct):
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0


class DescribeAclsResource(Struct):
    resource_type: int8 = 0
    resource_name: string = ""
    pattern_type: int8 = field("1+", default=3)
    acls: list[AclDescription] = field(factory=list)


class DescribeAclsResponse(Response, key=29, versions="0-3", flexible="2+", client_throttles="1+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
    resources: list[DescribeAclsResource] = field(factory=list)


class DescribeAclsRequest(Request[DescribeAclsResponse], key=29, versions="0-3", flexible="2+", route=Route.ANY):
    resource_type_filter: int8 = 0
    resource_name_filter: string | None = ""
    pattern_type_filter: int8 = field("1+", default=3)
    principal_filter: string | None = ""
    host_filter: string | None = ""
    operation: int8 = 0
    permission_type: int8 = 0

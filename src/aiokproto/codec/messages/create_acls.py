"""CreateAcls (ApiKey 30): add access rules."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class AclCreationResult(Struct):
    error_code: int16 = 0
    error_message: string | None = ""


class CreateAclsResponse(Response, key=30, versions="0-3", flexible="2+", client_throttles="1+"):
    throttle_time_ms: int32 = 0
    results: list[AclCreationResult] = field(factory=list)


class AclCreation(Struct):
    resource_type: int8 = 0
    resource_name: string = ""
    resource_pattern_type: int8 = field("1+", default=3)
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0


class CreateAclsRequest(Request[CreateAclsResponse], key=30, versions="0-3", flexible="2+", route=Route.CONTROLLER):
    creations: list[AclCreation] = field(factory=list)

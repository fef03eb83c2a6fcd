"""AlterConfigs (ApiKey 33): replace whole configurations; IncrementalAlterConfigs is what to use."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class AlterConfigsResourceResponse(Struct):
    error_code: int16 = 0
    error_message: string | None = ""
    resource_type: int8 = field(default=0, key=True)
    resource_name: string = field(default="", key=True)


class AlterConfigsResponse(Response, key=33, versions="0-2", flexible="2+", client_throttles="1+"):
    throttle_time_ms: int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(factory=list)


class AlterableConfig(Struct):
    name: string = ""
    value: string | None = ""


class AlterConfigsResource(Struct):
    resource_type: int8 = field(default=0, key=True)
    resource_name: string = field(default="", key=True)
    configs: list[AlterableConfig] = field(factory=list)


class AlterConfigsRequest(Request[AlterConfigsResponse], key=33, versions="0-2", flexible="2+", route=Route.CONFIGURED):
    resources: list[AlterConfigsResource] = field(factory=list)
    validate_only: bool = False

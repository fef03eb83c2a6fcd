"""ListConfigResources (ApiKey 74): the resources that have a configuration, by type."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class ConfigResource(Struct):
    resource_name: string = ""
    resource_type: int8 = field("1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Response, key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    config_resources: list[ConfigResource] = field(factory=list)


class ListConfigResourcesRequest(
    Request[ListConfigResourcesResponse], key=74, versions="0-1", flexible="0+", route=Route.ANY
):
    resource_types: list[int8] = field("1+", factory=list)

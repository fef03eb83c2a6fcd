"""DescribeConfigs (ApiKey 32): the configuration of topics, brokers and other resources."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class DescribeConfigsSynonym(Struct):
    name: string = ""
    value: string | None = ""
    source: int8 = 0


class DescribeConfigsResourceResult(Struct):
    name: string = ""
    value: string | None = ""
    read_only: bool = False
    is_default: bool = field("0", default=False)
    config_source: int8 = field("1+", default=-1, ignorable=True)
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsSynonym] = field("1+", factory=list, ignorable=True)
    config_type: int8 = field("3+", default=0, ignorable=True)
    documentation: string | None = field("3+", default="", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: int16 = 0
    error_message: string | None = ""
    resource_type: int8 = field(default=0, key=True)
    resource_name: string = field(default="", key=True)
    configs: list[DescribeConfigsResourceResult] = field(factory=list)


class DescribeConfigsResponse(Response, key=32, versions="0-4", flexible="4+", client_throttles="2+"):
    throttle_time_ms: int32 = 0
    results: list[DescribeConfigsResult] = field(factory=list)


class DescribeConfigsResource(Struct):
    resource_type: int8 = field(default=0, key=True)
    resource_name: string = field(default="", key=True)
    configuration_keys: list[string] | None = field(factory=list)


class DescribeConfigsRequest(
    Request[DescribeConfigsResponse], key=32, versions="0-4", flexible="4+", route=Route.CONFIGURED
):
    resources: list[DescribeConfigsResource] = field(factory=list)
    include_synonyms: bool = field("1+", default=False)
    include_documentation: bool = field("3+", default=False)

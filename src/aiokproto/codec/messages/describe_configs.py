"""DescribeConfigs (ApiKey 32): the configuration of topics, brokers and other resources."""

from __future__ import annotations

from aiokproto.codec.config_names import holds_secret
from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class DescribeConfigsSynonym(Struct):
    """A place that the configuration can get its value from, in order of precedence."""

    name: string = ""
    """Name of the configuration in that place, such as `log.retention.ms` for `retention.ms`."""
    value: string | None = ""
    """Value in that place; null: unset or sensitive."""
    source: int8 = 0
    """Kind of place, as in `config_source`."""


class DescribeConfigsResourceResult(Struct):
    """A configuration of the resource."""

    name: string = ""
    """Configuration name."""
    value: string | None = field(default="", secret=holds_secret)
    """Value in effect; null: unset or sensitive."""
    read_only: bool = False
    """True: it cannot be changed at run time."""
    is_default: bool = field("0", default=False)
    """True: the value is the default. Later versions use `config_source` instead."""
    config_source: int8 = field("1+", default=-1, ignorable=True)
    """Where the value comes from: 1 topic, 2 dynamic broker, 3 dynamic default of all brokers, 4 static broker file,
    5 default, 6 dynamic broker logger, 7 client metrics, 8 group; -1: not sent; 0: unknown."""
    is_sensitive: bool = False
    """True: a secret, whose value is not returned."""
    synonyms: list[DescribeConfigsSynonym] = field("1+", factory=list, ignorable=True)
    config_type: int8 = field("3+", default=0, ignorable=True)
    """0: unknown; 1: boolean; 2: string; 3: int; 4: short; 5: long; 6: double; 7: list; 8: class; 9: password."""
    documentation: string | None = field("3+", default="", ignorable=True)
    """Description for users; null: not requested, or none."""


class DescribeConfigsResult(Struct):
    """The configurations of one resource."""

    error_code: int16 = 0
    error_message: string | None = ""
    resource_type: int8 = field(default=0, key=True)
    """Kind of resource: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group."""
    resource_name: string = field(default="", key=True)
    """Name of the resource."""
    configs: list[DescribeConfigsResourceResult] = field(factory=list)


class DescribeConfigsResponse(Response, key=32, versions="0-4", flexible="4+", client_throttles="2+"):
    """One result per resource. Errors: see `DescribeConfigsRequest`."""

    throttle_time_ms: int32 = 0
    results: list[DescribeConfigsResult] = field(factory=list)


class DescribeConfigsResource(Struct):
    """A resource to describe."""

    resource_type: int8 = field(default=0, key=True)
    """Kind of resource: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group."""
    resource_name: string = field(default="", key=True)
    """Name of the resource."""
    configuration_keys: list[string] | None = field(factory=list)
    """Names of configurations to return; null: all."""


class DescribeConfigsRequest(
    Request[DescribeConfigsResponse], key=32, versions="0-4", flexible="4+", route=Route.CONFIGURED
):
    """Read the configurations of topics, brokers, broker loggers, groups and client metrics.

    Sent by admin tools to the broker that a broker resource names, or to any broker for other resources.

    Errors: per resource: TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST.
    """

    resources: list[DescribeConfigsResource] = field(factory=list)
    include_synonyms: bool = field("1+", default=False)
    """True: return the places that each value can come from (KIP-226)."""
    include_documentation: bool = field("3+", default=False)
    """True: return each configuration's description (KIP-569)."""

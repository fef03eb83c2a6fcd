"""AlterConfigs (ApiKey 33): replace whole configurations. Use IncrementalAlterConfigs instead."""

from __future__ import annotations

from aiokproto.codec.config_names import holds_secret
from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class AlterConfigsResourceResponse(Struct):
    """The result of one resource."""

    error_code: int16 = 0
    error_message: string | None = ""
    resource_type: int8 = field(default=0, key=True)
    """Kind of resource: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group."""
    resource_name: string = field(default="", key=True)
    """Name of the resource."""


class AlterConfigsResponse(Response, key=33, versions="0-2", flexible="2+", client_throttles="1+"):
    """One result per resource. Errors: see `AlterConfigsRequest`."""

    throttle_time_ms: int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(factory=list)


class AlterableConfig(Struct):
    """A configuration and its new value."""

    name: string = ""
    """Configuration name."""
    value: string | None = field(default="", secret=holds_secret)
    """New value; null: remove the configuration, so the default applies."""


class AlterConfigsResource(Struct):
    """A resource, and its complete new configuration."""

    resource_type: int8 = field(default=0, key=True)
    """Kind of resource: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group."""
    resource_name: string = field(default="", key=True)
    """Name of the resource."""
    configs: list[AlterableConfig] = field(factory=list)


class AlterConfigsRequest(Request[AlterConfigsResponse], key=33, versions="0-2", flexible="2+", route=Route.CONFIGURED):
    """Replace the configurations of resources: whatever the request doesn't list returns to its default.
    IncrementalAlterConfigs (KIP-339) changes individual values.

    Sent by admin tools to the broker that a broker resource names, and to any broker (which forwards it to the
    controller) for other resources.

    Errors: per resource: CLUSTER_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED,
    INVALID_CONFIG, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, BROKER_ID_NOT_REGISTERED, POLICY_VIOLATION,
    UNKNOWN_SERVER_ERROR.
    """

    resources: list[AlterConfigsResource] = field(factory=list)
    validate_only: bool = False
    """True: only check the request, without changing anything."""

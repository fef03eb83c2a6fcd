"""IncrementalAlterConfigs (ApiKey 44): set, delete, append to or subtract from individual configuration values."""

from __future__ import annotations

from aiokproto.codec.config_names import holds_secret
from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class AlterConfigsResourceResponse(Struct):
    """The result of one resource."""

    error_code: int16 = 0
    error_message: string | None = ""
    resource_type: int8 = field(default=0, key=True)
    """As in the request."""
    resource_name: string = field(default="", key=True)
    """As in the request."""


class IncrementalAlterConfigsResponse(Response, key=44, versions="0-1", flexible="1+"):
    """One result per resource. Errors: see `IncrementalAlterConfigsRequest`."""

    throttle_time_ms: int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(factory=list)
    """Results; each resource succeeds or fails as a whole."""


class AlterableConfig(Struct):
    """An option to change."""

    name: string = ""
    """Configuration key."""
    config_operation: int8 = 0
    """0: set; 1: delete (back to the default); 2: append to a list; 3: subtract from a list."""
    value: string | None = field(default="", secret=holds_secret)
    """Value to set, or list items (comma-separated) to append or subtract; null for delete."""


class AlterConfigsResource(Struct):
    """A resource, and the options to change."""

    resource_type: int8 = field(default=0, key=True)
    """2: topic; 4: broker; 8: broker logger; 16: client metrics; 32: group."""
    resource_name: string = field(default="", key=True)
    """Topic, broker id, subscription or group; empty for a broker: the default of all brokers."""
    configs: list[AlterableConfig] = field(factory=list)


class IncrementalAlterConfigsRequest(
    Request[IncrementalAlterConfigsResponse], key=44, versions="0-1", flexible="1+", route=Route.CONFIGURED
):
    """Change individual configuration values, leaving all others as they are (KIP-339).

    Sent by admin tools to the controller (in KRaft, any broker forwards it), or to the broker that a broker or broker
    logger resource names.

    Errors: per resource: INVALID_REQUEST, INVALID_CONFIG, POLICY_VIOLATION, UNKNOWN_TOPIC_OR_PARTITION,
    INVALID_TOPIC_EXCEPTION, BROKER_ID_NOT_REGISTERED, CLUSTER_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED, NOT_CONTROLLER, UNKNOWN_SERVER_ERROR.
    """

    resources: list[AlterConfigsResource] = field(factory=list)
    validate_only: bool = False
    """True: check the changes without making them."""

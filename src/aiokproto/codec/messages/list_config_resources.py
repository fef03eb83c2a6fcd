"""ListConfigResources (ApiKey 74): list the resources that have a configuration, by type."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class ConfigResource(Struct):
    """A resource that has a configuration."""

    resource_name: string = ""
    """Name of the resource: a subscription, topic, broker id or group."""
    resource_type: int8 = field("1+", default=16, ignorable=True)
    """2: topic; 4: broker; 8: broker logger; 16: client metrics; 32: group. Version 0 only lists client metrics."""


class ListConfigResourcesResponse(Response, key=74, versions="0-1", flexible="0+"):
    """The resources of the requested types. Errors: see `ListConfigResourcesRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    config_resources: list[ConfigResource] = field(factory=list)


class ListConfigResourcesRequest(
    Request[ListConfigResourcesResponse], key=74, versions="0-1", flexible="0+", route=Route.ANY
):
    """List resources that have a configuration (KIP-1142; version 0, KIP-714, lists client metrics subscriptions).

    Sent by admin tools to any broker.

    Errors: CLUSTER_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION (a resource type that cannot be listed).
    """

    resource_types: list[int8] = field("1+", factory=list)
    """2: topic; 4: broker; 8: broker logger; 16: client metrics; 32: group. Empty: all of them."""

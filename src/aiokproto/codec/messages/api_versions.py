"""ApiVersions (ApiKey 18): the APIs and versions a broker serves, and the features of the cluster."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string


class ApiVersion(Struct):
    """An ApiKey and the versions of it that the broker serves."""

    api_key: int16 = 0
    """The ApiKey."""
    min_version: int16 = 0
    """Lowest version served."""
    max_version: int16 = 0
    """Highest version served."""


class SupportedFeatureKey(Struct):
    """A feature, and the levels that this broker supports (KIP-584)."""

    name: string = ""
    """Feature name, such as `metadata.version`."""
    min_version: int16 = 0
    """Lowest level supported."""
    max_version: int16 = 0
    """Highest level supported."""


class FinalizedFeatureKey(Struct):
    """A feature, and the level that the cluster has finalized."""

    name: string = ""
    """Feature name, such as `metadata.version`."""
    max_version_level: int16 = 0
    """Finalized level, which is in use."""
    min_version_level: int16 = 0
    """Lowest finalized level."""


class ApiVersionsResponse(Response, key=18, versions="0-5", flexible="3+", header_tags="none", client_throttles="2+"):
    """The APIs and versions of the broker. The response header doesn't have tagged fields in any version, so a client
    can read it before it knows what the broker supports. Errors: see `ApiVersionsRequest`."""

    error_code: int16 = 0
    api_keys: list[ApiVersion] = field(factory=list)
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = field("3+", tag=0, factory=list, ignorable=True)
    finalized_features_epoch: int64 = field("3+", tag=1, default=-1, ignorable=True)
    """Epoch of `finalized_features`, which grows with every change; -1: unknown."""
    finalized_features: list[FinalizedFeatureKey] = field("3+", tag=2, factory=list, ignorable=True)
    zk_migration_ready: bool = field("3+", tag=3, default=False, ignorable=True)
    """True: the KRaft controllers were ready to migrate the cluster from ZooKeeper (KIP-866)."""


class ApiVersionsRequest(Request[ApiVersionsResponse], key=18, versions="0-5", flexible="3+", route=Route.BROKER):
    """List the APIs and versions that the broker serves. A broker that doesn't know the request's version responds with
    UNSUPPORTED_VERSION in version 0, and its own range (KIP-511).

    Sent by clients, brokers and controllers as the first request of a connection, before SASL authentication.

    Errors: UNSUPPORTED_VERSION, INVALID_REQUEST (malformed client name or version), REBOOTSTRAP_REQUIRED (another
    cluster or node than the client expects).
    """

    client_software_name: string = field("3+", default="", ignorable=True)
    """Name of the client library: letters, digits, `-` and `.`."""
    client_software_version: string = field("3+", default="", ignorable=True)
    """Version of the client library, with the same characters."""
    cluster_id: string | None = field("5+", default=None, ignorable=True)
    """Id of the cluster that the client expects to reach; null: not checked."""
    node_id: int32 = field("5+", default=-1, ignorable=True)
    """Id of the broker that the client expects to reach; -1: not checked."""

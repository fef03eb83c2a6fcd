"""ApiVersions (ApiKey 18): the APIs and versions a broker serves, and the features of the cluster."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string


class ApiVersion(Struct):
    api_key: int16 = 0
    min_version: int16 = 0
    max_version: int16 = 0


class SupportedFeatureKey(Struct):
    name: string = ""
    min_version: int16 = 0
    max_version: int16 = 0


class FinalizedFeatureKey(Struct):
    name: string = ""
    max_version_level: int16 = 0
    min_version_level: int16 = 0


class ApiVersionsResponse(Response, key=18, versions="0-5", flexible="3+", header_tags="none", client_throttles="2+"):
    error_code: int16 = 0
    api_keys: list[ApiVersion] = field(factory=list)
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = field("3+", tag=0, factory=list, ignorable=True)
    finalized_features_epoch: int64 = field("3+", tag=1, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field("3+", tag=2, factory=list, ignorable=True)
    zk_migration_ready: bool = field("3+", tag=3, default=False, ignorable=True)


class ApiVersionsRequest(Request[ApiVersionsResponse], key=18, versions="0-5", flexible="3+", route=Route.BROKER):
    client_software_name: string = field("3+", default="", ignorable=True)
    client_software_version: string = field("3+", default="", ignorable=True)
    cluster_id: string | None = field("5+", default=None, ignorable=True)
    node_id: int32 = field("5+", default=-1, ignorable=True)

"""UpdateFeatures (ApiKey 57): raise or lower the finalized features of the cluster."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class UpdatableFeatureResult(Struct):
    feature: string = field(default="", key=True)
    error_code: int16 = 0
    error_message: string | None = ""


class UpdateFeaturesResponse(Response, key=57, versions="0-2", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
    results: list[UpdatableFeatureResult] = field("0-1", factory=list, ignorable=True)


class FeatureUpdateKey(Struct):
    feature: string = field(default="", key=True)
    max_version_level: int16 = 0
    allow_downgrade: bool = field("0", default=False)
    upgrade_type: int8 = field("1+", default=1)


class UpdateFeaturesRequest(
    Request[UpdateFeaturesResponse], key=57, versions="0-2", flexible="0+", route=Route.CONTROLLER
):
    timeout_ms: int32 = 60000
    feature_updates: list[FeatureUpdateKey] = field(factory=list)
    validate_only: bool = field("1+", default=False)

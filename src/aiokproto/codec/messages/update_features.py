"""UpdateFeatures (ApiKey 57): raise or lower the finalized features of the cluster."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class UpdatableFeatureResult(Struct):
    """The result of one feature."""

    feature: string = field(default="", key=True)
    """Name of the feature."""
    error_code: int16 = 0
    error_message: string | None = ""


class UpdateFeaturesResponse(Response, key=57, versions="0-2", flexible="0+"):
    """Up to version 1, one result per feature; since version 2, one result for all. Errors: see
    `UpdateFeaturesRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
    results: list[UpdatableFeatureResult] = field("0-1", factory=list, ignorable=True)
    """Results by feature, up to version 1."""


class FeatureUpdateKey(Struct):
    """A feature, and the level to set."""

    feature: string = field(default="", key=True)
    """Name of the feature, such as "metadata.version"."""
    max_version_level: int16 = 0
    """Level to finalize; 0 or lower: delete the finalized feature."""
    allow_downgrade: bool = field("0", default=False)
    """True: a lower level is accepted (version 0)."""
    upgrade_type: int8 = field("1+", default=1)
    """1: upgrade only; 2: safe downgrade, without loss of metadata; 3: unsafe downgrade, which can lose metadata."""


class UpdateFeaturesRequest(
    Request[UpdateFeaturesResponse], key=57, versions="0-2", flexible="0+", route=Route.CONTROLLER
):
    """Change the finalized feature levels of the cluster (KIP-584, KIP-778).

    Sent by admin tools to the controller; in KRaft, any broker forwards it. Since version 2, either all updates are
    made or none.

    Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, INVALID_REQUEST, INVALID_UPDATE_VERSION,
    FEATURE_UPDATE_FAILED, REQUEST_TIMED_OUT; per feature (versions 0-1): the same.
    """

    timeout_ms: int32 = 60000
    """How long the controller may take, in ms."""
    feature_updates: list[FeatureUpdateKey] = field(factory=list)
    validate_only: bool = field("1+", default=False)
    """True: check the updates without making them."""

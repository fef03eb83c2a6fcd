"""UpdateFeatures: set the levels of the cluster's features (KIP-584). v1: upgrade types. v2: all or nothing."""

from __future__ import annotations

from aiokproto.broker.metadata import features
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3

REQUIRES = (Required(Operation.ALTER, ResourceType.CLUSTER),)


async def handle(request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    results = [_check(requested, context) async for requested in context.each(request.feature_updates)]
    failed = next((result for result in results if result.error_code), None)
    # Check again, because another request may have changed levels in the meantime. There can't be many features to
    # check: an unknown one would have failed.
    last = {requested.feature: requested for requested in request.feature_updates}
    if failed is None and not request.validate_only:
        failed = next((result for update in last.values() if (result := _check(update, context)).error_code), None)
    if failed is None and not request.validate_only:
        features.finalize(context.state.metadata, {name: update.max_version_level for name, update in last.items()})
    if failed is not None and context.version >= 2:
        return UpdateFeaturesResponse(error_code=failed.error_code, error_message=failed.error_message)
    return UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None, results=results)


def _check(requested: FeatureUpdateKey, context: RequestContext) -> UpdatableFeatureResult:
    result = UpdatableFeatureResult(feature=requested.feature, error_code=ErrorCode.NONE, error_message=None)
    downgrade = requested.allow_downgrade or requested.upgrade_type in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE)
    valid = requested.upgrade_type in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE)
    try:
        if not valid:
            raise BrokerError(
                ErrorCode.INVALID_UPDATE_VERSION, detail=f"upgrade type {requested.upgrade_type} is unknown"
            )
        features.check(context.state.metadata, requested.feature, requested.max_version_level, downgrade=downgrade)
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.detail
    return result

"""ApiVersions: the APIs and versions that this node serves, and the cluster's features (KIP-511, KIP-584).

v5 (KIP-1242): REBOOTSTRAP_REQUIRED if the client expects another cluster or node. If the request's version isn't
served, the dispatcher responds in version 0.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiokproto.broker.metadata import features
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from aiokproto.codec.schema import Versions
from aiokproto.error_codes import ErrorCode

REQUIRES: tuple[Required, ...] = ()


async def handle(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    response = describe(context.served, context.version)
    levels = features.levels(context.state.metadata)
    response.finalized_features_epoch = features.epoch(context.state.metadata)
    response.finalized_features = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in levels.items()
        if level
    ]
    if context.connection.sasl is not None:
        context.connection.sasl.api_versions_answered()
    other_cluster = request.cluster_id not in (None, context.state.cluster_id)
    other_node = request.node_id not in (-1, context.node.node_id)
    if other_cluster or other_node:
        response.error_code = ErrorCode.REBOOTSTRAP_REQUIRED
    return response


def describe(served: Mapping[int, Versions], version: int = 0) -> ApiVersionsResponse:
    """Return the response that lists ``served``."""
    # Kafka clients that send older versions fail on a feature whose minimum level is 0.
    lowest = 0 if version >= 4 else 1
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=[
            ApiVersion(api_key=key, min_version=versions.lowest, max_version=versions.highest)
            for key, versions in served.items()
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=max(levels.lowest, lowest), max_version=levels.highest)
            for name, levels in features.SUPPORTED.items()
        ],
    )

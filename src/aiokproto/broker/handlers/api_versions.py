"""ApiVersions v0-5: what is served. v5 (KIP-1242) also checks whether the client means this cluster and this node.

A request in an unknown version is answered by the dispatcher, in version 0.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiokproto.broker.context import Context
from aiokproto.codec.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from aiokproto.codec.schema import Versions
from aiokproto.error_codes import ErrorCode

REQUEST = ApiVersionsRequest
VERSIONS = "0-5"


async def handle(request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    response = describe(context.served)
    other_cluster = request.cluster_id not in (None, context.state.cluster_id)
    other_node = request.node_id not in (-1, context.node.node_id)
    if other_cluster or other_node:
        response.error_code = ErrorCode.REBOOTSTRAP_REQUIRED
    return response


def describe(served: Mapping[int, Versions]) -> ApiVersionsResponse:
    """The response that lists ``served``."""
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=[
            ApiVersion(api_key=key, min_version=versions.lowest, max_version=versions.highest)
            for key, versions in served.items()
        ],
        finalized_features_epoch=0,
    )

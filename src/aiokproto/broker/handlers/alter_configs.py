"""AlterConfigs: replace all options of topics and groups. IncrementalAlterConfigs has taken its place."""

from __future__ import annotations

from aiokproto.broker.handlers.changed_configs import Change, answer
from aiokproto.broker.request_context import RequestContext
from aiokproto.codec.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            answer(AlterConfigsResourceResponse, asked, _replacement(asked), context, dry_run=request.validate_only)
            for asked in request.resources
        ],
    )


def _replacement(asked: AlterConfigsResource) -> Change:
    return lambda _: {config.name: config.value for config in asked.configs}

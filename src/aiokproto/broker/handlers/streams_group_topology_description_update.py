"""StreamsGroupTopologyDescriptionUpdate: refused, as by a Kafka broker without the plugin that stores descriptions."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from aiokproto.error_codes import ErrorCode

REQUIRES = (Required(Operation.READ, ResourceType.GROUP),)


async def handle(
    request: StreamsGroupTopologyDescriptionUpdateRequest, context: RequestContext
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    return StreamsGroupTopologyDescriptionUpdateResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message="the embedded broker does not store topology descriptions",
    )

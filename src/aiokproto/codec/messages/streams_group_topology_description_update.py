"""StreamsGroupTopologyDescriptionUpdate (ApiKey 93): hand in the description of a Streams group's topology."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class StreamsGroupTopologyDescriptionUpdateResponse(Response, key=93, versions="0", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = field(default=None)


class TopologyDescriptionNode(Struct):
    name: string
    node_type: int8
    source_topics: list[string]
    sink_topic: string | None = field(default=None)
    stores: list[string]
    successors: list[string]


class TopologyDescriptionSubtopology(Struct):
    subtopology_id: string
    nodes: list[TopologyDescriptionNode]


class TopologyDescriptionGlobalStore(Struct):
    source: TopologyDescriptionNode
    processor: TopologyDescriptionNode


class TopologyDescription(Struct):
    subtopologies: list[TopologyDescriptionSubtopology]
    global_stores: list[TopologyDescriptionGlobalStore]


class StreamsGroupTopologyDescriptionUpdateRequest(
    Request[StreamsGroupTopologyDescriptionUpdateResponse], key=93, versions="0", flexible="0+", route=Route.GROUP
):
    group_id: string
    member_id: string
    topology_epoch: int32
    topology_description: TopologyDescription

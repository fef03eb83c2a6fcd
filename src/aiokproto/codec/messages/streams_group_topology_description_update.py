"""StreamsGroupTopologyDescriptionUpdate (ApiKey 93): hand in the description of a Streams group's topology."""

from __future__ import annotations

from aiokproto.codec.schema import (
    GroupId,
    Request,
    Response,
    Route,
    Struct,
    TopicName,
    field,
    int8,
    int16,
    int32,
    string,
)


class StreamsGroupTopologyDescriptionUpdateResponse(Response, key=93, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None


class TopologyDescriptionNode(Struct):
    name: string = ""
    node_type: int8 = 0
    source_topics: list[TopicName] = field(factory=list, mentioned=True)
    sink_topic: TopicName | None = field(default=None, mentioned=True)
    stores: list[string] = field(factory=list)
    successors: list[string] = field(factory=list)


class TopologyDescriptionSubtopology(Struct):
    subtopology_id: string = ""
    nodes: list[TopologyDescriptionNode] = field(factory=list)


class TopologyDescriptionGlobalStore(Struct):
    source: TopologyDescriptionNode = field(factory=TopologyDescriptionNode)
    processor: TopologyDescriptionNode = field(factory=TopologyDescriptionNode)


class TopologyDescription(Struct):
    subtopologies: list[TopologyDescriptionSubtopology] = field(factory=list)
    global_stores: list[TopologyDescriptionGlobalStore] = field(factory=list)


class StreamsGroupTopologyDescriptionUpdateRequest(
    Request[StreamsGroupTopologyDescriptionUpdateResponse], key=93, versions="0", flexible="0+", route=Route.GROUP
):
    group_id: GroupId = ""
    member_id: string = ""
    topology_epoch: int32 = 0
    topology_description: TopologyDescription = field(factory=TopologyDescription)

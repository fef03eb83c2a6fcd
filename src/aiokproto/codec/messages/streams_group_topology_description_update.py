"""StreamsGroupTopologyDescriptionUpdate (ApiKey 93): store the description of a Streams group's topology (KIP-1331)."""

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
    """Whether the description was stored. Errors: see `StreamsGroupTopologyDescriptionUpdateRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None


class TopologyDescriptionNode(Struct):
    """A node of the processing graph."""

    name: string = ""
    """Name of the node, such as "KSTREAM-SOURCE-0000000000"."""
    node_type: int8 = 0
    """1: source; 2: processor; 3: sink."""
    source_topics: list[TopicName] = field(factory=list, mentioned=True)
    """Topics a source reads; empty: other kinds of node, or chosen at run time."""
    sink_topic: TopicName | None = field(default=None, mentioned=True)
    """Topic a sink writes to; null: other kinds of node, or chosen at run time."""
    stores: list[string] = field(factory=list)
    """State stores a processor uses."""
    successors: list[string] = field(factory=list)
    """Names of the nodes that receive this node's output."""


class TopologyDescriptionSubtopology(Struct):
    """A connected part of the processing graph."""

    subtopology_id: string = ""
    """Id of the subtopology, unique in the topology."""
    nodes: list[TopologyDescriptionNode] = field(factory=list)


class TopologyDescriptionGlobalStore(Struct):
    """A state store that every instance reads completely."""

    source: TopologyDescriptionNode = field(factory=TopologyDescriptionNode)
    """Node that reads the topic of the store."""
    processor: TopologyDescriptionNode = field(factory=TopologyDescriptionNode)
    """Node that fills the store."""


class TopologyDescription(Struct):
    """The topology as the application describes it, for people and tools."""

    subtopologies: list[TopologyDescriptionSubtopology] = field(factory=list)
    global_stores: list[TopologyDescriptionGlobalStore] = field(factory=list)


class StreamsGroupTopologyDescriptionUpdateRequest(
    Request[StreamsGroupTopologyDescriptionUpdateResponse], key=93, versions="0", flexible="0+", route=Route.GROUP
):
    """Store the description of a topology, for StreamsGroupDescribe.

    Sent by a member of the group to the group coordinator, after a heartbeat response with
    `topology_description_required`.

    Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, GROUP_AUTHORIZATION_FAILED,
    GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID (join again), STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, UNSUPPORTED_VERSION
    (the broker has no plugin that stores descriptions), INVALID_REQUEST.
    """

    group_id: GroupId = ""
    """Group of the member (`application.id`)."""
    member_id: string = ""
    """Id of the member."""
    topology_epoch: int32 = 0
    """Epoch of the topology described."""
    topology_description: TopologyDescription = field(factory=TopologyDescription)
    """The description."""

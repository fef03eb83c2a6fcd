"""Key and value of the coordinator's streams group topology records."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Payload, Struct, TopicName, field, int16, int32, string


class StreamsGroupTopologyKey(Payload, versions="0"):
    group_id: GroupId = ""


class TopicConfig(Struct):
    key: string = ""
    value: string = ""


class TopicInfo(Struct):
    name: TopicName = ""
    partitions: int32 = 0
    replication_factor: int16 = 0
    topic_configs: list[TopicConfig] = field(factory=list)


class CopartitionGroup(Struct):
    source_topics: list[int16] = field(factory=list)
    source_topic_regex: list[int16] = field(factory=list)
    repartition_source_topics: list[int16] = field(factory=list)


class Subtopology(Struct):
    subtopology_id: string = ""
    source_topics: list[TopicName] = field(factory=list, mentioned=True)
    source_topic_regex: list[string] = field(factory=list)
    state_changelog_topics: list[TopicInfo] = field(factory=list)
    repartition_sink_topics: list[TopicName] = field(factory=list, mentioned=True)
    repartition_source_topics: list[TopicInfo] = field(factory=list)
    copartition_groups: list[CopartitionGroup] = field(factory=list)


class StreamsGroupTopologyValue(Payload, versions="0", flexible="0+"):
    epoch: int32 = 0
    subtopologies: list[Subtopology] = field(factory=list)

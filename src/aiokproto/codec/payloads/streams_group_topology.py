"""Key and value of the coordinator's streams group topology records."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, int16, int32, string


class StreamsGroupTopologyKey(Payload, versions="0"):
    group_id: string


class TopicConfig(Struct):
    key: string
    value: string


class TopicInfo(Struct):
    name: string
    partitions: int32
    replication_factor: int16
    topic_configs: list[TopicConfig]


class CopartitionGroup(Struct):
    source_topics: list[int16]
    source_topic_regex: list[int16]
    repartition_source_topics: list[int16]


class Subtopology(Struct):
    subtopology_id: string
    source_topics: list[string]
    source_topic_regex: list[string]
    state_changelog_topics: list[TopicInfo]
    repartition_sink_topics: list[string]
    repartition_source_topics: list[TopicInfo]
    copartition_groups: list[CopartitionGroup]


class StreamsGroupTopologyValue(Payload, versions="0", flexible="0+"):
    epoch: int32
    subtopologies: list[Subtopology]

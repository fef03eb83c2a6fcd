"""Key and value of the coordinator's consumer group regular expression records."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Payload, TopicName, field, int64, string


class ConsumerGroupRegularExpressionKey(Payload, versions="0"):
    group_id: GroupId = ""
    regular_expression: string = ""


class ConsumerGroupRegularExpressionValue(Payload, versions="0", flexible="0+"):
    topics: list[TopicName] = field(factory=list)
    version: int64 = 0
    timestamp: int64 = 0

"""Key and value of the coordinator's consumer group regular expression records."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, int64, string


class ConsumerGroupRegularExpressionKey(Payload, versions="0"):
    group_id: string
    regular_expression: string


class ConsumerGroupRegularExpressionValue(Payload, versions="0", flexible="0+"):
    topics: list[string]
    version: int64
    timestamp: int64

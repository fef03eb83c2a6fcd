"""Key and value of the coordinator's legacy offset commit records."""

from __future__ import annotations

from aiokproto.codec.schema import PartitionIndex, Payload, TopicName, int64, string


class LegacyOffsetCommitKey(Payload, versions="0"):
    group: string = ""
    topic: TopicName = ""
    partition: PartitionIndex = 0


class LegacyOffsetCommitValue(Payload, versions="0"):
    offset: int64 = 0
    metadata: string = ""
    commit_timestamp: int64 = 0

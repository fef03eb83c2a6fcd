"""Key and value of the coordinator's offset commit records."""

from __future__ import annotations

from aiokproto.codec.schema import PartitionIndex, Payload, TopicId, TopicName, field, int32, int64, string
from aiokproto.codec.wire import ZERO_UUID


class OffsetCommitKey(Payload, versions="0"):
    group: string = ""
    topic: TopicName = ""
    partition: PartitionIndex = 0


class OffsetCommitValue(Payload, versions="0-4", flexible="4+"):
    offset: int64 = 0
    leader_epoch: int32 = field("3+", default=-1, ignorable=True)
    metadata: string = ""
    commit_timestamp: int64 = 0
    expire_timestamp: int64 = field("1", default=-1, ignorable=True)
    topic_id: TopicId = field("4+", tag=0, default=ZERO_UUID, ignorable=True)

"""Key and value of the coordinator's offset commit records."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, field, int32, int64, string, uuid
from aiokproto.codec.wire import ZERO_UUID


class OffsetCommitKey(Payload, versions="0"):
    group: string
    topic: string
    partition: int32


class OffsetCommitValue(Payload, versions="0-4", flexible="4+"):
    offset: int64
    leader_epoch: int32 = field("3+", default=-1, ignorable=True)
    metadata: string
    commit_timestamp: int64
    expire_timestamp: int64 = field("1", default=-1, ignorable=True)
    topic_id: uuid = field("4+", tag=0, default=ZERO_UUID, ignorable=True)

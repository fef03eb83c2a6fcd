"""Key and value of the coordinator's legacy offset commit records."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, int32, int64, string


class LegacyOffsetCommitKey(Payload, versions="0"):
    group: string
    topic: string
    partition: int32


class LegacyOffsetCommitValue(Payload, versions="0"):
    offset: int64
    metadata: string
    commit_timestamp: int64

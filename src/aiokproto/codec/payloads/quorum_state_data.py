"""A KRaft node's quorum-state file."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, Payload, Struct, field, int32, int64, string, uuid
from aiokproto.codec.wire import ZERO_UUID


class Voter(Struct):
    voter_id: int32 = 0


class QuorumStateData(Payload, versions="0-1", flexible="0+"):
    cluster_id: string = field("0", default="")
    leader_id: BrokerId = -1
    leader_epoch: int32 = -1
    voted_id: int32 = -1
    voted_directory_id: uuid = field("1+", default=ZERO_UUID)
    applied_offset: int64 = field("0", default=0)
    current_voters: list[Voter] | None = field("0", factory=list)

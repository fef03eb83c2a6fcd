"""The partition record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, field, int8, int32, uuid


class PartitionRecord(Payload, versions="0-2", flexible="0+"):
    partition_id: int32 = field(default=-1)
    topic_id: uuid
    replicas: list[int32]
    isr: list[int32]
    removing_replicas: list[int32]
    adding_replicas: list[int32]
    leader: int32 = field(default=-1)
    leader_recovery_state: int8 = field(tag=0, default=0)
    leader_epoch: int32 = field(default=-1)
    partition_epoch: int32 = field(default=-1)
    directories: list[uuid] = field("1+", factory=list)
    eligible_leader_replicas: list[int32] | None = field("2+", tag=1, default=None)
    last_known_elr: list[int32] | None = field("2+", tag=2, default=None)

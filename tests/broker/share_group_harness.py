"""A share group with a clock that only tests advance, and its members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from aiokproto.broker.groups.assignment import HeartbeatResult, TopicIdPartition
from aiokproto.broker.groups.epoch_group import GroupSettings
from aiokproto.broker.groups.share import records
from aiokproto.broker.groups.share.group import ShareGroup, ShareHeartbeat
from tests.broker.epoch_harness import SESSION, EpochClient, EpochHarness


@dataclass
class Reader(EpochClient[TopicIdPartition]):
    """A member of a share group. It has nothing to revoke."""

    topics: frozenset[str] = frozenset({"a"})


class Harness(EpochHarness[ShareGroup, Reader, HeartbeatResult]):
    """A share group, its topics, the share coordinator and the time.

    Attributes:
        out_of_order: Whether the share coordinator initializes no states.
    """

    records: ClassVar[Any] = records

    def __init__(self, max_size: int = 100, **sizes: int) -> None:
        self.settings = GroupSettings(SESSION, 5.0, max_size)
        self.out_of_order = False
        super().__init__(**sizes)

    def _new_group(self) -> ShareGroup:
        return ShareGroup("g", self.topics, self.settings)

    def join(self, client: Reader) -> HeartbeatResult:
        result = self._send(client, ShareHeartbeat(client.member_id, 0, topics=client.topics))
        assert result.assigned == self.group.members[client.member_id].assigned
        return result

    def heartbeat(self, client: Reader) -> HeartbeatResult:
        return self._send(client, ShareHeartbeat(client.member_id, client.epoch))

    def leave(self, client: Reader) -> None:
        assert self.group.leave(client.member_id).epoch == -1

    def _send(self, client: Reader, heartbeat: ShareHeartbeat) -> HeartbeatResult:
        self.group.update_member(heartbeat, self.now)
        for topic_id, partitions in self.group.missing().items():
            self.group.states.start_initializing(topic_id, self.topics.name(topic_id) or "", partitions)
            if not self.out_of_order:
                self.group.states.mark_initialized(topic_id, partitions)
        result = self.group.advance(heartbeat)
        assert result.epoch == self.group.epoch == self.group.assignment_epoch
        return self._apply(client, result)

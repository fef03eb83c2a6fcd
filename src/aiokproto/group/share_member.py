"""A minimal member, until the real one is merged."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from contextlib import suppress

from aiokproto import runtime
from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import KafkaError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.types import TopicPartition

_SITUATION = Situation(ShareGroupHeartbeatRequest.api_key)


class ShareMember:
    def __init__(self, cluster: ClusterClient, group_id: str, rack: str, assigned: Callable[[frozenset[TopicPartition]], None]) -> None:
        self._cluster, self._group, self._rack, self._assigned = cluster, group_id, rack, assigned
        self._topics: frozenset[str] = frozenset()
        self._wake = asyncio.Event()
        self.member_id = ""
        self.member_epoch = 0
        self.state = "joining"
        self.trouble = ""
        self._sent: frozenset[str] | None = None

    def set_topics(self, topics: frozenset[str]) -> None:
        if topics != self._topics:
            self._topics = topics
            self._wake.set()

    async def run(self) -> None:
        self.member_id = base64.urlsafe_b64encode(runtime.current().uuid().bytes).decode().rstrip("=")
        attempts = 0
        while True:
            self._wake.clear()
            pause = 5.0
            if self._topics:
                full = self.member_epoch == 0 or self._sent != self._topics
                topics = self._topics
                request = ShareGroupHeartbeatRequest(
                    group_id=self._group, member_id=self.member_id, member_epoch=self.member_epoch,
                    rack_id=self._rack or None, subscribed_topic_names=sorted(topics) if full else None)
                try:
                    answer = await self._cluster.request(request, timeout=10)
                    if answer.error_code:
                        raise error_for(answer.error_code, f"ShareGroupHeartbeat of {self._group}", answer.error_message)
                except KafkaError as error:
                    action = classify(error, _SITUATION)
                    if action is Action.STOP:
                        raise
                    attempts += 1
                    self.trouble = str(error)
                    if action is Action.REJOIN_LOST:
                        self.member_epoch = 0
                        self._assigned(frozenset())
                        continue
                    pause = self._cluster.backoff(attempts)
                else:
                    attempts, self.trouble = 0, ""
                    self.member_epoch, self._sent = answer.member_epoch, topics
                    pause = answer.heartbeat_interval_ms / 1000
                    if answer.assignment is not None:
                        found = await self._names(answer.assignment)
                        self._assigned(found)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wake.wait(), pause)

    async def _names(self, assignment) -> frozenset[TopicPartition]:
        found = set()
        for each in assignment.topic_partitions:
            while (name := self._cluster.snapshot.topic_name(each.topic_id)) is None:
                self._cluster.invalidate("unknown topic id")
                await self._cluster.wait_for_update(self._cluster.snapshot.generation)
            found.update(TopicPartition(name, index) for index in each.partitions)
        return frozenset(found)

    async def leave(self, timeout: float) -> None:
        if self.member_epoch > 0:
            with suppress(KafkaError):
                await self._cluster.request(ShareGroupHeartbeatRequest(group_id=self._group, member_id=self.member_id, member_epoch=-1), timeout=timeout)
        self.member_epoch = -1

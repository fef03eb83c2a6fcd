"""A coordinator in memory that computes the assignment of its one member, for tests of the member's parts."""

from __future__ import annotations

from typing import Any

from aiokproto.codec.messages import consumer_group_heartbeat, share_group_heartbeat
from aiokproto.codec.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from aiokproto.codec.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse, TaskIds
from aiokproto.codec.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from aiokproto.error_codes import ErrorCode
from tests.group.fake import committed, topic_id

INTERVAL = 2.0
"""Seconds between heartbeats."""
TASK_OFFSET_INTERVAL = 10.0
"""Seconds between reports of a streams member's offsets."""


class FakeEpochGroup:
    """A group with at most one member.

    Attributes:
        member: Its id; empty while there is none.
        epoch: The member's epoch.
        target: What it can own: pairs of topic id and partition.
        reported: What it said to own last.
    """

    def __init__(self) -> None:
        self.member = ""
        self.epoch = 0
        self.target: set[tuple[bytes, int]] = set()
        self.reported: set[tuple[bytes, int]] | None = None
        self._news = False
        self._told = 0

    def assign(self, topic: str, *partitions: int) -> None:
        """Replace what the member has of a topic."""
        name = topic_id(topic)
        self.target = {each for each in self.target if each[0] != name} | {(name, number) for number in partitions}
        self.epoch += 1
        self._news = True

    def remove(self) -> None:
        """Remove the member, as when its session has expired."""
        self.member = ""

    def answer(self, request: Any) -> Any:
        """Return the response to any request of a member."""
        if isinstance(request, OffsetCommitRequest):
            return committed(request, self._check(request.member_id, request.generation_id_or_member_epoch))
        if isinstance(request, OffsetFetchRequest):
            return self._fetch(request)
        if request.member_epoch < 0:
            code = self._check(request.member_id, self.epoch)
            self.member = "" if request.member_epoch == -1 else self.member
            return request.response(error_code=code, member_id=request.member_id, member_epoch=request.member_epoch)
        joins = request.member_epoch == 0
        if joins:
            self.member, self.epoch = request.member_id, self.epoch + 1
        elif code := self._check(request.member_id, request.member_epoch):
            return request.response(error_code=ErrorCode.FENCED_MEMBER_EPOCH if self.member else code)
        full = joins
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            # A member that repeats an epoch, since it missed a response, has to say what it owns.
            if 0 < request.member_epoch < self._told and request.topic_partitions is None:
                self.member = ""
                return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH)
            if request.topic_partitions is not None:
                self.reported = {
                    (each.topic_id, number) for each in request.topic_partitions for number in each.partitions
                }
                full = joins or request.rebalance_timeout_ms >= 0
        news, self._news, self._told = self._news or full, False, self.epoch
        return self._response(request, news)

    def _fetch(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        """No offset is committed. Who says no member id may read, as admin clients do."""
        (group,) = request.groups
        code = 0 if group.member_id is None else self._check(group.member_id, group.member_epoch)
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetFetchResponsePartitions(partition_index=each, committed_offset=-1, metadata="")
                    for each in topic.partition_indexes
                ],
            )
            for topic in group.topics or []
        ]
        answered = OffsetFetchResponseGroup(group_id=group.group_id, topics=[] if code else topics, error_code=code)
        return OffsetFetchResponse(groups=[answered])

    def _check(self, member_id: str, epoch: int) -> int:
        if not self.member or member_id != self.member:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch in (self.epoch, self.epoch - 1) else ErrorCode.STALE_MEMBER_EPOCH

    def _response(self, request: Any, news: bool) -> Any:
        consumer = isinstance(request, ConsumerGroupHeartbeatRequest)
        module: Any = consumer_group_heartbeat if consumer else share_group_heartbeat
        topics = [
            module.TopicPartitions(topic_id=name, partitions=sorted(number for of, number in self.target if of == name))
            for name in sorted({name for name, _ in self.target})
        ]
        return request.response(
            member_id=request.member_id,
            member_epoch=self.epoch,
            heartbeat_interval_ms=int(INTERVAL * 1000),
            assignment=module.Assignment(topic_partitions=topics) if news else None,
        )


class FakeStreamsGroup(FakeEpochGroup):
    """A streams group with at most one member, all of whose tasks are of subtopology 0.

    Attributes:
        tasks: The partitions of its tasks, by the field of the response.
        more: Further fields of the next response.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tasks: dict[str, list[int]] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        self.more: dict[str, Any] = {}

    def assign_tasks(self, **tasks: list[int]) -> None:
        """Replace the tasks of some roles."""
        self.tasks |= tasks
        self.epoch, self._news = self.epoch + 1, True

    def answer(self, request: Any) -> Any:
        if isinstance(request, StreamsGroupTopologyDescriptionUpdateRequest):
            return StreamsGroupTopologyDescriptionUpdateResponse()
        return super().answer(request)

    def _response(self, request: Any, news: bool) -> StreamsGroupHeartbeatResponse:
        more, self.more = self.more, {}
        tasks: dict[str, Any] = {
            role: [TaskIds(subtopology_id="0", partitions=partitions)] if partitions else []
            for role, partitions in self.tasks.items()
        }
        return StreamsGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=self.epoch,
            heartbeat_interval_ms=int(INTERVAL * 1000),
            task_offset_interval_ms=int(TASK_OFFSET_INTERVAL * 1000),
            **(tasks if news else {}),
            **more,
        )

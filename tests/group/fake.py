"""A cluster in memory for the parts of a group member: a coordinator, topics, and failures on demand."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from inspect import isawaitable
from types import SimpleNamespace
from typing import Any

from aiokproto.cluster import ClusterClient, ClusterSnapshot, PartitionInfo, TopicInfo
from aiokproto.cluster.answers import check
from aiokproto.codec.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokproto.codec.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from aiokproto.codec.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from aiokproto.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from aiokproto.codec.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from aiokproto.codec.releases import RELEASES, versions_of
from aiokproto.codec.schema import Request
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import DeadlineError, UnknownTopicError
from aiokproto.group.changes import Change, ChangeKind
from aiokproto.group.config import GroupConfig
from aiokproto.net.versions import BrokerVersions
from aiokproto.simulation import Simulation
from aiokproto.types import TopicPartition

CONFIG = GroupConfig("g", session_timeout=10.0, heartbeat_interval=3.0, max_poll_interval=60.0)


class FakeCoordinator:
    """A classic group with at most one member, which responds as Kafka's coordinator does.

    Attributes:
        member: Its id; empty while there is none.
        generation: The group's.
        rebalancing: Whether the member has to rejoin.
    """

    def __init__(self) -> None:
        self.member = ""
        self.generation = 0
        self.rebalancing = False
        self._synced = True
        self._names = 0
        self._given = ""

    def remove(self) -> None:
        """Remove the member, as when its session has expired."""
        self.member = ""

    def answer(self, request: Any) -> Any:
        """Return the response to any request of a member."""
        if isinstance(request, JoinGroupRequest):
            return self._join(request)
        if isinstance(request, SyncGroupRequest):
            code = self._check(request)
            self._synced = self._synced or not code
            given = {each.member_id: each.assignment for each in request.assignments}
            return SyncGroupResponse(error_code=code, assignment=b"" if code else given.get(self.member, b""))
        if isinstance(request, HeartbeatRequest):
            return HeartbeatResponse(
                error_code=self._check(request) or (ErrorCode.REBALANCE_IN_PROGRESS if self.rebalancing else 0)
            )
        if isinstance(request, LeaveGroupRequest):
            known = self.member and self.member in [request.member_id, *(each.member_id for each in request.members)]
            self.member = "" if known else self.member
            return LeaveGroupResponse(error_code=0 if known else ErrorCode.UNKNOWN_MEMBER_ID)
        assert isinstance(request, OffsetCommitRequest)
        return committed(request, self._check_commit(request))

    def _join(self, request: JoinGroupRequest) -> JoinGroupResponse:
        if not request.member_id:
            self._names += 1
            self._given = f"member-{self._names}"
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=self._given)
        if request.member_id not in (self._given, self.member):
            return JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id)
        if request.member_id != self.member or self._synced:
            self.generation += 1
        self.member, self._given, self.rebalancing, self._synced = request.member_id, "", False, False
        protocol = request.protocols[0]
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=request.protocol_type,
            protocol_name=protocol.name,
            leader=self.member,
            member_id=self.member,
            members=[JoinGroupResponseMember(member_id=self.member, metadata=protocol.metadata)],
        )

    def _check(self, request: SyncGroupRequest | HeartbeatRequest) -> int:
        if not self.member or request.member_id != self.member:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return 0 if request.generation_id == self.generation else ErrorCode.ILLEGAL_GENERATION

    def _check_commit(self, request: OffsetCommitRequest) -> int:
        if not self.member or request.member_id != self.member:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if request.generation_id_or_member_epoch != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return 0 if self._synced else ErrorCode.REBALANCE_IN_PROGRESS


def committed(request: OffsetCommitRequest, *codes: int) -> OffsetCommitResponse:
    """The response to a commit: a code for all partitions, or one for each."""
    left = list(codes)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=left.pop(0) if len(left) > 1 else left[0]
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


Answer = Callable[[Any], Any]


def topic_id(name: str) -> bytes:
    """The id of a topic."""
    return name.encode().ljust(16, b".")


def snapshot_of(topics: Mapping[str, int]) -> ClusterSnapshot:
    """Metadata of topics with these numbers of partitions."""
    infos = {name: TopicInfo(name, topic_id(name), (PartitionInfo(0),) * size) for name, size in topics.items()}
    return ClusterSnapshot(topics=infos, topic_names={info.topic_id: name for name, info in infos.items()})


class FakeCluster:
    """Stands in for :class:`aiokproto.cluster.ClusterClient`.

    Attributes:
        group: Responds to requests without a scripted response.
        requests: Requests sent, in order.
        next: By request class, the next responses: a response, a code for all of it, an error to raise, a
            function of the request, or None for silence.
        forgotten: How often the cached coordinator was dropped.
        lookup_failure: Why the coordinator is not found yet.
        invalidated: The reasons given.
        newest: The highest version of any API.
        known_absent: The topics that do not exist by the metadata.
        existing: The topics of the cluster and their sizes, of which the snapshot can lack some.
    """

    asked = ClusterClient.asked

    def __init__(self, **topics: int) -> None:
        self.config: Any = SimpleNamespace(request_timeout=30.0, api_timeout=60.0, principal="")
        self.group = FakeCoordinator()
        self.requests: list[Request[Any]] = []
        self.next: dict[type, list[Any]] = defaultdict(list)
        self.forgotten = 0
        self.lookup_failure = ""
        self.invalidated: list[str] = []
        self.known_absent: frozenset[str] = frozenset()
        self.snapshot = snapshot_of(topics)
        self.existing = dict(topics)
        self.newest = 1000
        # What members use of these parts is below.
        self.metadata = self.pool = self.coordinators = self
        self.backoff = SimpleNamespace(delay=lambda attempt: 0.1 * attempt)

    def sent(self, kind: type) -> list[Any]:
        """The requests of that class."""
        return [request for request in self.requests if isinstance(request, kind)]

    async def coordinator(self, kind: object, key: str, timeout: float | None = None) -> int:
        await asyncio.sleep(0)
        return 0

    def coordinator_failure(self, kind: object, key: str) -> str:
        return self.lookup_failure

    def forget(self, kind: object, key: str) -> None:
        self.forgotten += 1

    def disconnect(self, node: int, channel: str) -> None:
        pass

    def invalidate(self, reason: str, topics: Iterable[str] = ()) -> None:
        self.invalidated.append(reason)

    def absent(self, names: Iterable[str]) -> frozenset[str]:
        return self.known_absent.intersection(names)

    async def topic(self, name: str, timeout: float) -> TopicInfo:
        await asyncio.sleep(0)
        if name not in self.snapshot.topics:
            raise UnknownTopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")
        return self.snapshot.topics[name]

    async def topics(self, names: Iterable[str], timeout: float) -> dict[str, TopicInfo]:
        """Add topics to the snapshot, and return them."""
        missing = [name for name in names if name not in self.snapshot.topics]
        if missing:
            await asyncio.sleep(0.01)
            known = {name: len(info.partitions) for name, info in self.snapshot.topics.items()}
            self.snapshot = snapshot_of(known | {name: self.existing[name] for name in missing})
        return {name: self.snapshot.topics[name] for name in names}

    def run_in_thread(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(None, partial(function, *args))

    async def request(self, request: MetadataRequest, timeout: float) -> MetadataResponse:
        """Look up topics by id."""
        self.requests.append(request)
        await asyncio.sleep(0.01)
        ids = {topic_id(name): name for name in self.existing}
        return MetadataResponse(
            topics=[
                MetadataResponseTopic(
                    topic_id=each.topic_id,
                    name=ids.get(each.topic_id),
                    error_code=0 if each.topic_id in ids else ErrorCode.UNKNOWN_TOPIC_ID,
                )
                for each in request.topics or []
            ]
        )

    async def broker_versions(self, node: int, *, timeout: float | None = None) -> BrokerVersions:
        return BrokerVersions(versions_of(RELEASES[-1]), "the fake")

    async def version(self, request_type: Any, node: int, *, max_version: int | None = None) -> int:
        highest = min(int(request_type.versions.highest), self.newest)
        return highest if max_version is None else min(highest, max_version)

    async def send(
        self,
        request: Any,
        node: int,
        *,
        timeout: float | None = None,
        max_version: int | None = None,
        channel: str = "main",
    ) -> Any:
        # Encoded and decoded, as on the wire: a field that the version lacks does not arrive.
        version = await self.version(type(request), node, max_version=max_version)
        sent = type(request).decode(bytes(request.encode(version)), version)
        self.requests.append(sent)
        await asyncio.sleep(0.01)
        answer: Answer = self.group.answer
        if self.next[type(request)]:
            scripted = self.next[type(request)].pop(0)
            if scripted is None:
                await asyncio.sleep(timeout or self.config.request_timeout)
                raise DeadlineError(f"{type(request).__name__}: no answer")
            if isinstance(scripted, BaseException):
                raise scripted
            answer = scripted if callable(scripted) else partial(_refusal, code=scripted)
        response: Any = answer(sent)
        if isawaitable(response):
            response = await response
        received = type(response).decode(bytes(response.encode(version)), version)
        check(sent, received, version)
        return received


def _refusal(request: Any, code: int) -> Any:
    if isinstance(request, OffsetCommitRequest):
        return committed(request, code)
    return request.response(error_code=code)


class FakeOwner:
    """Stands in for the consumer: applies changes at once, or after a delay that ``takes`` sets.

    Attributes:
        changes: Changes that were applied, in order.
        owned: The partitions by these changes; wrong turns are refused.
        takes: Seconds that a kind of change takes.
        losses: How often the group removed the member.
        sessions: Whether the session was confirmed, each time that changed.
    """

    def __init__(self) -> None:
        self.changes: list[tuple[str, list[TopicPartition]]] = []
        self.owned: set[TopicPartition] = set()
        self.takes: dict[ChangeKind, float] = {}
        self.losses = 0
        self.sessions: list[bool] = []

    async def apply(self, change: Change) -> None:
        changed = set(change.partitions)
        if change.kind is ChangeKind.ASSIGN:
            assert not self.owned & changed, "assigned twice"
            self.owned |= changed
        else:
            assert changed <= self.owned, "given up without being assigned"
            self.owned -= changed
        self.changes.append((change.kind.name, change.partitions))
        await asyncio.sleep(self.takes.get(change.kind, 0.0))

    def lost(self) -> None:
        self.losses += 1

    def session(self, confirmed: bool) -> None:
        self.sessions.append(confirmed)

    @property
    def kinds(self) -> list[str]:
        """The kinds of changes, in order."""
        return [kind for kind, _ in self.changes]


def run(program: Coroutine[Any, Any, None]) -> None:
    """Run in virtual time."""
    Simulation(1).run(program)


def partitions(topic: str, *numbers: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]

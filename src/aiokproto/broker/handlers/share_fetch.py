"""ShareFetch (KIP-932): acquire records for a member of a share group, and say what became of earlier ones.

v1 limits records rather than bytes, v2 has the mode of acquiring (KIP-1206) and renews locks (KIP-1222). It waits as
Fetch does, until there are ``min_bytes`` to be acquired. What is said of earlier records is done first, and told in the
answer. A session is begun with epoch 0 and ended with -1 or with its connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from aiokproto.broker.fetch.long_poll import until_news
from aiokproto.broker.handlers.share_requests import (
    RENEWS,
    Refusal,
    acknowledge,
    end_if_last,
    identify,
    leader_of,
    nodes,
    readable,
)
from aiokproto.broker.log import Span
from aiokproto.broker.log.header import BatchHeader
from aiokproto.broker.metadata.topics import Partition
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.share.acquisition import AcquiredRange, AcquireRequest, FetchedBatch
from aiokproto.broker.share.manager import ShareSettings
from aiokproto.broker.share.partition import SharePartition
from aiokproto.broker.share.session import FINAL_EPOCH, INITIAL_EPOCH, ShareSession, ShareSessionKey, TopicIdPartition
from aiokproto.codec.messages.share_fetch import (
    AcknowledgementBatch,
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.records.batch import CONTROL, TRANSACTIONAL

_BY_RECORD = 1
_NO_LIMIT = (1 << 31) - 1


@dataclass
class Found:
    """What there is to be had of a partition, and what is told of it."""

    partition_id: TopicIdPartition
    answer: PartitionData
    share: SharePartition | None = None
    partition: Partition | None = None
    span: Span | None = None

    @property
    def size(self) -> int:
        """The bytes that were found."""
        return self.span.size if self.span is not None else 0


async def handle(request: ShareFetchRequest, context: RequestContext) -> ShareFetchResponse:
    if context.version < 1:
        request.max_records = request.batch_size = _NO_LIMIT
    renews = context.version >= RENEWS and request.is_renew_ack
    try:
        session_key = identify(request.group_id, request.member_id, context)
        if renews:
            _check_renewal(request)
        session = _session(session_key, request, context)
    except BrokerError as error:
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            # Whoever is turned away would be back at once.
            await asyncio.sleep(request.max_wait_ms / 1000)
        return ShareFetchResponse(error_code=error.code, error_message=error.detail, responses=[], node_endpoints=[])
    told = acknowledge(session_key, _said(request), renews, context)
    found: list[Found] = []
    if request.share_session_epoch == FINAL_EPOCH:
        end_if_last(session, request.share_session_epoch, context)
    elif not renews and request.max_records > 0 and request.max_bytes > 0:
        found = await _fetch(session, request, context)
    return _respond(session, found, told, context)


def _check_renewal(request: ShareFetchRequest) -> None:
    """Who renews locks does not wait for records meanwhile."""
    for name in ("max_bytes", "min_bytes", "max_records", "max_wait_ms"):
        if getattr(request, name):
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"{name} is not 0, but locks are to be renewed")


def _session(session_key: ShareSessionKey, request: ShareFetchRequest, context: RequestContext) -> ShareSession:
    epoch = request.share_session_epoch
    if epoch == INITIAL_EPOCH:
        if any(_said(request).values()):
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail="who begins a session has nothing to acknowledge")
        session = context.share_sessions.create(session_key, context.connection)
    else:
        session = context.share_sessions.next_request(session_key, epoch)
    if epoch != FINAL_EPOCH:
        added = (
            (topic.topic_id, partition.partition_index)
            for topic in request.topics
            for partition in topic.partitions
            if context.version >= 1 or partition.partition_max_bytes > 0
        )
        forgotten = ((topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions)
        session.update(added, forgotten)
    return session


def _said(request: ShareFetchRequest) -> dict[TopicIdPartition, list[AcknowledgementBatch]]:
    said: dict[TopicIdPartition, list[AcknowledgementBatch]] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            if partition.acknowledgement_batches:
                partition_id = (topic.topic_id, partition.partition_index)
                said.setdefault(partition_id, []).extend(partition.acknowledgement_batches)
    return said


# ---- what is acquired


async def _fetch(session: ShareSession, request: ShareFetchRequest, context: RequestContext) -> list[Found]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + request.max_wait_ms / 1000
    over = request.max_wait_ms <= 0
    settings = context.shares.settings(session.key.group_id)
    while True:
        found = _look(session, request, settings, context)
        urgent = not found or any(each.answer.error_code for each in found)
        enough = sum(each.size for each in found) >= request.min_bytes
        if urgent or enough or over:
            acquired = _acquire(session, found, request, settings, context)
            if acquired or urgent or over or not any(each.size for each in found):
                return found
            # All that was read is archived: go on behind it.
            await asyncio.sleep(0)
            over = loop.time() >= deadline
            continue
        over = await until_news([each.partition for each in found if each.partition is not None], deadline)
        if not context.share_sessions.is_open(session):
            return []


def _look(
    session: ShareSession, request: ShareFetchRequest, settings: ShareSettings, context: RequestContext
) -> list[Found]:
    """What there is to be had now; nothing is read yet."""
    left = min(request.max_bytes, context.state.options.number("fetch.max.bytes"), context.fetch_limit())
    partition_ids = session.partitions
    most = left // max(len(partition_ids), 1)
    found: list[Found] = []
    nothing_yet = True
    for partition_id in partition_ids:
        one = Found(partition_id, _answer(partition_id))
        found.append(one)
        try:
            topic, one.partition = readable(partition_id, context)
            if one.partition.leader != context.node.node_id:
                raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            one.share = share = context.shares.get_or_load(session.key.group_id, topic, one.partition)
        except BrokerError as error:
            _refuse(one.answer, partition_id, error, context)
            continue
        log = one.partition.log
        if not share.is_full(settings.config) and share.next_offset <= log.end_offset:
            until = log.last_stable_offset if settings.committed else None
            one.span = log.find(share.next_offset, most, at_least_one=nothing_yet, until=until)
            nothing_yet = nothing_yet and not one.size
    return found


def _acquire(
    session: ShareSession,
    found: Iterable[Found],
    request: ShareFetchRequest,
    settings: ShareSettings,
    context: RequestContext,
) -> bool:
    """Acquire what was found; returns whether there was anything."""
    left = request.max_records
    for one in found:
        if one.share is None or one.partition is None or one.span is None or not one.size or left <= 0:
            continue
        data = one.span.read()
        headers = list(_headers(data))
        acquire_request = AcquireRequest(
            session.key.member_id, left, request.batch_size, request.share_acquire_mode == _BY_RECORD
        )
        batches = _extents(headers, one.share.next_offset, one.partition, settings.committed)
        acquired = one.share.acquire(acquire_request, batches, settings.config, context.state.clock.time())
        context.shares.start_lock_timer(session.key.group_id, one.partition_id)
        if acquired:
            one.answer.records = _slice(data, headers, acquired)
            one.answer.acquired_records = [
                AcquiredRecords(first_offset=each.first, last_offset=each.last, delivery_count=each.delivery_count)
                for each in acquired
            ]
            left -= sum(each.last - each.first + 1 for each in acquired)
    return left < request.max_records


def _headers(data: bytes) -> Iterable[BatchHeader]:
    position = 0
    while position < len(data):
        header = BatchHeader.read(data, position)
        yield header
        position += header.size


def _extents(headers: list[BatchHeader], begin: int, partition: Partition, committed: bool) -> list[FetchedBatch]:
    """What was read from an offset on, by batches; where they do not tell their first offset, all since the last."""
    first, end = headers[0].base_offset, headers[-1].last_offset + 1
    aborted = partition.log.aborted_transactions(first, end) if committed else []

    def is_aborted(header: BatchHeader) -> bool:
        return bool(header.attributes & TRANSACTIONAL and not header.attributes & CONTROL) and any(
            each.producer_id == header.producer_id and each.first_offset <= header.base_offset <= each.last_offset
            for each in aborted
        )

    batches: list[FetchedBatch] = []
    for header in headers:
        first = header.base_offset if header.magic > 1 else min(begin, header.base_offset)
        batches.append(FetchedBatch(first, header.last_offset, is_aborted(header)))
        begin = header.last_offset + 1
    return batches


def _slice(data: bytes, headers: list[BatchHeader], acquired: list[AcquiredRange]) -> bytes:
    """The batches that hold what was acquired, and those between."""
    first, last = acquired[0].first, acquired[-1].last
    begin = sum(header.size for header in headers if header.last_offset < first)
    end = sum(header.size for header in headers if header.base_offset <= last)
    return data[begin:end]


# ---- what is told


def _answer(partition_id: TopicIdPartition) -> PartitionData:
    return PartitionData(
        partition_index=partition_id[1],
        error_code=ErrorCode.NONE,
        acknowledge_error_code=ErrorCode.NONE,
        current_leader=LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1),
        records=b"",
        acquired_records=[],
    )


def _refuse(answer: PartitionData, partition_id: TopicIdPartition, error: BrokerError, context: RequestContext) -> None:
    answer.error_code = error.code
    answer.error_message = error.detail
    _hint(answer, partition_id, error, context)


def _hint(answer: PartitionData, partition_id: TopicIdPartition, error: BrokerError, context: RequestContext) -> None:
    if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        leader, epoch = leader_of(partition_id, context)
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)


def _respond(
    session: ShareSession, found: Iterable[Found], told: dict[TopicIdPartition, Refusal], context: RequestContext
) -> ShareFetchResponse:
    answers = {each.partition_id: each.answer for each in found}
    for partition_id, refusal in told.items():
        answer = answers.setdefault(partition_id, _answer(partition_id))
        if refusal is not None:
            answer.acknowledge_error_code = refusal.code
            answer.acknowledge_error_message = refusal.detail
            _hint(answer, partition_id, refusal, context)
    topics: dict[bytes, list[PartitionData]] = {}
    for partition_id, answer in answers.items():
        news = partition_id in told or bool(answer.acquired_records)
        if session.must_include(partition_id, news=news, failed=bool(answer.error_code)):
            topics.setdefault(partition_id[0], []).append(answer)
    leaders = {answer.current_leader.leader_id for answer in answers.values()}
    lock_ms = round(context.shares.settings(session.key.group_id).config.lock_duration * 1000)
    return ShareFetchResponse(
        error_code=ErrorCode.NONE,
        acquisition_lock_timeout_ms=lock_ms if context.version >= 1 else 0,
        responses=[
            ShareFetchableTopicResponse(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ],
        node_endpoints=[
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port) for node in nodes(leaders, context)
        ],
    )

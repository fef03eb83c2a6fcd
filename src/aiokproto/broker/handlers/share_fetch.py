"""ShareFetch (KIP-932): acknowledge records and acquire more, in a share session.

v1: limits in records instead of bytes. v2: acquire mode (KIP-1206), renewal of acquisition locks (KIP-1222).

Acknowledgements are applied first, and their errors are in the response; then it waits as Fetch does, until
``min_bytes`` can be acquired. Epoch 0 creates a session; epoch -1 closes it, and acquires nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aiokproto.broker.fetch.long_poll import count_changes, longest_wait, wait_for_change
from aiokproto.broker.handlers.share_requests import (
    RENEW_VERSION,
    AcknowledgeError,
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
from aiokproto.broker.opening import offset_at_time
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
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
from aiokproto.errors import BrokerError, CorruptRecordError, UnsupportedCompressionError
from aiokproto.records.batch import CONTROL, TRANSACTIONAL
from aiokproto.security.shown import shown

log = logging.getLogger("aiokproto.broker")

_RECORD_LIMIT = 1
_NO_LIMIT = (1 << 31) - 1


@dataclass
class FetchedPartition:
    """A partition's part of the response, and the records from which to acquire for it.

    ``changes`` are those that the partition had before, ``begin`` is where the records begin.
    """

    partition_id: TopicIdPartition
    response: PartitionData
    share: SharePartition | None = None
    partition: Partition | None = None
    changes: int = 0
    begin: int = 0
    span: Span | None = None

    @property
    def size(self) -> int:
        """The number of bytes that were found."""
        return self.span.size if self.span is not None else 0


REQUIRES = (
    Required(Operation.READ, ResourceType.GROUP, otherwise="refuses the request"),
    Required(Operation.READ, ResourceType.TOPIC, otherwise="refuses the topics of the session"),
)


async def handle(request: ShareFetchRequest, context: RequestContext) -> ShareFetchResponse:
    if context.version < 1:
        # v0 has neither field; with their default 0 it would acquire nothing.
        request.max_records = request.batch_size = _NO_LIMIT
    renew = context.version >= RENEW_VERSION and request.is_renew_ack
    try:
        session_key = identify(request.group_id, request.member_id, context)
        if renew:
            _check_renewal(request)
        session = await _session(session_key, request, context)
    except BrokerError as error:
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            # As in Kafka: a client retries at once, and would send requests in a loop.
            await asyncio.sleep(longest_wait(request.max_wait_ms, context.state.options))
        return ShareFetchResponse(error_code=error.code, error_message=error.detail, responses=[], node_endpoints=[])
    # Acknowledgements first: the records that they release can be acquired by this same request.
    acknowledged = await acknowledge(session_key, await _acknowledgements(request, context), renew, context)
    found: list[FetchedPartition] = []
    # The last request acknowledges only: records acquired for a session that ends would wait for their locks to expire.
    if request.share_session_epoch == FINAL_EPOCH:
        end_if_last(session, request.share_session_epoch, context)
    elif not renew and request.max_records > 0 and request.max_bytes > 0:
        found = await _fetch(session, request, context)
    return await _respond(session, found, acknowledged, context)


def _check_renewal(request: ShareFetchRequest) -> None:
    """Reject a request that renews locks and fetches records at once (KIP-1222). Raises :class:`BrokerError`."""
    for name in ("max_bytes", "min_bytes", "max_records", "max_wait_ms"):
        if getattr(request, name):
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"{name} must be 0 in a request that renews locks")


async def _session(session_key: ShareSessionKey, request: ShareFetchRequest, context: RequestContext) -> ShareSession:
    epoch = request.share_session_epoch
    if epoch == INITIAL_EPOCH:
        if any((await _acknowledgements(request, context)).values()):
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail="a new share session cannot have acknowledgements")
        session = context.share_sessions.create(session_key, context.connection)
    else:
        session = context.share_sessions.next_request(session_key, epoch)
    if epoch != FINAL_EPOCH:
        # In v0 max_bytes 0 marks a partition that is named for its acknowledgements only.
        added = (
            (topic.topic_id, partition.partition_index)
            for topic in request.topics
            for partition in topic.partitions
            if context.version >= 1 or partition.partition_max_bytes > 0
        )
        forgotten = ((topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions)
        session.update(added, forgotten)
    return session


async def _acknowledgements(
    request: ShareFetchRequest, context: RequestContext
) -> dict[TopicIdPartition, list[AcknowledgementBatch]]:
    acknowledgements: dict[TopicIdPartition, list[AcknowledgementBatch]] = {}
    async for topic in context.each(request.topics):
        async for partition in context.each(topic.partitions):
            if partition.acknowledgement_batches:
                partition_id = (topic.topic_id, partition.partition_index)
                acknowledgements.setdefault(partition_id, []).extend(partition.acknowledgement_batches)
    return acknowledgements


# ---- acquiring


async def _fetch(session: ShareSession, request: ShareFetchRequest, context: RequestContext) -> list[FetchedPartition]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + longest_wait(request.max_wait_ms, context.state.options)
    timed_out = request.max_wait_ms <= 0
    settings = context.shares.settings(session.key.group_id)
    while True:
        starts = await _starts(session, context)
        found = await _find_records(session, request, settings, starts, context)
        respond_now = not found or any(each.response.error_code for each in found)
        enough = sum(each.size for each in found) >= request.min_bytes
        if respond_now or enough or timed_out:
            # What other members have acquired since it was found is not acquired again.
            acquired = await _acquire(session, found, request, settings, context)
            if not context.share_sessions.is_open(session):
                return []
            if acquired or respond_now or timed_out or not any(each.size for each in found):
                return found
            # All records that were read are archived (aborted, or removed by compaction): try again behind them.
            # Suspended, not waiting: the log has more, but other tasks must run between two passes.
            await asyncio.sleep(0)
            timed_out = loop.time() >= deadline
            continue
        partitions = [each.partition for each in found if each.partition is not None]
        # What came while others had their turn is found at once.
        unchanged = count_changes(partitions) == sum(each.changes for each in found)
        timed_out = unchanged and await wait_for_change(partitions, deadline)
        timed_out = timed_out or loop.time() >= deadline


async def _starts(session: ShareSession, context: RequestContext) -> dict[TopicIdPartition, int]:
    """Return where share partitions begin that a duration decides of: batches are opened for it, in a thread."""
    starts: dict[TopicIdPartition, int] = {}
    async for partition_id in context.each(list(session.partitions)):
        try:
            topic, partition = readable(partition_id, context)
            time = context.shares.start_time(session.key.group_id, topic, partition)
            found = await offset_at_time(partition.log, time, context.opening) if time is not None else None
        except (BrokerError, CorruptRecordError, UnsupportedCompressionError) as error:
            # What cannot be read has no start: the response has the error of this.
            log.debug("share group %s: %s: %s", shown(session.key.group_id), partition_id, error)
        else:
            if found is not None:
                starts[partition_id] = found.offset
    return starts


async def _find_records(
    session: ShareSession,
    request: ShareFetchRequest,
    settings: ShareSettings,
    starts: Mapping[TopicIdPartition, int],
    context: RequestContext,
) -> list[FetchedPartition]:
    """Find records that can be acquired, within the limits. Nothing is read yet."""
    remaining = min(request.max_bytes, context.state.options.number("fetch.max.bytes"), context.fetch_limit())
    partition_ids = session.partitions
    # Kafka divides the limit equally, too (PartitionMaxBytesStrategy): one partition must not starve the
    # rest.
    max_bytes = remaining // max(len(partition_ids), 1)
    found: list[FetchedPartition] = []
    at_least_one = True
    # A copy: another request can use the session while this one pauses.
    async for partition_id in context.each(list(partition_ids)):
        fetched = FetchedPartition(partition_id, _partition_response(partition_id))
        found.append(fetched)
        try:
            topic, fetched.partition = readable(partition_id, context)
            fetched.changes = fetched.partition.changes
            if fetched.partition.leader != context.node.node_id:
                raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            fetched.share = share = context.shares.get_or_load(
                session.key.group_id, topic, fetched.partition, starts.get(partition_id)
            )
        except BrokerError as error:
            _fail(fetched.response, partition_id, error, context)
            continue
        stored = fetched.partition.log
        if not share.is_full(settings.config) and share.next_offset <= stored.end_offset:
            until = stored.last_stable_offset if settings.committed else None
            fetched.begin = share.next_offset
            fetched.span = stored.find(fetched.begin, max_bytes, at_least_one=at_least_one, until=until)
            # The first batch is whole even beyond the limit, as in Fetch (KIP-74).
            at_least_one = at_least_one and not fetched.size
    return found


async def _acquire(
    session: ShareSession,
    found: Iterable[FetchedPartition],
    request: ShareFetchRequest,
    settings: ShareSettings,
    context: RequestContext,
) -> bool:
    """Read what was found and acquire records from it; returns whether any were acquired."""
    remaining = request.max_records
    async for fetched in context.each(found):
        # Another request or a disconnect may have closed the session while this was suspended; records acquired for it
        # would stay locked.
        if not context.share_sessions.is_open(session):
            break
        if (
            fetched.share is None
            or fetched.partition is None
            or fetched.span is None
            or not fetched.size
            or remaining <= 0
            # Other requests had their turn: records that were released meanwhile are acquired before these.
            or not context.shares.is_current(session.key.group_id, fetched.partition_id, fetched.share)
            or fetched.share.next_offset != fetched.begin
        ):
            continue
        try:
            # More is read than acquired: other members may hold part of it. The response is cut to what was acquired.
            data = fetched.span.read()
        except FileNotFoundError:
            # Retention has deleted the segment meanwhile.
            continue
        headers = list(_batch_headers(data))
        acquire_request = AcquireRequest(
            session.key.member_id, remaining, request.batch_size, request.share_acquire_mode == _RECORD_LIMIT
        )
        batches = _fetched_batches(headers, fetched.share.next_offset, fetched.partition, settings.committed)
        acquired = fetched.share.acquire(acquire_request, batches, settings.config, context.state.clock.time())
        context.shares.start_lock_timer(session.key.group_id, fetched.partition_id)
        if acquired:
            fetched.response.records = _slice(data, headers, acquired)
            fetched.response.acquired_records = [
                AcquiredRecords(first_offset=each.first, last_offset=each.last, delivery_count=each.delivery_count)
                for each in acquired
            ]
            remaining -= sum(each.last - each.first + 1 for each in acquired)
    return remaining < request.max_records


def _batch_headers(data: bytes) -> Iterable[BatchHeader]:
    position = 0
    while position < len(data):
        header = BatchHeader.read(data, position)
        yield header
        position += header.size


def _fetched_batches(
    headers: list[BatchHeader], begin: int, partition: Partition, committed: bool
) -> list[FetchedBatch]:
    """Return the batches that were read.

    The header of a batch of magic 0 or 1 lacks its first offset: it is taken to start behind the batch before.
    """
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
    """Return the batches from the first to the last acquired record."""
    first, last = acquired[0].first, acquired[-1].last
    begin = sum(header.size for header in headers if header.last_offset < first)
    end = sum(header.size for header in headers if header.base_offset <= last)
    return data[begin:end]


# ---- the response


def _partition_response(partition_id: TopicIdPartition) -> PartitionData:
    return PartitionData(
        partition_index=partition_id[1],
        error_code=ErrorCode.NONE,
        acknowledge_error_code=ErrorCode.NONE,
        current_leader=LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1),
        records=b"",
        acquired_records=[],
    )


def _fail(response: PartitionData, partition_id: TopicIdPartition, error: BrokerError, context: RequestContext) -> None:
    response.error_code = error.code
    response.error_message = error.detail
    _add_leader_hint(response, partition_id, error, context)


def _add_leader_hint(
    response: PartitionData, partition_id: TopicIdPartition, error: BrokerError, context: RequestContext
) -> None:
    # Not for FENCED_LEADER_EPOCH, as in Fetch: ShareFetch does not carry the epoch of a leader.
    if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        leader, epoch = leader_of(partition_id, context)
        response.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)


async def _respond(
    session: ShareSession,
    found: Iterable[FetchedPartition],
    acknowledged: dict[TopicIdPartition, AcknowledgeError],
    context: RequestContext,
) -> ShareFetchResponse:
    responses = {each.partition_id: each.response for each in found}
    async for partition_id, error in context.each(acknowledged.items()):
        response = responses.setdefault(partition_id, _partition_response(partition_id))
        if error is not None:
            response.acknowledge_error_code = error.code
            response.acknowledge_error_message = error.detail
            _add_leader_hint(response, partition_id, error, context)
    topics: dict[bytes, list[PartitionData]] = {}
    async for partition_id, response in context.each(responses.items()):
        changed = partition_id in acknowledged or bool(response.acquired_records)
        if session.must_include(partition_id, changed=changed, failed=bool(response.error_code)):
            topics.setdefault(partition_id[0], []).append(response)
    leaders = {response.current_leader.leader_id for response in responses.values()}
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

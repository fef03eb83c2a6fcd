"""ShareFetch (KIP-932): acknowledge records and acquire more, in a share session.

v1: limits in records instead of bytes. v2: acquire mode (KIP-1206), renewal of acquisition locks (KIP-1222).

Acknowledgements are applied first, and the response contains their errors. Then, like Fetch, the request waits until
``min_bytes`` can be acquired. Epoch 0 creates a session. Epoch -1 closes the session and doesn't acquire anything.
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
    """A partition's part of the response, and the located records to acquire from.

    Attributes:
        partition_id: The partition, by topic id and index.
        response: The partition's part of the response.
        share: The share partition; None if the partition has an error.
        partition: The partition; None if it can't be read.
        changes: The partition's change count before its records were located.
        start: The offset at which the records start.
        span: The located records, if any.
    """

    partition_id: TopicIdPartition
    response: PartitionData
    share: SharePartition | None = None
    partition: Partition | None = None
    changes: int = 0
    start: int = 0
    span: Span | None = None

    @property
    def size(self) -> int:
        """The size of the located records, in bytes."""
        return self.span.size if self.span is not None else 0


REQUIRES = (
    Required(Operation.READ, ResourceType.GROUP, otherwise="refuses the request"),
    Required(Operation.READ, ResourceType.TOPIC, otherwise="refuses the topics of the session"),
)


async def handle(request: ShareFetchRequest, context: RequestContext) -> ShareFetchResponse:
    if context.version < 1:
        # v0 has neither field. With the default 0, nothing would be acquired.
        request.max_records = request.batch_size = _NO_LIMIT
    renew = context.version >= RENEW_VERSION and request.is_renew_ack
    try:
        session_key = identify(request.group_id, request.member_id, context)
        if renew:
            _check_renewal(request)
        session = await _session(session_key, request, context)
    except BrokerError as error:
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            # As in Kafka, the client has to wait here. It would otherwise retry in a tight loop.
            await asyncio.sleep(longest_wait(request.max_wait_ms, context.state.options))
        return ShareFetchResponse(error_code=error.code, error_message=error.detail, responses=[], node_endpoints=[])
    # Acknowledge first, so this request can acquire the records that the acknowledgements release.
    acknowledged = await acknowledge(session_key, await _acknowledgements(request, context), renew, context)
    found: list[FetchedPartition] = []
    # The last request only acknowledges. Records acquired for a session that is ending would be stuck until their locks
    # expire.
    if request.share_session_epoch == FINAL_EPOCH:
        end_if_last(session, request.share_session_epoch, context)
    elif not renew and request.max_records > 0 and request.max_bytes > 0:
        found = await _fetch(session, request, context)
    return await _respond(session, found, acknowledged, context)


def _check_renewal(request: ShareFetchRequest) -> None:
    """Reject a request that both renews locks and fetches records (KIP-1222). Raises :class:`BrokerError`."""
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
        # In v0, a partition with max_bytes 0 is only there for its acknowledgements.
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
        respond_now = not found or any(fetched.response.error_code for fetched in found)
        enough = sum(fetched.size for fetched in found) >= request.min_bytes
        if respond_now or enough or timed_out:
            # This skips records that other members have acquired since the records were located.
            acquired = await _acquire(session, found, request, settings, context)
            if not context.share_sessions.is_open(session):
                return []
            if acquired or respond_now or timed_out or not any(fetched.size for fetched in found):
                return found
            # All the records that were read are archived (aborted, or removed by compaction), so try again past them.
            # The log has more records, so there is no need to wait, but other tasks must get to run between two passes.
            await asyncio.sleep(0)
            timed_out = loop.time() >= deadline
            continue
        partitions = [fetched.partition for fetched in found if fetched.partition is not None]
        # Don't wait if records arrived while other tasks were running.
        unchanged = count_changes(partitions) == sum(fetched.changes for fetched in found)
        timed_out = unchanged and await wait_for_change(partitions, deadline)
        timed_out = timed_out or loop.time() >= deadline


async def _starts(session: ShareSession, context: RequestContext) -> dict[TopicIdPartition, int]:
    """Return the start offsets that depend on a duration (``by_duration``), by share partition. A thread opens batches
    to find them."""
    starts: dict[TopicIdPartition, int] = {}
    async for partition_id in context.each(list(session.partitions)):
        try:
            topic, partition = readable(partition_id, context)
            time = context.shares.start_time(session.key.group_id, topic, partition)
            found = await offset_at_time(partition.log, time, context.opening) if time is not None else None
        except (BrokerError, CorruptRecordError, UnsupportedCompressionError) as error:
            # A partition that can't be read has no start, and the response has its error.
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
    """Locate acquirable records, within the limits. Nothing is read yet."""
    remaining = min(request.max_bytes, context.state.options.number("fetch.max.bytes"), context.fetch_limit())
    partition_ids = session.partitions
    # Like Kafka (PartitionMaxBytesStrategy), divide the limit equally, so one partition doesn't starve the others.
    max_bytes = remaining // max(len(partition_ids), 1)
    found: list[FetchedPartition] = []
    at_least_one = True
    # Iterate over a copy, because another request can use the session while this one pauses.
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
            fetched.start = share.next_offset
            fetched.span = stored.find(fetched.start, max_bytes, at_least_one=at_least_one, until=until)
            # As in Fetch, the first batch is returned whole, even if it exceeds the limit (KIP-74).
            at_least_one = at_least_one and not fetched.size
    return found


async def _acquire(
    session: ShareSession,
    found: Iterable[FetchedPartition],
    request: ShareFetchRequest,
    settings: ShareSettings,
    context: RequestContext,
) -> bool:
    """Read the located records and acquire from them. Return whether any were acquired."""
    remaining = request.max_records
    async for fetched in context.each(found):
        # Another request or a disconnect may have closed the session while this was suspended. Records acquired for it
        # would stay locked.
        if not context.share_sessions.is_open(session):
            break
        if (
            fetched.share is None
            or fetched.partition is None
            or fetched.span is None
            or not fetched.size
            or remaining <= 0
            # Other requests have run in the meantime. Records that they released come first, so these aren't acquired.
            or not context.shares.is_current(session.key.group_id, fetched.partition_id, fetched.share)
            or fetched.share.next_offset != fetched.start
        ):
            continue
        try:
            # This may read more than is acquired, since other members may hold some of the records. The response is cut
            # down to the acquired records.
            data = fetched.span.read()
        except FileNotFoundError:
            # Retention has deleted the segment in the meantime.
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
                AcquiredRecords(
                    first_offset=records.first, last_offset=records.last, delivery_count=records.delivery_count
                )
                for records in acquired
            ]
            remaining -= sum(records.last - records.first + 1 for records in acquired)
    return remaining < request.max_records


def _batch_headers(data: bytes) -> Iterable[BatchHeader]:
    position = 0
    while position < len(data):
        header = BatchHeader.read(data, position)
        yield header
        position += header.size


def _fetched_batches(
    headers: list[BatchHeader], start: int, partition: Partition, committed: bool
) -> list[FetchedBatch]:
    """Return the batches that were read.

    With magic 0 and 1, the header doesn't contain the first offset. The batch is assumed to start right after the
    previous batch.
    """
    first, end = headers[0].base_offset, headers[-1].last_offset + 1
    aborted = partition.log.aborted_transactions(first, end) if committed else []

    def is_aborted(header: BatchHeader) -> bool:
        return bool(header.attributes & TRANSACTIONAL and not header.attributes & CONTROL) and any(
            transaction.producer_id == header.producer_id
            and transaction.first_offset <= header.base_offset <= transaction.last_offset
            for transaction in aborted
        )

    batches: list[FetchedBatch] = []
    for header in headers:
        first = header.base_offset if header.magic > 1 else min(start, header.base_offset)
        batches.append(FetchedBatch(first, header.last_offset, is_aborted(header)))
        start = header.last_offset + 1
    return batches


def _slice(data: bytes, headers: list[BatchHeader], acquired: list[AcquiredRange]) -> bytes:
    """Return the batches from the first to the last acquired record."""
    first, last = acquired[0].first, acquired[-1].last
    start = sum(header.size for header in headers if header.last_offset < first)
    end = sum(header.size for header in headers if header.base_offset <= last)
    return data[start:end]


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
    # FENCED_LEADER_EPOCH gets no hint, unlike in Fetch, because ShareFetch doesn't carry a leader epoch.
    if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        leader, epoch = leader_of(partition_id, context)
        response.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)


async def _respond(
    session: ShareSession,
    found: Iterable[FetchedPartition],
    acknowledged: dict[TopicIdPartition, AcknowledgeError],
    context: RequestContext,
) -> ShareFetchResponse:
    responses = {fetched.partition_id: fetched.response for fetched in found}
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

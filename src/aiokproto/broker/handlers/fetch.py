"""Fetch: read record batches. Waits up to ``max_wait_ms`` until there are ``min_bytes`` to return.

v0-3 return the old message formats, which Kafka 4 no longer does. v7: fetch sessions (KIP-227). v9: leader epochs
(KIP-320). v12: diverging epochs (KIP-595) and leader hints. v13: topic ids (KIP-516). v16: node endpoints (KIP-951).

``read_committed`` consumers get the records up to the last stable offset, along with the list of aborted transactions.
There is one copy of the data, so the high watermark is the log end offset, and followers don't fetch. v11: consumers
can read from followers, and the leader directs them to the follower in their rack (KIP-392).
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import groupby

from aiokproto.broker.fetch.long_poll import count_changes, longest_wait, wait_for_change
from aiokproto.broker.fetch.sessions import FetchSession, Key
from aiokproto.broker.log import Span
from aiokproto.broker.log.conversion import NEW_FETCH, downgrade
from aiokproto.broker.log.header import BatchHeader
from aiokproto.broker.metadata.topics import Partition
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.yield_budget import ITEM
from aiokproto.codec.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

READ_COMMITTED = 1

FROM_FOLLOWERS = 11
"""The first version in which consumers can read from followers (KIP-392)."""

_FIRST_BATCH_WHOLE = 3

Found = tuple[Key, PartitionData, Span | None, Partition | None]

REQUIRES = (Required(Operation.READ, ResourceType.TOPIC, otherwise="refuses the topics of the session"),)


async def handle(request: FetchRequest, context: RequestContext) -> FetchResponse:
    try:
        session = context.sessions.session_for(request, context.version)
    except BrokerError as error:
        return FetchResponse(error_code=error.code, responses=[])
    # The deadline is fixed here rather than after each change, so a Fetch that is woken again and again still returns
    # in time. It's in the event loop's time, which wait_for_change() uses.
    deadline = asyncio.get_running_loop().time() + longest_wait(request.max_wait_ms, context.state.options)
    timed_out = request.max_wait_ms <= 0
    while True:
        # Locate the records without reading them: a waiting request would otherwise hold on to bytes that it will read
        # again.
        found, changes = await _find_records(session, request, context)
        size = sum(span.size for _, _, span, _ in found if span is not None)
        # Like ReplicaManager.fetchMessages(), report errors and truncations right away, not at the end of the wait.
        respond_now = not found or any(
            response.error_code or response.diverging_epoch.epoch >= 0 or response.preferred_read_replica >= 0
            for _, response, _, _ in found
        )
        if respond_now or size >= request.min_bytes or timed_out:
            break
        # Use the partitions that were just looked up: a topic may have been deleted and recreated since the last wait.
        partitions = [partition for _, _, _, partition in found if partition is not None]
        # Don't wait if records arrived while other tasks were running.
        timed_out = changes == count_changes(partitions) and await wait_for_change(partitions, deadline)
        timed_out = timed_out or asyncio.get_running_loop().time() >= deadline
    # A response can contain 50 MB, so yield between reads. The limits were applied when the records were located.
    turns = context.turns
    for key, response, span, _ in found:
        response.records = b"" if span is None else _read(response, span)
        if context.version < NEW_FETCH:
            # Conversion decodes and re-encodes every record, so it runs in a thread.
            wanted = session.partitions[key].request
            await context.opening.run(partial(_downgrade, response, wanted, context.version))
        if response.aborted_transactions:
            _drop_later_aborted(response)
        if turns.uses_up(ITEM + len(response.records)):
            await turns.pause()
    # Don't keep a session if all of its partitions are refused, because anyone can send such a request, and sessions
    # take up memory and evict each other.
    if not found or any(response.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED for _, response, _, _ in found):
        context.sessions.keep(session)
    # Do this last, when the responses are final: a session leaves out partitions that haven't changed since its last
    # response.
    changed = session.select((key, response) for key, response, _, _ in found)
    return _respond(session, changed, context)


def _read(response: PartitionData, span: Span) -> bytes:
    try:
        return span.read()
    except FileNotFoundError:
        # Retention has deleted the segment while this task was suspended. The error is retriable, and the next Fetch
        # gets OFFSET_OUT_OF_RANGE if the offset no longer exists.
        response.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return b""


def _respond(session: FetchSession, changed: list[tuple[Key, PartitionData]], context: RequestContext) -> FetchResponse:
    hints = {response.current_leader.leader_id for _, response in changed} - {-1} if context.version >= 16 else set()
    return FetchResponse(
        error_code=ErrorCode.NONE,
        session_id=session.session_id,
        responses=[
            FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=[response for _, response in group])
            for (name, topic_id), group in groupby(changed, key=lambda item: item[0][:2])
        ],
        node_endpoints=[
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port)
            for node in context.state.alive
            if node.node_id in hints
        ],
    )


async def _find_records(
    session: FetchSession, request: FetchRequest, context: RequestContext
) -> tuple[list[Found], int]:
    """Locate the records to return, within the limits. Nothing is read yet.

    Returns:
        The located records, and the partitions' change count before the search.
    """
    remaining = min(request.max_bytes, context.state.options.number("fetch.max.bytes"), context.fetch_limit())
    found: list[Found] = []
    # The first batch of the response is returned whole, even if it exceeds all limits. Otherwise a consumer could never
    # get past a batch that is larger than its limits (KIP-74).
    at_least_one = True
    changes = 0
    committed = request.isolation_level == READ_COMMITTED
    # Iterate over a copy, because another request can use the session while this one pauses.
    for key, wanted in list(session.partitions.items()):
        if context.turns.uses_up():
            await context.turns.pause()
        response, span, partition = _find_partition_records(
            key, wanted.request, request.rack_id, remaining, at_least_one, committed, context
        )
        if span is not None and span.size:
            remaining = max(remaining - span.size, 0)
            at_least_one = False
        found.append((key, response, span, partition))
        changes += partition.changes if partition is not None else 0
    return found, changes


def _find_partition_records(
    key: Key,
    request_partition: FetchPartition,
    rack: str,
    remaining: int,
    at_least_one: bool,
    committed: bool,
    context: RequestContext,
) -> tuple[PartitionData, Span | None, Partition | None]:
    response = PartitionData(
        partition_index=request_partition.partition,
        error_code=ErrorCode.NONE,
        high_watermark=-1,
        aborted_transactions=None,
        records=b"",
    )
    partition = None
    try:
        name = context.topic_name(key[0], key[1], context.version >= 13)
        # This is checked here rather than by the dispatcher, because a Fetch in a session lists only the partitions
        # that changed, and the permission may be revoked during the session.
        context.authorize(Operation.READ, ResourceType.TOPIC, name)
        # Look up the partition before the check that may fail: after an error, the hint contains the current leader.
        partition = context.state.find_partition(name, request_partition.partition)
        # Since v11, consumers can read from followers, with the leader's epoch or none, as in
        # ReplicaManager.readFromLog().
        find = context.state.readable_partition if context.version >= FROM_FOLLOWERS else context.state.led_partition
        led = find(name, request_partition.partition, context.node.node_id, request_partition.current_leader_epoch)
        log = led.log
        span = None
        if rack and led.leader == context.node.node_id:
            response.preferred_read_replica = context.state.nearest_replica(led, rack)
        # A leader that directs the client to another replica doesn't send records.
        if response.preferred_read_replica < 0 and (
            request_partition.last_fetched_epoch < 0 or not _diverges(led, request_partition, response)
        ):
            # Both limits apply. The per-partition limit keeps one partition from filling the response (KIP-74).
            limit = min(request_partition.partition_max_bytes, remaining)
            until = log.last_stable_offset if committed else None
            span = log.find(request_partition.fetch_offset, limit, at_least_one=at_least_one, until=until)
            if until is not None:
                response.aborted_transactions = [
                    AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                    for aborted in log.aborted_transactions(request_partition.fetch_offset, until)
                ]
        # Set the offsets last: as in Kafka, error responses don't have them (ReplicaManager.createLogReadResult()).
        response.high_watermark = log.end_offset
        response.last_stable_offset = log.last_stable_offset
        response.log_start_offset = log.start_offset
        return response, span, partition
    except BrokerError as error:
        response.error_code = error.code
        # These two errors make a client look for the leader (KIP-951). With UNKNOWN_LEADER_EPOCH, the client knows more
        # than this node.
        refresh = error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
        if refresh and partition is not None and context.version >= 12:
            response.current_leader = LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
        return response, None, partition


def _downgrade(response: PartitionData, request_partition: FetchPartition, version: int) -> None:
    try:
        records = downgrade(response.records or b"", version, request_partition.fetch_offset)
    except BrokerError as error:
        response.error_code = error.code
        response.records = b""
        return
    # Before v3 (KIP-74), a response never exceeds the limits, even if that cuts a message short. A client that gets
    # less than one message raises its limit.
    response.records = (
        records[: max(request_partition.partition_max_bytes, 0)] if version < _FIRST_BATCH_WHOLE else records
    )


def _drop_later_aborted(response: PartitionData) -> None:
    """Leave out aborted transactions that start after the records in the response."""
    # The list covers all records up to the last stable offset, but the size limits may have returned fewer records.
    data = bytes(response.records or b"")
    end = position = 0
    while position < len(data):
        header = BatchHeader.read(data, position)
        end = header.last_offset + 1
        position += header.size
    response.aborted_transactions = [
        aborted for aborted in response.aborted_transactions or () if aborted.first_offset < end
    ]


def _diverges(partition: Partition, request_partition: FetchPartition, response: PartitionData) -> bool:
    """Return whether the log was truncated since the client read from it. If so, set ``diverging_epoch`` (KIP-595)."""
    end = partition.log.end_of_epoch(request_partition.last_fetched_epoch)
    # The log never had this epoch, so there is no offset to truncate to. The client resets its offset.
    if end.epoch < 0:
        raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if end.epoch < request_partition.last_fetched_epoch or end.end_offset < request_partition.fetch_offset:
        response.diverging_epoch = EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
        return True
    return False

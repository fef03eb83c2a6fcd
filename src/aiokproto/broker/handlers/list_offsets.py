"""ListOffsets: the first offset, the next offset, or the offset of the first record at or after a timestamp.

Special timestamps: -1 latest, -2 earliest, -3 maximum timestamp (v7, KIP-734), -4 earliest local (v8), -5 latest tiered
(v9), -6 earliest pending upload (v11). There is no tiered storage, so -4 is the same as -2, and -5 and -6 find nothing.
"""

from __future__ import annotations

from aiokproto.broker.log import Log
from aiokproto.broker.metadata.topics import Partition
from aiokproto.broker.opening import offset_at_time
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, CorruptRecordError, UnsupportedCompressionError
from aiokproto.types import OffsetAndTimestamp

READ_COMMITTED = 1

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6

_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}

REQUIRES = (Required(Operation.DESCRIBE, ResourceType.TOPIC),)


async def handle(request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    topics: list[ListOffsetsTopicResponse] = []
    async for topic in context.each(request.topics):
        # Python 3.10 doesn't support this comprehension inside another comprehension.
        partitions = [
            await _response(topic.name, requested, request.isolation_level, context)
            async for requested in context.each(topic.partitions)
        ]
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


async def _response(
    topic: str, requested: ListOffsetsPartition, isolation: int, context: RequestContext
) -> ListOffsetsPartitionResponse:
    response = ListOffsetsPartitionResponse(partition_index=requested.partition_index, error_code=ErrorCode.NONE)
    try:
        node_id = context.node.node_id
        partition = context.state.led_partition(
            topic, requested.partition_index, node_id, requested.current_leader_epoch
        )
        # As in Kafka, versions reject special timestamps that were added later
        # (ReplicaManager.isListOffsetsTimestampUnsupported()).
        if context.version < _SINCE.get(requested.timestamp, 0) or requested.timestamp < EARLIEST_PENDING:
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION)
        if context.version == 0:
            response.old_style_offsets = _old_style(partition.log, requested, context.state.clock.wall())
            return response
        found = await _find_offset(partition, requested.timestamp, isolation == READ_COMMITTED, context)
    except BrokerError as error:
        response.error_code = error.code
    except UnsupportedCompressionError:
        response.error_code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    except CorruptRecordError:
        response.error_code = ErrorCode.CORRUPT_MESSAGE
    else:
        if found is not None:
            response.offset, response.timestamp = found.offset, found.timestamp
            if context.version >= 4:
                # The client uses the epoch to validate its position and detect truncation (KIP-320).
                response.leader_epoch = found.leader_epoch
    return response


def _old_style(log: Log, requested: ListOffsetsPartition, now: int) -> list[int]:
    """Return the offsets of v0, newest first: the log end, and the starts of segments modified before a time.

    Before KIP-79, brokers searched by the modification times of segment files.
    """
    known = [(max(segment.base_offset, log.start_offset), segment.modified) for segment in log.segments if segment.size]
    known.append((log.end_offset, now))
    if requested.timestamp == EARLIEST:
        known = known[:1]
    elif requested.timestamp != LATEST:
        known = [(offset, modified) for offset, modified in known if modified <= requested.timestamp]
    return [offset for offset, _ in reversed(known)][: max(requested.max_num_offsets, 0)]


async def _find_offset(
    partition: Partition, timestamp: int, committed: bool, context: RequestContext
) -> OffsetAndTimestamp | None:
    log = partition.log
    # The log ends here for read_committed consumers: LATEST must not take them past an open transaction.
    end = log.last_stable_offset if committed else log.end_offset
    if timestamp == LATEST:
        return OffsetAndTimestamp(end, -1, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return OffsetAndTimestamp(log.start_offset, -1, log.epoch_of(log.start_offset))
    if timestamp == MAX_TIMESTAMP:
        # Find the first record with the greatest timestamp (KIP-734).
        timestamp = log.max_timestamp
    found = await offset_at_time(log, timestamp, context.opening) if timestamp >= 0 else None
    # read_committed consumers can't see records beyond the last stable offset. As in Kafka, the search itself ignores
    # that limit, so it may find such a record, and then nothing is returned.
    return found if found is not None and found.offset < end else None

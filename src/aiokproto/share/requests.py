"""ShareFetch and ShareAcknowledge requests. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from aiokproto.codec.messages import share_acknowledge, share_fetch
from aiokproto.codec.messages.share_acknowledge import ShareAcknowledgeRequest
from aiokproto.codec.messages.share_fetch import ShareFetchRequest
from aiokproto.share.acknowledgement import Acknowledgement
from aiokproto.share.config import ShareFetchConfig
from aiokproto.share.ledger import QueuedAck
from aiokproto.share.session import SharePlan, TopicIdPartition

Acks = Mapping[TopicIdPartition, Sequence[QueuedAck]]
"""The acknowledgements of a request by partition, in order of offsets."""


class Member(NamedTuple):
    """The member that sends a request."""

    group_id: str
    member_id: str


def share_fetch_request(
    member: Member,
    plan: SharePlan,
    acks: Acks,
    config: ShareFetchConfig,
    *,
    max_records: int,
    strict: bool,
    max_wait: float,
) -> ShareFetchRequest:
    """Return a request that acquires records, and acknowledges records acquired earlier.

    Args:
        member: The member that sends it.
        plan: The session's part of the request.
        acks: The acknowledgements, without renewals.
        config: The options.
        max_records: Maximum number of records to acquire.
        strict: Whether to acquire no more than that (KIP-1206). If not, whole batches are acquired.
        max_wait: How many seconds the broker may wait for records.
    """
    topics: dict[bytes, share_fetch.FetchTopic] = {}
    for topic_id, number in {**dict.fromkeys(plan.added), **acks}:
        topic = topics.setdefault(topic_id, share_fetch.FetchTopic(topic_id=topic_id, partitions=[]))
        batches = [
            share_fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in ack_batches(acks.get((topic_id, number), ()))
        ]
        topic.partitions.append(share_fetch.FetchPartition(partition_index=number, acknowledgement_batches=batches))
    forgotten: dict[bytes, share_fetch.ForgottenTopic] = {}
    for topic_id, number in plan.forgotten:
        topic_forgotten = forgotten.setdefault(topic_id, share_fetch.ForgottenTopic(topic_id=topic_id, partitions=[]))
        topic_forgotten.partitions.append(number)
    return ShareFetchRequest(
        group_id=member.group_id,
        member_id=member.member_id,
        share_session_epoch=plan.epoch,
        max_wait_ms=int(max_wait * 1000),
        min_bytes=config.min_bytes,
        max_bytes=config.max_bytes,
        max_records=max_records,
        batch_size=max_records,
        share_acquire_mode=int(strict),
        topics=list(topics.values()),
        forgotten_topics_data=list(forgotten.values()),
    )


def share_acknowledge_request(
    member: Member, epoch: int, acks: Acks, *, renew: bool = False
) -> ShareAcknowledgeRequest:
    """Return a request that only acknowledges, or only renews if ``renew``. Epoch -1 closes the session."""
    topics: dict[bytes, share_acknowledge.AcknowledgeTopic] = {}
    for (topic_id, number), of_partition in acks.items():
        topic = topics.setdefault(topic_id, share_acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=[]))
        batches = [
            share_acknowledge.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in ack_batches(of_partition)
        ]
        topic.partitions.append(
            share_acknowledge.AcknowledgePartition(partition_index=number, acknowledgement_batches=batches)
        )
    return ShareAcknowledgeRequest(
        group_id=member.group_id,
        member_id=member.member_id,
        share_session_epoch=epoch,
        is_renew_ack=renew,
        topics=list(topics.values()),
    )


def ack_batches(acks: Iterable[QueuedAck]) -> Iterator[tuple[int, int, list[int]]]:
    """Yield acknowledgements as ranges of offsets with the same type: the first offset, the last one, and the type in a
    list."""
    first, last, kind = 0, -1, Acknowledgement.GAP
    for ack in acks:
        if last >= 0 and ack.first == last + 1 and ack.kind is kind:
            last = ack.last
            continue
        if last >= 0:
            yield first, last, [int(kind)]
        first, last, kind = ack.first, ack.last, ack.kind
    if last >= 0:
        yield first, last, [int(kind)]

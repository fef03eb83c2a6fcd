"""Fetch requests. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aiokproto.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from aiokproto.consumer.fetch_session import FetchPlan, FetchPosition
from aiokproto.fetched.chunk import DEFAULT_LIMITS, DecodeLimits
from aiokproto.types import TopicPartition

WITH_EPOCHS = 12
"""The first version of Fetch that includes the epoch of the last fetched batch (KIP-595)."""

BY_NAME = 12
"""The last version of Fetch with topic names; later versions use topic ids (KIP-516)."""


@dataclass(frozen=True)
class FetchConfig:
    """The options for fetching. Durations are in seconds."""

    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    max_partition_bytes: int = 1024 * 1024
    max_wait: float = 0.5
    buffer_bytes: int = 64 * 1024 * 1024
    read_committed: bool = False
    rack: str = ""
    control_records: bool = False
    check_crcs: bool = True
    limits: DecodeLimits = DEFAULT_LIMITS


def fetch_request(
    plan: FetchPlan, config: FetchConfig, *, version: int, max_bytes: int, max_wait: float, rack: str
) -> FetchRequest:
    """Return the request for a plan.

    Args:
        plan: The session and the partitions.
        config: The options.
        version: The version of the request.
        max_bytes: The size limit of the whole response.
        max_wait: How many seconds the broker may wait for records.
        rack: The consumer's rack, which lets the leader name a closer replica (KIP-392); empty to fetch from leaders.
    """
    return FetchRequest(
        max_wait_ms=int(max_wait * 1000),
        min_bytes=config.min_bytes,
        max_bytes=max_bytes,
        isolation_level=int(config.read_committed),
        session_id=plan.session_id,
        session_epoch=plan.epoch,
        topics=_topics(plan.partitions, epochs=version >= WITH_EPOCHS),
        forgotten_topics_data=_forgotten(plan.forgotten),
        rack_id=rack,
    )


def _topics(partitions: Mapping[TopicPartition, FetchPosition], *, epochs: bool) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for (name, number), wanted in partitions.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = FetchTopic(topic=name, topic_id=wanted.topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=number,
                current_leader_epoch=wanted.leader_epoch,
                fetch_offset=wanted.offset,
                last_fetched_epoch=wanted.last_epoch if epochs else -1,
                partition_max_bytes=wanted.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(partitions: Mapping[TopicPartition, FetchPosition]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for (name, number), wanted in partitions.items():
        key = (name, wanted.topic_id)
        if key not in topics:
            topics[key] = ForgottenTopic(topic=name, topic_id=wanted.topic_id, partitions=[])
        topics[key].partitions.append(number)
    return list(topics.values())

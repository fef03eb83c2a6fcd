"""Whether a log still holds what was loaded from it.

A leader that was elected though it was not in sync has a log that ends, or goes another way, before records that were
acknowledged, and loaded, already. Offsets do not show it once the log has grown again. Leader epochs do (KIP-101,
KIP-320): the leader is asked where the epoch of the loaded end has ended. An end before the loaded one means that what
lies between is not in the log any more.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiokproto.cluster import Cluster
from aiokproto.codec.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from aiokproto.errors import KafkaError
from aiokproto.spark.leaders import ask_leaders
from aiokproto.spark.loads.manifest import Divergence, Position
from aiokproto.spark.options import ReadOptions
from aiokproto.types import TopicPartition

CONSUMER = -1
UNKNOWN = -1


class TruncationError(KafkaError):
    """Records that were loaded are not in the log any more, and others may be in their place.

    Attributes:
        divergences: What was found of each partition.
    """

    def __init__(self, divergences: Mapping[TopicPartition, Divergence]) -> None:
        self.divergences = dict(divergences)
        found = "; ".join(f"{partition} {describe(one)}" for partition, one in sorted(self.divergences.items()))
        super().__init__(
            f"the log was truncated since the last load, as by an unclean leader election: {found}. "
            "on_truncation='continue' records this and loads what is there now"
        )


def describe(divergence: Divergence) -> str:
    """What was found of a partition, for messages."""
    known = "" if divergence.found_epoch == UNKNOWN else f" of leader epoch {divergence.found_epoch}"
    return (
        f"was loaded up to offset {divergence.end} of leader epoch {divergence.epoch}, "
        f"but is the same only up to offset {divergence.offset}{known}"
    )


async def diverged(
    cluster: Cluster, positions: Mapping[TopicPartition, Position], options: ReadOptions
) -> dict[TopicPartition, Divergence]:
    """The partitions whose logs no longer hold what lies before these positions. Cancelling it has no effect.

    Positions of an unknown epoch are not looked at: with brokers before 2.1 there is no way to know.

    Raises:
        BrokerError, BrokerConnectionError, DeadlineError: The last failure, after ``fetchOffset.numRetries``.
    """
    known = {partition: position for partition, position in positions.items() if position.epoch >= 0}

    async def ask(leader: int, partitions: list[TopicPartition]) -> list[tuple[TopicPartition, EpochEndOffset]]:
        response = await cluster.request(_request(cluster, {one: known[one].epoch for one in partitions}), node=leader)
        return [
            (TopicPartition(topic.topic, answer.partition), answer)
            for topic in response.topics
            for answer in topic.partitions
        ]

    found: dict[TopicPartition, Divergence] = {}
    for partition, answer in (await ask_leaders(cluster, "OffsetForLeaderEpoch", known, ask, options)).items():
        position = known[partition]
        # Without any end the leader knows neither this epoch nor one before it: all that it has is of later ones.
        end = max(answer.end_offset, 0)
        if end < position.offset:
            found[partition] = Divergence(end, position.offset, position.epoch, answer.leader_epoch)
    return found


def _request(cluster: Cluster, epochs: Mapping[TopicPartition, int]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, list[OffsetForLeaderPartition]] = {}
    for (topic, partition), epoch in epochs.items():
        current = cluster.snapshot.leader_epoch(topic, partition)
        asked = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
        topics.setdefault(topic, []).append(asked)
    return OffsetForLeaderEpochRequest(
        replica_id=CONSUMER,
        topics=[OffsetForLeaderTopic(topic=name, partitions=partitions) for name, partitions in topics.items()],
    )

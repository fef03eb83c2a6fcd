"""Detection of truncated logs: does a log still have the records that were read?

After an unclean leader election the leader's log may end, or diverge, before records that were acknowledged and read.
Once the log has grown again, offsets don't show this, but leader epochs do (KIP-101, KIP-279, KIP-320): the response to
OffsetForLeaderEpoch contains the end of the last record's epoch. If that is before the end of the records that were
read, the log no longer has the records in between.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from aiokproto.errors import KafkaError
from aiokproto.spark.leaders import request_leaders
from aiokproto.spark.offsets import OffsetRange
from aiokproto.spark.options import ReadOptions
from aiokproto.spark.positions import Divergence, Epochs, Position
from aiokproto.types import TopicPartition

CONSUMER = -1
UNKNOWN = -1


class TruncationError(KafkaError):
    """The log no longer has records that were read. It may have other records at their offsets.

    Attributes:
        divergences: The truncated offsets, by partition.
    """

    def __init__(self, divergences: Mapping[TopicPartition, Divergence], advice: str = "") -> None:
        self.divergences = dict(divergences)
        found = "; ".join(
            f"{partition} {describe(divergence)}" for partition, divergence in sorted(self.divergences.items())
        )
        super().__init__(
            f"the log was truncated since it was read, as by an unclean leader election: {found}"
            f"{'. ' if advice else ''}{advice}"
        )


def describe(divergence: Divergence) -> str:
    """Describe the divergence of a partition, for messages."""
    known = "" if divergence.found_epoch == UNKNOWN else f" of leader epoch {divergence.found_epoch}"
    return (
        f"was read up to offset {divergence.end} of leader epoch {divergence.epoch}, "
        f"but matches the log only up to offset {divergence.offset}{known}"
    )


async def find_divergences(
    cluster: ClusterClient, positions: Mapping[TopicPartition, Position], options: ReadOptions
) -> dict[TopicPartition, Divergence]:
    """Return the partitions whose logs no longer have the records before these positions.

    The first request is for the epoch of the last record that was read. A leader that doesn't have this epoch responds
    with an older one. If no record that was read has that epoch, the next request is for the epoch before it, as with
    followers (KIP-279).

    Positions without epochs are skipped because brokers before 2.1 don't report epochs. Cancelling this has no effect
    on the cluster.

    Raises:
        BrokerError, BrokerConnectionError, DeadlineError: The last failure, after ``fetchOffset.numRetries``.
    """
    found: dict[TopicPartition, Divergence] = {}
    # The index of the epoch to request next, by partition.
    indexes = {one: len(position.epochs) - 1 for one, position in positions.items() if position.epochs}
    while indexes:
        requests = {one: positions[one].epochs[index][0] for one, index in indexes.items()}
        older: dict[TopicPartition, int] = {}
        for partition, response in (await _epoch_ends(cluster, requests, options)).items():
            position = positions[partition]
            common = _common(position, indexes[partition], response)
            if isinstance(common, Older):
                older[partition] = common.epoch_index
            elif common is not None and common < position.offset:
                found[partition] = Divergence(common, position.offset, position.epoch, response.leader_epoch)
        indexes = older
    return found


class Older(NamedTuple):
    """The index of the older epoch to request next."""

    epoch_index: int


def _common(position: Position, index: int, response: EpochEndOffset) -> int | Older | None:
    """Return the offset where the log stops having the records that were read, by the response for one of their epochs.

    None means that the leader doesn't know the epoch. Its log may have no epochs at all yet.
    """
    if response.end_offset < 0:
        return None
    epochs = position.epochs
    ends = [*(first for _, first in epochs[1:]), position.offset]
    if response.leader_epoch in (epochs[index][0], UNKNOWN):
        return min(response.end_offset, ends[index])
    older = [number for number in range(index) if epochs[number][0] <= response.leader_epoch]
    if not older:
        # The response's epoch is older than all known epochs of the records that were read.
        return min(response.end_offset, epochs[0][1])
    if epochs[older[-1]][0] == response.leader_epoch:
        return min(response.end_offset, ends[older[-1]])
    return Older(older[-1])


async def request_epochs(
    cluster: ClusterClient, ranges: Collection[OffsetRange], options: ReadOptions
) -> dict[TopicPartition, Epochs]:
    """Return the leader epochs of the records in ranges. The newest is requested first.

    Raises:
        BrokerError, BrokerConnectionError, DeadlineError: The last failure, after ``fetchOffset.numRetries``.
    """
    by_partition = {one.topic_partition: one for one in ranges if one.size > 0 and one.leader_epoch >= 0}
    epochs: dict[TopicPartition, list[tuple[int, int]]] = {one: [] for one in by_partition}
    current = {partition: one.leader_epoch for partition, one in by_partition.items()}
    while current:
        older: dict[TopicPartition, int] = {}
        # An epoch starts where the one before it ends.
        requests = {partition: epoch - 1 for partition, epoch in current.items() if epoch > 0}
        responses = await _epoch_ends(cluster, requests, options)
        for partition, epoch in current.items():
            offsets, response = by_partition[partition], responses.get(partition)
            start = offsets.start if response is None else max(response.end_offset, offsets.start)
            if start < offsets.end:
                epochs[partition].insert(0, (epoch, start))
            if response is not None and response.end_offset > offsets.start and 0 <= response.leader_epoch < epoch:
                older[partition] = response.leader_epoch
        current = older
    return {partition: tuple(found) for partition, found in epochs.items()}


async def _epoch_ends(
    cluster: ClusterClient, epochs: Mapping[TopicPartition, int], options: ReadOptions
) -> dict[TopicPartition, EpochEndOffset]:
    async def send(leader: int, partitions: list[TopicPartition]) -> list[tuple[TopicPartition, EpochEndOffset]]:
        response = await cluster.request(_request(cluster, {one: epochs[one] for one in partitions}), node=leader)
        return [
            (TopicPartition(topic.topic, partition.partition), partition)
            for topic in response.topics
            for partition in topic.partitions
        ]

    return await request_leaders(cluster, OffsetForLeaderEpochRequest, epochs, send, options)


def _request(cluster: ClusterClient, epochs: Mapping[TopicPartition, int]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, list[OffsetForLeaderPartition]] = {}
    for (topic, partition), epoch in epochs.items():
        current = cluster.snapshot.leader_epoch(topic, partition)
        topics.setdefault(topic, []).append(
            OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
        )
    return OffsetForLeaderEpochRequest(
        replica_id=CONSUMER,
        topics=[OffsetForLeaderTopic(topic=name, partitions=partitions) for name, partitions in topics.items()],
    )

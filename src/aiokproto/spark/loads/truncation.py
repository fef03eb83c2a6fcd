"""Whether a log still holds what was loaded from it.

A leader that was elected though it was not in sync has a log that ends, or goes another way, before records that were
acknowledged, and loaded, already. Offsets do not show it once the log has grown again. Leader epochs do (KIP-101,
KIP-279, KIP-320): the leader is asked where the epoch of the last record has ended. An end before the loaded one means
that what lies between is not in the log any more.
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
from aiokproto.spark.loads.manifest import Divergence, Epochs, Position
from aiokproto.spark.offsets import OffsetRange
from aiokproto.spark.options import ReadOptions
from aiokproto.types import TopicPartition

CONSUMER = -1
UNKNOWN = -1


class TruncationError(KafkaError):
    """Records that were loaded are not in the log any more, and others may be in their place.

    Attributes:
        divergences: What was found of each partition.
    """

    def __init__(self, divergences: Mapping[TopicPartition, Divergence], advice: str = "") -> None:
        self.divergences = dict(divergences)
        found = "; ".join(f"{partition} {describe(one)}" for partition, one in sorted(self.divergences.items()))
        super().__init__(
            f"the log was truncated since it was loaded, as by an unclean leader election: {found}"
            f"{'. ' if advice else ''}{advice}"
        )


def describe(divergence: Divergence) -> str:
    """What was found of a partition, for messages."""
    known = "" if divergence.found_epoch == UNKNOWN else f" of leader epoch {divergence.found_epoch}"
    return (
        f"was loaded up to offset {divergence.end} of leader epoch {divergence.epoch}, "
        f"but is the same only up to offset {divergence.offset}{known}"
    )


async def diverged(
    cluster: ClusterClient, positions: Mapping[TopicPartition, Position], options: ReadOptions
) -> dict[TopicPartition, Divergence]:
    """The partitions whose logs no longer hold what lies before these positions. Cancelling it has no effect.

    The leader is asked for the epoch of the last record. If it does not know that one it names an older one that it
    knows, and if that is not one of ours, it is asked for the one before, as followers do (KIP-279).

    Positions of unknown epochs are skipped: brokers before 2.1 do not report epochs.

    Raises:
        BrokerError, BrokerConnectionError, DeadlineError: The last failure, after ``fetchOffset.numRetries``.
    """
    found: dict[TopicPartition, Divergence] = {}
    # Which one of its epochs a partition is asked for next.
    asking = {one: len(position.epochs) - 1 for one, position in positions.items() if position.epochs}
    while asking:
        asked = {one: positions[one].epochs[index][0] for one, index in asking.items()}
        further: dict[TopicPartition, int] = {}
        for partition, answer in (await _epoch_ends(cluster, asked, options)).items():
            position, index = positions[partition], asking[partition]
            common = _common(position, index, answer)
            if isinstance(common, Older):
                further[partition] = common.number
            elif common is not None and common < position.offset:
                found[partition] = Divergence(common, position.offset, position.epoch, answer.leader_epoch)
        asking = further
    return found


class Older(NamedTuple):
    """Which of the epochs to ask for instead."""

    number: int


def _common(position: Position, index: int, answer: EpochEndOffset) -> int | Older | None:
    """The offset up to which the log is the one that was loaded, by an answer for one of its epochs.

    None: the leader has no epochs so new, which is how it answers while a log has none at all.
    """
    if answer.end_offset < 0:
        return None
    epochs = position.epochs
    ends = [*(first for _, first in epochs[1:]), position.offset]
    if answer.leader_epoch in (epochs[index][0], UNKNOWN):
        return min(answer.end_offset, ends[index])
    older = [number for number in range(index) if epochs[number][0] <= answer.leader_epoch]
    if not older:
        # Older than all that is known of what was loaded.
        return min(answer.end_offset, epochs[0][1])
    if epochs[older[-1]][0] == answer.leader_epoch:
        return min(answer.end_offset, ends[older[-1]])
    return Older(older[-1])


async def written_in(
    cluster: ClusterClient, ranges: Collection[OffsetRange], options: ReadOptions
) -> dict[TopicPartition, Epochs]:
    """The leader epochs in which the records of ranges were written, found from the newest one down.

    Raises:
        BrokerError, BrokerConnectionError, DeadlineError: The last failure, after ``fetchOffset.numRetries``.
    """
    of = {one.topic_partition: one for one in ranges if one.size > 0 and one.leader_epoch >= 0}
    epochs: dict[TopicPartition, list[tuple[int, int]]] = {one: [] for one in of}
    current = {one: wanted.leader_epoch for one, wanted in of.items()}
    while current:
        older: dict[TopicPartition, int] = {}
        # Where the epoch before has ended, this one begins.
        asked = {one: epoch - 1 for one, epoch in current.items()}
        answers = await _epoch_ends(cluster, {one: epoch for one, epoch in asked.items() if epoch >= 0}, options)
        for partition, epoch in current.items():
            wanted, answer = of[partition], answers.get(partition)
            begins = wanted.start if answer is None else max(answer.end_offset, wanted.start)
            if begins < wanted.end:
                epochs[partition].insert(0, (epoch, begins))
            if answer is not None and answer.end_offset > wanted.start and 0 <= answer.leader_epoch < epoch:
                older[partition] = answer.leader_epoch
        current = older
    return {one: tuple(found) for one, found in epochs.items()}


async def _epoch_ends(
    cluster: ClusterClient, epochs: Mapping[TopicPartition, int], options: ReadOptions
) -> dict[TopicPartition, EpochEndOffset]:
    async def ask(leader: int, partitions: list[TopicPartition]) -> list[tuple[TopicPartition, EpochEndOffset]]:
        response = await cluster.request(_request(cluster, {one: epochs[one] for one in partitions}), node=leader)
        return [
            (TopicPartition(topic.topic, answer.partition), answer)
            for topic in response.topics
            for answer in topic.partitions
        ]

    return await request_leaders(cluster, "OffsetForLeaderEpoch", epochs, ask, options)


def _request(cluster: ClusterClient, epochs: Mapping[TopicPartition, int]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, list[OffsetForLeaderPartition]] = {}
    for (topic, partition), epoch in epochs.items():
        current = cluster.snapshot.leader_epoch(topic, partition)
        asked = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
        topics.setdefault(topic, []).append(asked)
    return OffsetForLeaderEpochRequest(
        replica_id=CONSUMER,
        topics=[OffsetForLeaderTopic(topic=name, partitions=partitions) for name, partitions in topics.items()],
    )

"""The offsets that a partition's log has, asked of its leader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aiokproto.application.foreign_calls import named_after
from aiokproto.consumer.part import ConsumerPart
from aiokproto.consumer.start_lookup import EARLIEST, LATEST
from aiokproto.consumer.subscription import to_timestamp
from aiokproto.group.arguments import to_offsets, to_partition
from aiokproto.types import OffsetAndTimestamp, TopicPartition


@named_after("Consumer")
class LogOffsets(ConsumerPart):
    """Looks up offsets, of assigned partitions and others."""

    async def beginning_offsets(
        self, *partitions: tuple[str, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition, assigned or not; of all assigned ones if none are given.

        Raises:
            UnknownTopicError, AuthorizationError: A topic does not exist, or may not be read.
            DeadlineError: No response in time.
        """
        return await self._ends(partitions, EARLIEST, timeout_ms)

    async def end_offsets(
        self, *partitions: tuple[str, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition; with ``read_committed`` the last stable offset.

        Otherwise as :meth:`beginning_offsets`.
        """
        return await self._ends(partitions, LATEST, timeout_ms)

    async def offsets_for_times(
        self, times: Mapping[tuple[str, int], int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a time (ms since the epoch) in each partition, None where there is none.

        Raises the errors of :meth:`beginning_offsets`; and UnsupportedVersionError with brokers before 0.10.1, which
        have no index of times.
        """
        given = to_offsets("offsets_for_times", times)
        wanted = {to_partition(partition): to_timestamp(time) for partition, time in given.items()}
        found = await self._engine.lookup.all(wanted, self._seconds(timeout_ms))
        return {
            partition: OffsetAndTimestamp(*answer) if answer.offset >= 0 else None
            for partition, answer in found.items()
        }

    async def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> list[TopicPartition]:
        """Return the partitions of a topic.

        Raises:
            UnknownTopicError, AuthorizationError: The topic does not exist, or may not be described.
            DeadlineError: No response in time.
        """
        info = await self._engine.cluster.topic(topic, self._seconds(timeout_ms))
        return [TopicPartition(topic, number) for number in range(len(info.partitions))]

    async def _ends(
        self, partitions: Iterable[tuple[str, int]], which: int, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(self._chosen(partitions), which)
        found = await self._engine.lookup.all(wanted, self._seconds(timeout_ms))
        return {partition: answer.offset for partition, answer in found.items()}

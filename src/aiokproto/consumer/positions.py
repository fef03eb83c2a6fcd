"""Where a consumer reads: its positions, and what it does about each partition."""

from __future__ import annotations

import asyncio

from aiokproto.application.foreign_calls import named_after
from aiokproto.consumer.cursor import PartitionState
from aiokproto.consumer.log_state import LogState
from aiokproto.consumer.part import ConsumerPart
from aiokproto.consumer.start_lookup import EARLIEST, LATEST
from aiokproto.consumer.subscription import to_timestamp
from aiokproto.group.arguments import to_partition, to_position
from aiokproto.runtime.timeouts import deadline_at
from aiokproto.types import OffsetAndMetadata, TopicPartition


@named_after("Consumer")
class Positions(ConsumerPart):
    """Moves, pauses and reports the positions of assigned partitions."""

    def seek(self, partition: tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        """Continue at this offset. The next fetch finds out whether the log has it.

        An offset with a leader epoch, as from :meth:`committed`, is validated first (KIP-320).

        Raises:
            ConfigurationError: The partition is not assigned, or the offset is out of range.
        """
        position = to_position(offset)
        self._assignment.seek(to_partition(partition), position.offset, position.leader_epoch)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Continue at the first offset of the log; in all partitions if none are given. Raises as :meth:`seek`."""
        self._assignment.seek_to(self._assigned(partitions), EARLIEST)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Continue at the end of the log; in all partitions if none are given. Raises as :meth:`seek`."""
        self._assignment.seek_to(self._assigned(partitions), LATEST)

    def seek_to_time(self, timestamp: int, *partitions: tuple[str, int]) -> None:
        """Continue at the first record with this timestamp (ms since the epoch) or a later one, else at the log's end;
        in all partitions if none are given. Raises as :meth:`seek`."""
        self._assignment.seek_to(self._assigned(partitions), to_timestamp(timestamp))

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Deliver nothing of these partitions until :meth:`resume`; buffered records stay. Of all if none are given.

        Raises as :meth:`seek`.
        """
        self._assignment.pause(self._assigned(partitions), True)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Deliver these partitions again; all if none are given."""
        self._assignment.pause(self._chosen(partitions), False)

    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions."""
        return frozenset(partition for partition, cursor in self._assignment.cursors.items() if cursor.paused)

    async def position(self, partition: tuple[str, int], timeout_ms: float | None = None) -> int:
        """Return the offset of the next record to be delivered.

        Args:
            partition: An assigned partition.
            timeout_ms: How long to wait for the start position to be looked up; by default ``default_api_timeout_ms``.

        Raises:
            ConfigurationError: The partition is not assigned.
            DeadlineError: The position is not known in time.
            BrokerError: The lookup was refused.
        """
        wanted = to_partition(partition)
        at = asyncio.get_running_loop().time() + self._seconds(timeout_ms)
        async with deadline_at(at, lambda: f"position of {wanted}: {self.partition_state(wanted)}"):
            # Looked up in each round: the partition may be revoked meanwhile, and then raises.
            while (known := (cursor := self._assignment.get(wanted)).position) is None:
                if cursor.error is not None:
                    raise cursor.error.with_traceback(None)
                # Also while the partition is held: a rebalance callback may ask, and delivery waits for the callback.
                self._engine.resolver.request(cursor)
                await self._engine.moved()
        return known

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the position of each assigned partition that has one: after the last record delivered. No I/O.

        It is what :meth:`commit` commits, and what a transaction commits as the consumer's progress.
        """
        # Everything delivered counts: the caller says by the call that it is done with it.
        return self._assignment.committable(processed=False)

    def lag(self, partition: tuple[str, int]) -> int | None:
        """Return how many offsets the position is behind the end of the log as of the last fetch; None if unknown."""
        return self._assignment.get(to_partition(partition)).lag(self._engine.config.fetch.read_committed)

    def at_end(self, partition: tuple[str, int]) -> bool:
        """Return whether everything that the log had at the last fetch was delivered; False while unknown. No I/O.

        With ``read_committed``, an open transaction is the end. Raises as :meth:`seek`.
        """
        return self.log_state(partition).at_end

    def log_state(self, partition: tuple[str, int]) -> LogState:
        """Return the position, the ends of the log, and the lag, as of the last fetch. No I/O. Raises as
        :meth:`seek`."""
        return self._assignment.get(to_partition(partition)).log_state(self._engine.config.fetch.read_committed)

    def partition_state(self, partition: tuple[str, int]) -> PartitionState:
        """Return what the consumer is doing about a partition, and why it delivers no records if it does not."""
        return self._engine.state(to_partition(partition))

"""Writing batches that are written already."""

from __future__ import annotations

from collections.abc import Sequence

from aiokproto.producer.bulk import Bulk
from aiokproto.producer.delivery import BatchDelivery
from aiokproto.producer.outcome import Outcome
from aiokproto.producer.stored import FetchedBatch, record_batches
from aiokproto.records import RecordBatch
from aiokproto.records.compression import Bytes
from aiokproto.types import RecordMetadata


class Mirroring(Bulk):
    """Sends record batches as they were stored."""

    async def send_batch(
        self, topic: str, batch: FetchedBatch | RecordBatch | Bytes, *, partition: int
    ) -> list[RecordMetadata]:
        """Write record batches as they are, and wait until they are acknowledged as ``acks`` demands.

        The records are neither decompressed nor read: their bytes go out as they came, under a new header. Who reads
        the copy finds the same keys, values, headers and timestamps, compressed as they were. Transactions are not
        copied: to leave out what was aborted, read with ``isolation_level="read_committed"``.

        Cancelled, what was buffered is still delivered and the rest is never sent.

        Args:
            topic: The topic.
            batch: What :meth:`Consumer.batches() <aiokproto.consumer.Consumer.batches>` hands out, a
                :class:`~aiokproto.records.RecordBatch`, or the bytes of one of magic 2. It is copied. Only bytes have
                their checksum compared; of others it is carried over, and one that does not fit is the broker's to
                find.
            partition: The partition; the order is kept with all else that is written there.

        Returns:
            For each record batch where its first record is; the others have the offsets that follow. The timestamp is
            the batch's greatest, or the broker's where the topic has LogAppendTime.

        Raises:
            InvalidRecordError: A batch cannot be sent as it is, and nothing was buffered. :meth:`send_many` is for the
                records of one that begins before what the consumer asked for, lacks records that compaction removed,
                has timestamps that a broker set (LogAppendTime), or is of magic 0 or 1. Control batches are for
                brokers alone.
            CorruptRecordError: The bytes are no sound record batch. Nothing was buffered.
            UnsupportedCompressionError: The codec of a batch is unknown. Nothing was buffered.
            MessageTooLargeError: A batch is larger than ``max_request_size`` or ``buffer_memory``, and nothing was
                buffered; or than the topic allows, and its only record alone is.
            KafkaError: As :meth:`send`. Of several record batches, some may be written.
        """
        return await (await self.post_batch(topic, batch, partition=partition))

    async def post_batch(
        self, topic: str, batch: FetchedBatch | RecordBatch | Bytes, *, partition: int
    ) -> BatchDelivery:
        """Buffer record batches as they are: :meth:`send_batch` for who goes on before they are acknowledged.

        Takes what :meth:`send_batch` does, and suspends as :meth:`post`. Cancelled, it has buffered all that comes
        before the batch it was waiting with.

        Returns:
            The delivery, to be awaited or dropped: a failure nobody asks about is logged.

        Raises:
            KafkaError: As :meth:`send_batch`, except for what a broker says: that is in the delivery.
        """
        return BatchDelivery(await self._place_stored(topic, record_batches(batch), partition))

    async def _place_stored(
        self, topic: str, batches: Sequence[RecordBatch], partition: int
    ) -> list[tuple[Outcome, int]]:
        """Buffer batches as soon as there is room: the outcome of each, and its greatest timestamp."""
        raise NotImplementedError

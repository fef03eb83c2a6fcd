"""What a producer does differently with old brokers: decided when it starts, by the versions it has seen.

* Idempotence is new in 0.11. By default it is switched off, and each partition has one batch in flight instead, which
  keeps the order of records; a retry can then write a record twice. If it was demanded, it is an error.
* Headers are new in 0.11, and timestamps in 0.10. A record or table that has any is refused by the call that would
  buffer it. (If another broker of the cluster is older than the one that was seen, its sink refuses the batch.)
* zstd is new in 2.1. An encoded batch with it is refused likewise, and one with headers before 0.11. The timestamps
  that every encoded batch has are no reason: before 0.10 they are not stored.

Batches are still written in magic 2; each sink converts them (:meth:`~aiokproto.producer.batch.ProducerBatch.convert`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from aiokproto.net.features import HEADERS, IDEMPOTENCE, TIMESTAMPS, TRANSACTIONS, ZSTD
from aiokproto.net.versions import BrokerVersions
from aiokproto.producer.config import ProducerConfig
from aiokproto.producer.delivery import Delivery
from aiokproto.producer.posting import Append
from aiokproto.producer.record import PendingRecord
from aiokproto.records import Compression, RecordBatch
from aiokproto.types import Header

if TYPE_CHECKING:
    from aiokproto.records.rows import Rows

log = logging.getLogger("aiokproto.producer")


def adapted(settings: ProducerConfig, versions: BrokerVersions) -> ProducerConfig:
    """Return the options as they can be used with these brokers.

    Raises:
        UnsupportedVersionError: The brokers lack something that the options require.
    """
    if settings.compression is Compression.ZSTD:
        versions.require(ZSTD, "choose another compression_type")
    if settings.transactional_id is not None:
        versions.require(TRANSACTIONS)
    if not settings.idempotent or versions.supports(IDEMPOTENCE):
        return settings
    if settings.insists:
        versions.require(IDEMPOTENCE, "leave enable_idempotence at its default, or set it to False")
    log.warning(
        "the brokers have no idempotence, which needs Kafka %s: a retry can write a record twice", IDEMPOTENCE.since
    )
    return settings._replace(idempotent=False)


def check_table(versions: BrokerVersions, table: Any, pieces: Iterable[Rows]) -> None:
    """Refuse a table that the brokers cannot store.

    Args:
        versions: The brokers' versions.
        table: The ``pyarrow`` table.
        pieces: Its rows.

    Raises:
        UnsupportedVersionError: A row has headers, or a timestamp and the brokers have none.
    """
    # The encoding of no headers is one byte, their number.
    if any(piece.headers is not None and (piece.headers.end - piece.headers.start > 1).any() for piece in pieces):
        versions.require(HEADERS)
    if "timestamp" in table.schema.names and table.column("timestamp").null_count < len(table):
        versions.require(TIMESTAMPS, "leave out the column timestamp")


def check_batches(versions: BrokerVersions, batches: Iterable[RecordBatch]) -> None:
    """Refuse encoded batches that the brokers cannot store.

    Raises:
        UnsupportedVersionError: One has a compression or, with brokers before 0.11, headers that they lack.
        CorruptRecordError: The records of one cannot be decoded, which only brokers before 0.11 require.
    """
    for batch in batches:
        if batch.compression is Compression.ZSTD:
            versions.require(ZSTD, "send its records with send_many()")
        if not versions.supports(HEADERS) and any(record.headers for record in batch):
            versions.require(HEADERS)


class RecordCheck:
    """Takes the place of an appender's method, and refuses what brokers before 0.11 cannot store.

    The hot path has no branch for them: see :mod:`~aiokproto.producer.posting`.
    """

    def __init__(self, versions: BrokerVersions, append: Append) -> None:
        self._versions = versions
        self._append = append

    @staticmethod
    def needed(versions: BrokerVersions) -> bool:
        """Whether there is anything to refuse."""
        return not versions.supports(HEADERS)

    def append(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[Header],
        partition: int | None,
        timestamp: int | None,
    ) -> Delivery | PendingRecord:
        """As the appender's own method.

        Raises:
            UnsupportedVersionError: The record has headers, or a timestamp and the brokers have none.
        """
        if headers:
            self._versions.require(HEADERS)
        if timestamp is not None:
            self._versions.require(TIMESTAMPS, "leave timestamp at None")
        return self._append(topic, value, key, headers, partition, timestamp)

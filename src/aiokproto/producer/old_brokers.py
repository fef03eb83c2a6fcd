"""What a producer does differently with old brokers. It decides at startup, from the broker versions that it has seen.

* Idempotence is new in 0.11. Without it, unless the application insists, the producer turns idempotence off and keeps
  one batch per partition in flight. This keeps records in order, but a retry can write a record twice. If the
  application insists on idempotence, it's an error.
* Headers are new in 0.11, and timestamps in 0.10. If a record or table has headers or timestamps that the brokers don't
  support, the call that would buffer it refuses it. (If another broker of the cluster is older than the one that was
  seen, its sink refuses the batch.)
* zstd is new in 2.1. An encoded batch with zstd is refused in the same way, and before 0.11 an encoded batch with
  headers. Timestamps aren't a reason to refuse an encoded batch, since every encoded batch has them: before 0.10 they
  aren't stored.

Batches are still written in magic 2; each sink converts them (:meth:`~aiokproto.producer.batch.ProducerBatch.convert`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from aiokproto.net.features import HEADERS, IDEMPOTENCE, TIMESTAMPS, TRANSACTIONS, ZSTD
from aiokproto.net.versions import BrokerVersions
from aiokproto.producer.config import ProducerConfig
from aiokproto.producer.record import ProducerRecord
from aiokproto.records import Compression, RecordBatch

if TYPE_CHECKING:
    from aiokproto.records.rows import Rows

log = logging.getLogger("aiokproto.producer")


def adapted(settings: ProducerConfig, versions: BrokerVersions) -> ProducerConfig:
    """Return the options that can be used with these brokers.

    Raises:
        UnsupportedVersionError: The brokers don't support something that the options require.
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
        UnsupportedVersionError: A row has headers or a timestamp that the brokers don't support.
    """
    # Empty headers are encoded as one byte, their count.
    if any(piece.headers is not None and (piece.headers.end - piece.headers.start > 1).any() for piece in pieces):
        versions.require(HEADERS)
    if "timestamp" in table.schema.names and table.column("timestamp").null_count < len(table):
        versions.require(TIMESTAMPS, "leave out the column timestamp")


def check_batches(versions: BrokerVersions, batches: Iterable[RecordBatch]) -> None:
    """Refuse encoded batches that the brokers cannot store.

    Raises:
        UnsupportedVersionError: A batch is compressed with zstd, or has headers, which these brokers don't support.
        CorruptRecordError: A batch's records can't be decoded. Decoding is necessary only with brokers before 0.11.
    """
    for batch in batches:
        if batch.compression is Compression.ZSTD:
            versions.require(ZSTD, "send its records with send_many()")
        if not versions.supports(HEADERS) and any(record.headers for record in batch):
            versions.require(HEADERS)


def lacks_parts_of_records(versions: BrokerVersions) -> bool:
    """Whether a record can contain something that the brokers can't store."""
    return not versions.supports(HEADERS)


def check_record(versions: BrokerVersions, record: ProducerRecord[bytes, bytes]) -> None:
    """Refuse a record that the brokers cannot store.

    Raises:
        UnsupportedVersionError: The record has headers or a timestamp that the brokers don't support.
    """
    if record.headers:
        versions.require(HEADERS)
    if record.timestamp is not None:
        versions.require(TIMESTAMPS, "leave timestamp at None")

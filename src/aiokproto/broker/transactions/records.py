"""The records of ``__transaction_state``: an int16 version, then the payload, as Kafka writes them."""

from __future__ import annotations

import struct

from aiokproto.broker.transactions.transaction_metadata import TransactionMetadata, TransactionStatus
from aiokproto.codec.payloads.transactions import PartitionsSchema, TransactionLogKey, TransactionLogValue

_INT16 = struct.Struct(">h")
_KEY_VERSION = 0
_VALUE_VERSION = 1
"""The flexible version, which Kafka writes if ``transaction.version`` is 1 or more."""

_STATUS = {status.number: status for status in TransactionStatus}


def encode_key(transactional_id: str) -> bytes:
    """Encode the key of a transactional id's record."""
    return _INT16.pack(_KEY_VERSION) + TransactionLogKey(transactional_id=transactional_id).encode(_KEY_VERSION)


def encode_value(transaction: TransactionMetadata) -> bytes:
    """Encode the value of a transactional id's record."""
    topics: dict[str, list[int]] = {}
    # Sorted, so that equal states encode to the same bytes.
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        next_producer_epoch=transaction.next_producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.status.number,
        # Empty is encoded with null instead of an empty list, as in Kafka.
        transaction_partitions=None
        if transaction.status is TransactionStatus.EMPTY
        else [PartitionsSchema(topic=topic, partition_ids=partitions) for topic, partitions in topics.items()],
        transaction_last_update_timestamp_ms=transaction.updated,
        transaction_start_timestamp_ms=transaction.started,
        client_transaction_version=transaction.client_version,
    )
    return _INT16.pack(_VALUE_VERSION) + value.encode(_VALUE_VERSION)


def decode_key(key: bytes) -> str:
    """Decode the transactional id in a record's key."""
    return TransactionLogKey.decode(key[_INT16.size :], _KEY_VERSION).transactional_id


def decode_value(transactional_id: str, value: bytes) -> TransactionMetadata:
    """Decode the value of a transactional id's record."""
    # The value contains its own version: a copied topic may have been written by a broker from before transaction
    # version 1.
    (version,) = _INT16.unpack_from(value)
    read = TransactionLogValue.decode(value[_INT16.size :], version)
    return TransactionMetadata(
        transactional_id,
        read.producer_id,
        read.transaction_timeout_ms,
        read.producer_epoch,
        _STATUS[read.transaction_status],
        frozenset(
            (each.topic, partition) for each in read.transaction_partitions or () for partition in each.partition_ids
        ),
        updated=read.transaction_last_update_timestamp_ms,
        started=read.transaction_start_timestamp_ms,
        previous_producer_id=read.previous_producer_id,
        next_producer_id=read.next_producer_id,
        next_producer_epoch=read.next_producer_epoch,
        client_version=read.client_transaction_version,
    )

"""Validates the records of a Produce request before they are appended (Kafka's LogValidator).

The header and the CRC of a batch are always checked. Its records are decompressed and read only if an option requires
it: keys for compaction, timestamp limits, or a different compression type. This is done in a thread, unless the batch
is small and can't become larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from aiokproto.broker.config.options import TopicOptions
from aiokproto.broker.log.conversion import NEW_PRODUCE, upgrade
from aiokproto.broker.log.header import BatchHeader
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from aiokproto.records import BatchBuilder, BatchRecord, Compression, RecordBatch, decode
from aiokproto.records.batch import CODEC, HEADER, MAGIC_AT

Buffer = bytes | bytearray | memoryview

_ZSTD_SINCE = 7
"""The first Produce version that allows zstd (KIP-110)."""


_GROWTH = 12
"""If a batch has to be opened, its size limit as a multiple of ``max.message.bytes``: a kilobyte can become gigabytes.
Together with the encoded result and a codec's window, this takes up to five times as much memory. Kafka has no such
limit."""

_LEAST_OPENED = 12 << 20
"""The minimum of that limit, in bytes."""

_QUICK_BYTES = 32 << 10
"""Maximum size, in bytes, of records to read in the event loop. It takes a few milliseconds if they are tiny and
re-encoded."""

_MAX_INVALID = 1000
"""Maximum number of invalid records that a response lists. The error message gives the total number."""


class InvalidRecords(BrokerError):
    """Some records of a batch are invalid. ``records`` contains the index and the error message of each (KIP-467)."""

    def __init__(self, code: ErrorCode, detail: str, records: list[tuple[int, str]]) -> None:
        super().__init__(code, "", detail)
        self.records = records


def is_quick(data: Buffer | None, options: TopicOptions, version: int, now: int) -> bool:
    """Return whether :meth:`check_records` can run in one short step of the event loop. If not, it runs in a thread."""
    if data and version < NEW_PRODUCE:
        # A compressed message can follow messages that aren't compressed.
        return False
    # Data that isn't a batch is rejected without being opened.
    if not data or len(data) < HEADER.size or data[MAGIC_AT] != 2:
        return True
    try:
        header = BatchHeader.read(data)
    except CorruptRecordError:
        return True
    codec = header.attributes & CODEC
    if not codec and len(data) <= _QUICK_BYTES:
        return True
    return not (
        _needs_keys(options)
        or _may_be_late(header.max_timestamp, options, now)
        or _may_be_early(options, now)
        or _target(codec, options) != codec
    )


def check_records(data: Buffer | None, options: TopicOptions, version: int, now: int) -> Buffer:
    """Return the batch to append.

    Args:
        data: The records of one partition in a Produce request.
        options: The topic's options.
        version: The Produce request's version.
        now: The time (ms).

    Raises:
        BrokerError: The records are invalid: CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE or
            UNSUPPORTED_COMPRESSION_TYPE.
    """
    limit = options.number("max.message.bytes")
    opened = max(_LEAST_OPENED, _GROWTH * limit)
    if data and version < NEW_PRODUCE:
        data = upgrade(data, opened)
    batch = _only_batch(data, opened)
    # The compressed size counts: the limit protects the broker and its consumers from large batches, not large records.
    if batch.size_in_bytes > limit:
        raise BrokerError(
            ErrorCode.MESSAGE_TOO_LARGE, detail=f"a batch of {batch.size_in_bytes} bytes, max.message.bytes is {limit}"
        )
    _check_header(batch)
    codec = _check_codec(batch, version)
    # A record without a key could never be superseded.
    if _needs_keys(options):
        _check_each(batch, ErrorCode.INVALID_RECORD, lambda record: record.key is None, "a compacted topic needs keys")
    _check_timestamps(batch, options, now)
    target = _target(codec, options)
    # In the normal case (compression.type=producer), the producer's bytes are stored without being decompressed.
    return batch.raw if target == codec else _recompress(batch, Compression(target))


def _needs_keys(options: TopicOptions) -> bool:
    return "compact" in str(options.value("cleanup.policy"))


def _may_be_late(latest: int, options: TopicOptions, now: int) -> bool:
    # The header contains the greatest timestamp, so most batches don't have to be decompressed for this check.
    return _has_own_times(options) and latest > now + options.number("message.timestamp.after.max.ms")


def _may_be_early(options: TopicOptions, now: int) -> bool:
    # The default is larger than any time. Don't decompress every batch just to check it.
    return _has_own_times(options) and options.number("message.timestamp.before.max.ms") <= now


def _has_own_times(options: TopicOptions) -> bool:
    return bool(options.value("message.timestamp.type") == "CreateTime")


def _target(codec: int, options: TopicOptions) -> int:
    wanted = str(options.value("compression.type"))
    if wanted == "producer":
        return codec
    return Compression.parse("none" if wanted == "uncompressed" else wanted)


def _only_batch(data: Buffer | None, opened: int) -> RecordBatch:
    if not data:
        raise BrokerError(ErrorCode.INVALID_RECORD, detail="no records")
    if len(data) > MAGIC_AT and data[MAGIC_AT] < 2:
        raise BrokerError(
            ErrorCode.INVALID_RECORD,
            detail=f"message format {data[MAGIC_AT]} needs Produce v{NEW_PRODUCE - 1} or older",
        )
    try:
        # Decode at most two, because a hundred megabytes can be a million batches.
        batches = list(islice(decode(data, max_decompressed=opened, max_record=opened), 2))
    except CorruptRecordError as error:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, detail=str(error)) from None
    # Since v3, Produce allows only one batch per partition (KIP-98). upgrade() has converted older message sets to one
    # batch.
    if len(batches) != 1:
        code = ErrorCode.INVALID_RECORD if batches else ErrorCode.CORRUPT_MESSAGE
        found = "more" if batches else "none"
        raise BrokerError(code, detail=f"a partition takes exactly one batch in a request, not {found}")
    if batches[0].size_in_bytes != len(data):
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, detail="the batch is followed by part of another one")
    return batches[0]


def _check_header(batch: RecordBatch) -> None:
    wrong = ""
    # Producers number records from 0, and the broker assigns the offsets. UnifiedLog makes the same checks.
    if batch.base_offset != 0:
        wrong = f"the base offset is {batch.base_offset}, not 0"
    elif batch.count < 1 or batch.last_offset_delta != batch.count - 1:
        wrong = f"{batch.count} records, but the last offset delta is {batch.last_offset_delta}"
    # A client's marker would end other producers' transactions.
    elif batch.is_control:
        wrong = "a client must not write control batches"
    elif batch.is_transactional and batch.producer_id < 0:
        wrong = "a transactional batch has no producer"
    elif batch.producer_id >= 0 and (batch.base_sequence < 0 or batch.producer_epoch < 0):
        wrong = f"producer {batch.producer_id} with epoch {batch.producer_epoch}, sequence {batch.base_sequence}"
    if wrong:
        raise BrokerError(ErrorCode.INVALID_RECORD, detail=wrong)


def _check_codec(batch: RecordBatch, version: int) -> Compression:
    try:
        codec = batch.compression
    except UnsupportedCompressionError as error:
        raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, detail=str(error)) from None
    if codec is Compression.ZSTD and version < _ZSTD_SINCE:
        raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, detail=f"zstd needs Produce v{_ZSTD_SINCE}")
    return codec


def _check_timestamps(batch: RecordBatch, options: TopicOptions, now: int) -> None:
    if _may_be_late(batch.max_timestamp, options, now):
        latest = now + options.number("message.timestamp.after.max.ms")
        _check_each(
            batch,
            ErrorCode.INVALID_TIMESTAMP,
            lambda record: record.timestamp > latest,
            "the timestamp is too far in the future (message.timestamp.after.max.ms)",
        )
    if _may_be_early(options, now):
        before = options.number("message.timestamp.before.max.ms")
        _check_each(
            batch,
            ErrorCode.INVALID_TIMESTAMP,
            # A timestamp of -1 means that there is none, which is accepted, as in Kafka.
            lambda record: 0 <= record.timestamp < now - before,
            "the timestamp is too far in the past (message.timestamp.before.max.ms)",
        )


def _check_each(batch: RecordBatch, code: ErrorCode, wrong: Callable[[BatchRecord], bool], text: str) -> None:
    found: list[tuple[int, str]] = []
    count = 0
    for index, record in enumerate(_read(batch)):
        if wrong(record):
            count += 1
            if count <= _MAX_INVALID:
                found.append((index, text))
    if found:
        raise InvalidRecords(code, f"{count} of {batch.count} records: {text}", found)


def _read(batch: RecordBatch) -> Iterator[BatchRecord]:
    try:
        yield from batch
    except CorruptRecordError as error:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, detail=str(error)) from None
    except UnsupportedCompressionError as error:
        raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, detail=str(error)) from None


def _recompress(batch: RecordBatch, codec: Compression) -> bytearray:
    builder = BatchBuilder(
        compression=codec,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
    )
    try:
        for record in _read(batch):
            builder.append(record.timestamp, record.key, record.value, record.headers)
    except InvalidRecordError as error:
        raise BrokerError(ErrorCode.INVALID_TIMESTAMP, detail=str(error)) from None
    return builder.close()

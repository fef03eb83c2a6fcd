"""Damages the log of a running broker, like a bad disk or an unclean leader election."""

from __future__ import annotations

from collections.abc import Iterable

from aiokproto.broker.log import Log
from aiokproto.broker.log.config import LogCheckpoint
from aiokproto.broker.metadata.topics import Partition, Topic
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.records import BatchBuilder, decode


def corrupt_batch(partition: Partition, offset: int) -> None:
    """Flip a byte of the stored batch that contains ``offset``, which makes its CRC wrong.

    Raises:
        BrokerError: OFFSET_OUT_OF_RANGE: there is no such record.
    """
    span = partition.log.find(offset, 0)
    if not span.size:
        raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, detail=f"{offset} is the end of the log")
    with span.segment.path().open("r+b") as file:
        file.seek(span.position + span.size - 1)
        (last,) = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([last ^ 0xFF]))


def diverge_log(topic: Topic, partition: Partition, to_offset: int, values: Iterable[bytes], now: int) -> None:
    """Truncate the log to ``to_offset``, and append other records in a new leader epoch (KIP-320).

    Args:
        topic: The topic.
        partition: The partition.
        to_offset: The first lost offset. It must be a batch's base offset.
        values: The values of the new records, which are appended as one batch, without keys. May be empty.
        now: The time (ms).

    Raises:
        BrokerError: OFFSET_OUT_OF_RANGE: the offset is beyond the log's end. INVALID_REQUEST: the offset is inside a
            batch.
    """
    log = partition.log
    span = log.find(to_offset, 0)
    if span.size and next(decode(span.read(), check_crc=False)).base_offset != to_offset:
        raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"offset {to_offset} is inside of a batch")
    if to_offset < log.end_offset:
        partition.log = _truncated(topic, log, to_offset, span.segment.base_offset, span.position, now)
    partition.change_leader(partition.leader)
    others = list(values)
    if others:
        builder = BatchBuilder()
        for value in others:
            builder.append(now, None, value)
        partition.append(builder.close(), now)


def _truncated(topic: Topic, log: Log, to_offset: int, base_offset: int, size: int, now: int) -> Log:
    start = log.start_offset
    log.close()
    for path in log.directory.iterdir():
        if not path.stem.isdecimal():
            continue
        if int(path.stem) > base_offset or (path.suffix == ".snapshot" and int(path.stem) > to_offset):
            path.unlink()
        elif int(path.stem) == base_offset and path.suffix == ".log":
            with path.open("r+b") as file:
                file.truncate(size)
        elif int(path.stem) == base_offset and path.suffix != ".snapshot":
            # The indexes still cover the truncated batches. Opening the log rebuilds the indexes.
            path.unlink()
    truncated = Log(log.directory, topic.log_config(), now, LogCheckpoint(start_offset=start), topic.topic_id)
    truncated.on_roll = log.on_roll
    return truncated

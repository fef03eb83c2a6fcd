"""Which records of a Fetch response reach the user, and which of them are finished: the pure parts."""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto.codec.messages.fetch import AbortedTransaction
from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.batch import FetchedBatch
from aiokproto.consumer.cursor import Cursor
from aiokproto.consumer.start_lookup import COMMITTED
from aiokproto.errors import CorruptRecordError
from aiokproto.fetched.chunk import BufferedBytes, Chunk, chunks, open_batch
from aiokproto.records import BatchBuilder, RecordBatch, decode
from aiokproto.records.control import encode_end_transaction
from aiokproto.types import TopicPartition
from tests.consumer.parts import EngineStub

AT = TopicPartition("t", 0)


def stored(base: int, count: int, producer_id: int = -1, *, values: str = "") -> bytes:
    builder = BatchBuilder(producer_id=producer_id, producer_epoch=0, is_transactional=producer_id >= 0)
    for number in range(base, base + count):
        builder.append(number, None, f"{values}{number}".encode())
    return bytes(builder.close(base_offset=base))


def marker(base: int, producer_id: int, *, committed: bool) -> bytes:
    return bytes(
        encode_end_transaction(
            committed=committed,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=0,
            base_offset=base,
        )
    )


def chunk(data: bytes, position: int = 0, aborted: list[tuple[int, int]] | None = None) -> Chunk:
    entries = [AbortedTransaction(producer_id=who, first_offset=first) for who, first in aborted or []]
    [part] = chunks(AT, position, memoryview(data), entries)
    return part


def offsets(part: Chunk) -> list[int]:
    return [
        record.offset
        for batch in part.batches
        for record in open_batch(batch, AT, part.position, check_crcs=True).read()
    ]


def read(cursor: Cursor) -> list[int]:
    """Open the next batch and return all of its records."""
    reading = open_batch(cursor.buffer.chunks[0].batches[0], AT, cursor.buffer.end, check_crcs=True)
    cursor.buffer.opened(reading.read()[::-1], reading)
    found = [record.offset for record in reversed(cursor.buffer.records)]
    cursor.buffer.records.clear()
    return found


def test_records_before_the_position_are_left_out() -> None:
    data = stored(0, 5) + stored(5, 5)
    assert offsets(chunk(data, 7)) == [7, 8, 9]
    assert offsets(chunk(data, 3)) == list(range(3, 10))


def test_aborted_transactions_are_left_out() -> None:
    """Producer 1 aborts twice and commits between; producer 2 commits; both interleaved with plain records."""
    data = (
        stored(0, 2)
        + stored(2, 2, 1)
        + stored(4, 1, 2)
        + marker(5, 1, committed=False)
        + stored(6, 1, 1)
        + marker(7, 1, committed=True)
        + stored(8, 2, 1)
        + marker(10, 2, committed=True)
        + marker(11, 1, committed=False)
    )
    part = chunk(data, 0, [(1, 2), (1, 8)])
    assert offsets(part) == [0, 1, 4, 6]
    assert part.end == 12
    # A response for read_uncommitted has no list of aborted transactions, so all batches except control batches are
    # returned.
    assert offsets(chunk(data)) == [0, 1, 2, 3, 4, 6, 8, 9]


def test_a_chunk_of_control_batches_moves_the_position() -> None:
    cursor = Cursor(AT, COMMITTED)
    cursor.set_position(5)
    cursor.received(chunk(marker(5, 1, committed=True), 5), BufferedBytes())
    assert (cursor.position, cursor.fetch.offset, cursor.ready) == (6, 6, False)


def test_control_batches_at_the_end_are_skipped_with_the_last_records() -> None:
    cursor = Cursor(AT, COMMITTED)
    cursor.set_position(0)
    cursor.received(chunk(stored(0, 2, 1) + marker(2, 1, committed=True)), BufferedBytes())
    cursor.received(chunk(marker(3, 2, committed=True), 3), BufferedBytes())
    assert read(cursor) == [0, 1]
    assert cursor.position == 3 or cursor.position == 4
    assert (cursor.fetch.offset, cursor.ready) == (4, False)


def test_damage_is_raised_after_the_good_records_before_it() -> None:
    good = stored(0, 3)
    bad = bytearray(stored(3, 3))
    bad[16] = 9
    cursor = Cursor(AT, COMMITTED)
    cursor.set_position(0)
    cursor.received(chunk(good + bytes(bad)), BufferedBytes())
    assert read(cursor) == [0, 1, 2]
    assert cursor.ready
    assert not cursor.fetchable
    assert "magic 9" in str(cursor.buffer.chunks[0].damage)


def test_a_wrong_checksum_is_an_error() -> None:
    data = bytearray(stored(0, 3))
    data[-1] ^= 1
    [batch] = decode(data, check_crc=False)
    with pytest.raises(CorruptRecordError, match="checksum"):
        open_batch(batch, AT, 0, check_crcs=True).read()


def test_a_seek_drops_earlier_responses() -> None:
    cursor = Cursor(AT, COMMITTED)
    cursor.set_position(0)
    version = cursor.version
    cursor.received(chunk(stored(0, 3)), BufferedBytes())
    cursor.set_position(7)
    assert cursor.version != version
    assert (cursor.position, cursor.buffer.size, cursor.ready) == (7, 0, False)


class Desk:
    """An assignment, and the two steps with which a consumer returns records."""

    def __init__(self, *partitions: TopicPartition) -> None:
        engine: Any = EngineStub()
        self.assignment = Assignment(engine)
        self.assignment.add(partitions, COMMITTED)

    def feed(self, partition: TopicPartition, data: bytes, position: int = 0) -> Cursor:
        cursor = self.assignment.get(partition)
        if cursor.fetch.offset is None:
            cursor.set_position(position)
        for part in chunks(partition, position, memoryview(data), []):
            cursor.received(part, BufferedBytes())
        self.assignment.arrived(cursor)
        return cursor

    def open(self) -> bool:
        self.assignment.mark_processed()
        cursor = self.assignment.next_cursor()
        if cursor is None:
            return False
        if not cursor.buffer.records:
            batch = cursor.buffer.chunks[0].batches[0]
            reading = open_batch(batch, cursor.partition, cursor.buffer.end, check_crcs=True)
            cursor.buffer.opened(reading.read()[::-1], reading)
        self.assignment.serve(cursor)
        return True

    def next(self) -> tuple[int, int] | None:
        if not self.assignment.open and not self.open():
            return None
        self.assignment.current = record = self.assignment.open.pop()
        return record.partition, record.offset

    def finished(self) -> dict[int, int]:
        found = self.assignment.committable(processed=True)
        return {partition.partition: position.offset for partition, position in found.items()}


def test_the_record_last_returned_is_not_committed_yet() -> None:
    desk = Desk(AT)
    desk.feed(AT, stored(0, 2))
    assert desk.finished() == {0: 0}
    assert desk.next() == (0, 0)
    assert desk.finished() == {0: 0}
    assert desk.next() == (0, 1)
    assert desk.finished() == {0: 1}
    assert desk.next() is None
    assert desk.finished() == {0: 2}


def test_records_last_returned_stay_uncommitted_across_a_seek() -> None:
    desk = Desk(AT)
    desk.feed(AT, stored(0, 5))
    desk.next()
    desk.assignment.seek(AT, 4)
    assert desk.finished() == {0: 0}
    desk.assignment.mark_processed()
    assert desk.finished() == {0: 4}


def test_a_batch_or_list_is_uncommitted_as_a_whole() -> None:
    other = TopicPartition("t", 1)
    desk = Desk(AT, other)
    desk.feed(AT, stored(0, 5))
    desk.feed(other, stored(0, 5))
    desk.open()
    records = desk.assignment.take(3)
    desk.assignment.current = records
    assert [record.offset for record in records] == [0, 1, 2]
    assert desk.assignment.being_processed() == {AT: 0}
    ownership = desk.assignment.cursors[other].ownership
    desk.assignment.current = FetchedBatch(other, 2, 9, list[RecordBatch](), ownership)
    assert desk.assignment.being_processed() == {other: 2}


def test_partitions_take_turns_batch_by_batch() -> None:
    other = TopicPartition("t", 1)
    desk = Desk(AT, other)
    desk.feed(AT, stored(0, 2) + stored(2, 2))
    desk.feed(other, stored(0, 2) + stored(2, 2))
    order = [desk.next() for _ in range(8)]
    assert order == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3)]


@pytest.mark.parametrize("how", ["remove", "hold", "pause"])
def test_nothing_is_returned_after_the_session_is_unconfirmed(how: str) -> None:
    desk = Desk(AT)
    desk.feed(AT, stored(0, 5))
    assert desk.next() == (0, 0)
    if how == "remove":
        desk.assignment.remove([AT])
    elif how == "hold":
        desk.assignment.hold([AT], "being revoked")
    else:
        desk.assignment.pause([AT], True)
    assert desk.next() is None
    if how == "hold":
        desk.assignment.release([AT])
    if how == "pause":
        desk.assignment.pause([AT], False)
    assert desk.next() == (None if how == "remove" else (0, 1))

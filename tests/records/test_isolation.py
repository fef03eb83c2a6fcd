"""Which batches hold records for users, against a model that knows how each transaction ended."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.codec.messages.fetch import AbortedTransaction
from aiokproto.errors import CorruptRecordError
from aiokproto.records import BatchBuilder, BatchRecord, RecordBatch, decode, encode
from aiokproto.records.control import encode_end_transaction
from aiokproto.records.isolation import visible

PRODUCERS = 3


@dataclass
class Transaction:
    producer_id: int
    first_offset: int
    end_offset: int | None = None
    aborted: bool = False


@dataclass
class Log:
    """Return a log of one-record batches and markers, as brokers write it."""

    data: bytearray = field(default_factory=bytearray)
    offset: int = 0
    transactions: list[Transaction] = field(default_factory=list)
    fates: dict[int, Transaction | None] = field(default_factory=dict)
    open: dict[int, Transaction] = field(default_factory=dict)

    def append(self, producer_id: int, *, transactional: bool) -> None:
        builder = BatchBuilder(
            producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=transactional
        )
        builder.append(1, None, b"v", ())
        transaction = None
        if transactional:
            transaction = self.open.setdefault(producer_id, Transaction(producer_id, self.offset))
        self.fates[self.offset] = transaction
        self.data += builder.close(base_offset=self.offset)
        self.offset += 1

    def end(self, producer_id: int, *, committed: bool) -> None:
        if transaction := self.open.pop(producer_id, None):
            transaction.end_offset, transaction.aborted = self.offset, not committed
            self.transactions.append(transaction)
        self.data += encode_end_transaction(
            committed=committed,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=1,
            base_offset=self.offset,
        )
        self.offset += 1

    def aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return what a broker would: the aborted transactions that overlap the offsets read, ordered by their
        markers."""
        return [
            AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
            for one in self.transactions
            if one.aborted and one.end_offset is not None and one.end_offset >= start and one.first_offset < end
        ]


actions = st.tuples(st.integers(0, PRODUCERS - 1), st.sampled_from(["send", "send", "plain", "commit", "abort"]))


def written(script: list[tuple[int, str]]) -> Log:
    log = Log()
    for producer_id, action in script:
        if action in ("send", "plain"):
            # A producer that is within a transaction sends nothing outside of it.
            log.append(producer_id, transactional=action == "send" or producer_id in log.open)
        else:
            log.end(producer_id, committed=action == "commit")
    for producer_id in list(log.open):
        log.end(producer_id, committed=True)
    return log


def offsets(batches: Iterable[RecordBatch]) -> list[int]:
    return [batch.base_offset for batch in batches]


@given(st.lists(actions, max_size=30), st.data())
def test_read_committed_leaves_out_exactly_the_aborted_records(
    script: list[tuple[int, str]], data: st.DataObject
) -> None:
    """It holds for any first offset, because a response may start in the middle of a transaction."""
    log = written(script)
    start = data.draw(st.integers(0, log.offset))
    batches = [batch for batch in decode(log.data) if batch.base_offset >= start]
    kept = [
        offset
        for offset, transaction in log.fates.items()
        if offset >= start and not (transaction and transaction.aborted)
    ]
    assert offsets(visible(batches, log.aborted(start, log.offset))) == kept


@given(st.lists(actions, max_size=20))
def test_read_uncommitted_leaves_out_markers_only(script: list[tuple[int, str]]) -> None:
    log = written(script)
    assert offsets(visible(decode(log.data), ())) == list(log.fates)


@pytest.mark.parametrize("place", [22, 60], ids=["a control batch", "an empty batch"])
def test_damage_that_makes_a_batch_of_another_kind_is_left_to_the_reader(place: int) -> None:
    """One wrong bit makes a batch that has nothing for users."""
    damaged = bytearray(encode([BatchRecord(0, 1, None, b"v")], base_offset=7))
    damaged[place] ^= 0x20 if place == 22 else 1
    assert offsets(visible(decode(damaged, check_crc=False))) == []
    (found,) = visible(decode(damaged, check_crc=False), check_crc=True)
    with pytest.raises(CorruptRecordError, match="record batch at offset 7: checksum"):
        found.validate()


def test_a_marker_without_a_checksum_is_accepted() -> None:
    """librdkafka's mock cluster writes it like this."""
    log = written([(0, "send"), (0, "abort"), (1, "plain")])
    first, marker, last = decode(log.data)
    unsigned = bytearray(marker.raw)
    struct.pack_into(">I", unsigned, 17, 0)
    batches = [first, RecordBatch(unsigned), last]
    assert offsets(visible(batches, log.aborted(0, log.offset), check_crc=True)) == [2]


def test_a_damaged_batch_of_an_aborted_transaction_is_left_to_the_reader() -> None:
    log = written([(0, "send"), (0, "abort")])
    log.data[-80] ^= 1
    damaged = list(decode(log.data, check_crc=False))
    aborted = log.aborted(0, log.offset)
    assert offsets(visible(damaged, aborted)) == []
    assert offsets(visible(damaged, aborted, check_crc=True)) == [0]


def test_a_marker_that_compaction_has_removed_ends_no_transaction() -> None:
    """The cleaner keeps the batch, without its record, for the producer's last sequence number."""
    log = written([(0, "send"), (0, "abort"), (1, "plain")])
    first, marker, last = decode(log.data)
    emptied = bytearray(marker.raw[:61])
    struct.pack_into(">i", emptied, 8, 61 - 12)
    struct.pack_into(">i", emptied, 57, 0)
    assert offsets(visible([first, RecordBatch(emptied), last], log.aborted(0, log.offset))) == [2]

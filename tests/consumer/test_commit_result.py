"""What can be committed, and what became of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.consumer import Consumer
from aiokproto.consumer.batch import FetchedBatch
from aiokproto.consumer.commit_result import CommitResult, CommitStatus, to_commit
from aiokproto.consumer.progress import Progress
from aiokproto.consumer.start_lookup import COMMITTED
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import AuthorizationError, CommitError, CorruptBatchError, error_for
from aiokproto.records import BatchBuilder, decode
from aiokproto.records.patch import set_leader_epoch
from aiokproto.types import OffsetAndMetadata, Record, TopicPartition, UndecodableRecord

AT, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def record(partition: int, offset: int, epoch: int = 3) -> Record:
    return Record("t", partition, offset, 0, None, b"", leader_epoch=epoch)


def test_a_record_is_committed_with_the_offset_after_it_and_its_epoch() -> None:
    assert to_commit(record(0, 7)) == {AT: OffsetAndMetadata(8, "", 3)}


def test_a_batch_is_committed_up_to_its_end() -> None:
    builder = BatchBuilder()
    builder.append(0, None, b"")
    data = bytearray(builder.close(base_offset=4))
    set_leader_epoch(data, 0, 6)
    batch = FetchedBatch(AT, 4, 9, list(decode(bytes(data))))
    assert to_commit(batch) == {AT: OffsetAndMetadata(9, "", 6)}


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 50)), max_size=20))
def test_records_are_committed_up_to_the_last_of_each_partition(places: list[tuple[int, int]]) -> None:
    expected = {
        TopicPartition("t", number): max(offset for partition, offset in places if partition == number) + 1
        for number in {partition for partition, _ in places}
    }
    found = to_commit([record(partition, offset) for partition, offset in places])
    assert {partition: position.offset for partition, position in found.items()} == expected


def test_a_result_has_the_outcome_of_each_partition() -> None:
    third = TopicPartition("t", 2)
    offsets = {AT: OffsetAndMetadata(1), OTHER: OffsetAndMetadata(2), third: OffsetAndMetadata(3)}
    failures = {OTHER: CommitError("lost"), third: error_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}
    result = CommitResult.of(offsets, failures)
    assert [outcome.status for outcome in result.outcomes.values()] == [
        CommitStatus.COMMITTED,
        CommitStatus.LOST,
        CommitStatus.REFUSED,
    ]
    assert (result.committed, result.lost, result.refused) == ({AT: OffsetAndMetadata(1)}, [OTHER], [third])
    with pytest.raises(AuthorizationError):
        result.check()
    with pytest.raises(CommitError):
        CommitResult.of(offsets, {OTHER: failures[OTHER]}).check()
    CommitResult.of(offsets, {}).check()


def test_a_record_that_stands_for_a_damaged_batch_is_committed_with_the_offset_behind_that() -> None:
    damaged = CorruptBatchError("damaged", *AT, base_offset=7, next_offset=12, raw=b"raw")
    standing = UndecodableRecord(record(0, 7), damaged)
    assert to_commit(standing) == to_commit([record(0, 3), standing]) == {AT: OffsetAndMetadata(12, "", 3)}
    consumer = Consumer("t", bootstrap_servers="127.0.0.1:9", group_id="g")
    consumer._engine.assignment.add([AT], COMMITTED)
    progress = Progress(consumer._engine, [record(0, 3), standing])
    assert progress.positions() == {AT: OffsetAndMetadata(12, "", 3)}

"""Where the batches of a stream begin and end, on a broker."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from aiokproto.errors import KafkaError, UnknownTopicError
from aiokproto.records import BatchRecord
from aiokproto.spark.offsets import DataLossError
from aiokproto.spark.options import parse_stream_options
from aiokproto.spark.planning import TopicChangedError, list_offsets
from aiokproto.spark.stream.offsets import StreamOffset, parse_offset
from aiokproto.spark.stream.planner import StreamPlanner
from aiokproto.spark.truncation import TruncationError
from aiokproto.spark.worker import Worker
from aiokproto.types import TopicPartition
from tests.patience import PATIENCE
from tests.spark.kafka import Kafka

T = TypeVar("T")


class Stream:
    """A planner, and what Spark would do with it."""

    def __init__(self, kafka: Kafka, worker: Worker, **options: str) -> None:
        self._kafka, self._worker, self._given = kafka, worker, options
        self.start()

    def start(self) -> None:
        """Start, or start again as another process."""
        self.planner = StreamPlanner(parse_stream_options(self._kafka.options(**self._given)))
        self._do(self.planner.start())

    def close(self) -> None:
        self._do(self.planner.close())

    def restart(self) -> None:
        self.close()
        self.start()

    def initial(self) -> StreamOffset:
        return self._do(self.planner.initial())

    def end(self, start: StreamOffset | None, most: int | None = None, waits: bool = False) -> StreamOffset | None:
        found = self._do(self.planner.end(start, most=most, waits=waits))
        # As Spark hands it back.
        return None if found is None else parse_offset(found.as_json())

    def ranges(self, start: StreamOffset, end: StreamOffset) -> list[tuple[int, int, int]]:
        """Partition, first offset, end."""
        return sorted((one.partition, one.start, one.end) for one in self._do(self.planner.ranges(start, end)))

    def fix_end(self) -> None:
        self._do(self.planner.fix_end())

    def _do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._worker.start(coroutine).result(PATIENCE)


@pytest.fixture
def stream(kafka: Kafka, worker: Worker, topic: str) -> Iterator[Any]:
    made: list[Stream] = []

    def make(**options: str) -> Stream:
        selection = {} if "subscribePattern" in options else {"subscribe": topic}
        made.append(Stream(kafka, worker, **selection, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def write(kafka: Kafka, topic: str, partition: int, first: int, count: int) -> None:
    kafka.produce(topic, partition, [BatchRecord(first + n, 1000 + first + n, None, b"v") for n in range(count)])


def test_batches_follow_each_other(kafka: Kafka, topic: str, stream: Any) -> None:
    kafka.create_topic(topic, 2)
    write(kafka, topic, 0, 0, 3)
    one = stream(startingOffsets="earliest")
    start = one.initial()
    first = one.end(start)
    assert one.ranges(start, first) == [(0, 0, 3)]
    assert one.end(first) is None
    write(kafka, topic, 1, 0, 2)
    second = one.end(first)
    assert one.ranges(first, second) == [(1, 0, 2)]
    assert one.ranges(second, second) == []


def test_a_first_batch_that_failed_reads_the_same_again(kafka: Kafka, topic: str, stream: Any) -> None:
    """Spark stores its end, and requests the initial offset again: which is a later one by then."""
    kafka.create_topic(topic, 2)
    write(kafka, topic, 0, 0, 5)
    one = stream()
    start = one.initial()
    write(kafka, topic, 0, 5, 4)
    write(kafka, topic, 1, 0, 1)
    end = one.end(start)
    one.restart()
    write(kafka, topic, 0, 9, 3)
    later = one.initial()
    assert later.offsets[TopicPartition(topic, 0)] == 12
    assert one.ranges(later, end) == [(0, 5, 9), (1, 0, 1)]
    assert one.ranges(end, one.end(end)) == [(0, 9, 12)]


def test_where_a_query_starts_is_stored_before_there_are_records(kafka: Kafka, topic: str, stream: Any) -> None:
    """Else what is written while the query is stopped would be missed."""
    kafka.create_topic(topic, 1)
    one = stream(startingOffsets="latest")
    start = one.initial()
    end = one.end(start)
    assert end is not None
    assert one.ranges(start, end) == []
    one.restart()
    write(kafka, topic, 0, 0, 2)
    assert one.ranges(end, one.end(end)) == [(0, 0, 2)]


def test_new_partitions_are_read_from_their_begin(kafka: Kafka, topic: str, stream: Any) -> None:
    kafka.create_topic(topic, 1)
    write(kafka, topic, 0, 0, 1)
    one = stream(startingOffsets="latest")
    first = one.end(one.initial())
    kafka.add_partitions(topic, 3)
    write(kafka, topic, 2, 0, 4)
    second = one.end(first)
    assert one.ranges(first, second) == [(2, 0, 4)]
    assert second.begins == {TopicPartition(topic, 1): 0, TopicPartition(topic, 2): 0}
    one.restart()
    assert one.ranges(first, second) == [(2, 0, 4)]
    assert one.end(second) is None


def test_new_topics_of_a_pattern_are_read_from_their_begin(kafka: Kafka, topic: str, stream: Any) -> None:
    kafka.create_topic(f"{topic}-a", 1)
    one = stream(subscribePattern=f"^{topic}-")
    first = one.end(one.initial())
    kafka.create_topic(f"{topic}-b", 1)
    write(kafka, f"{topic}-b", 0, 0, 2)
    second = one.end(first)
    assert one.ranges(first, second) == [(0, 0, 2)]
    assert second.offsets == {TopicPartition(f"{topic}-a", 0): 0, TopicPartition(f"{topic}-b", 0): 2}
    kafka.add_partitions(f"{topic}-b", 2)
    write(kafka, f"{topic}-b", 1, 0, 1)
    assert one.ranges(second, one.end(second)) == [(1, 0, 1)]


@pytest.mark.parametrize("most", [1, 5, 7])
def test_a_limit_divides_what_there_is_into_batches(kafka: Kafka, topic: str, stream: Any, most: int) -> None:
    kafka.create_topic(topic, 2)
    write(kafka, topic, 0, 0, 12)
    write(kafka, topic, 1, 0, 3)
    one = stream(startingOffsets="earliest")
    start, read = one.initial(), list[tuple[int, int]]()
    while (end := one.end(start, most)) is not None:
        ranges = one.ranges(start, end)
        assert 0 < sum(until - begin for _, begin, until in ranges) <= most + 1
        read += [(partition, offset) for partition, begin, until in ranges for offset in range(begin, until)]
        start = end
    assert sorted(read) == [(0, offset) for offset in range(12)] + [(1, offset) for offset in range(3)]


def test_a_fixed_end_is_not_passed(kafka: Kafka, topic: str, stream: Any) -> None:
    kafka.create_topic(topic, 1)
    write(kafka, topic, 0, 0, 5)
    one = stream(startingOffsets="earliest")
    one.fix_end()
    start = one.initial()
    first = one.end(start, 3)
    write(kafka, topic, 0, 5, 5)
    kafka.add_partitions(topic, 2)
    write(kafka, topic, 1, 0, 1)
    second = one.end(first, 3)
    assert (one.ranges(start, first), one.ranges(first, second)) == ([(0, 0, 3)], [(0, 3, 5)])
    assert one.end(second, 3) is None
    one.restart()
    assert one.ranges(second, one.end(second)) == [(0, 5, 10), (1, 0, 1)]


def test_a_fixed_end_before_the_start_reads_nothing(kafka: Kafka, topic: str, stream: Any) -> None:
    kafka.create_topic(topic, 1)
    one = stream(startingOffsets="latest")
    one.fix_end()
    write(kafka, topic, 0, 0, 2)
    start = one.initial()
    first = one.end(start)
    assert one.ranges(start, first) == []
    assert one.end(first) is None


def test_the_least_number_of_a_batch_is_waited_for(kafka: Kafka, topic: str, stream: Any) -> None:
    kafka.create_topic(topic, 1)
    one = stream(startingOffsets="earliest", minOffsetsPerTrigger="5")
    first = one.end(one.initial(), waits=True)
    assert first is not None, "where it starts is stored at once"
    write(kafka, topic, 0, 0, 4)
    second = one.end(first, waits=True)
    assert one.ranges(first, second) == [(0, 0, 4)], "the first batch does not wait"
    write(kafka, topic, 0, 4, 4)
    assert one.end(second, waits=True) is None
    write(kafka, topic, 0, 8, 1)
    assert one.ranges(second, one.end(second, waits=True)) == [(0, 4, 9)]


def test_a_topic_that_was_created_again_is_an_error(kafka: Kafka, topic: str, stream: Any) -> None:
    kafka.create_topic(topic, 1)
    write(kafka, topic, 0, 0, 5)
    one = stream(startingOffsets="earliest")
    first = one.end(one.initial())
    kafka.delete_topic(topic)
    kafka.create_topic(topic, 1)
    write(kafka, topic, 0, 0, 9)
    with pytest.raises(TopicChangedError, match=r"deleted and created again.*new checkpoint"):
        one.end(first)
    one.restart()
    with pytest.raises(TopicChangedError):
        one.end(first)


def test_a_topic_that_was_deleted_is_an_error(kafka: Kafka, topic: str, stream: Any) -> None:
    kafka.create_topic(topic, 1)
    one = stream(startingOffsets="earliest")
    first = one.end(one.initial())
    kafka.delete_topic(topic)
    with pytest.raises(UnknownTopicError):
        one.end(first)


def test_a_topic_that_is_dropped_while_its_offsets_are_requested_is_an_error(
    kafka: Kafka, topic: str, stream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create_topic(topic, 1)
    one = stream(startingOffsets="earliest")
    first = one.end(one.initial())

    async def dropped(cluster: Any, *arguments: Any) -> Any:
        offsets = await list_offsets(cluster, *arguments)
        cluster.metadata._publish(cluster.snapshot.without([topic]))
        return offsets

    monkeypatch.setattr("aiokproto.spark.stream.planner.list_offsets", dropped)
    with pytest.raises(UnknownTopicError, match=topic):
        one.end(first)


def test_deleted_records_are_an_error_or_left_out(kafka: Kafka, topic: str, stream: Any) -> None:
    kafka.create_topic(topic, 1)
    write(kafka, topic, 0, 0, 4)
    one = stream(startingOffsets="earliest")
    first = one.end(one.initial())
    write(kafka, topic, 0, 4, 6)
    kafka.delete_records(topic, 0, 7)
    with pytest.raises(DataLossError, match=f"{topic}-0 begins at offset 7: 3 offsets from 4 on were deleted"):
        one.end(first)
    lenient = stream(failOnDataLoss="false")
    second = lenient.end(first)
    assert lenient.ranges(first, second) == [(0, 7, 10)]
    lenient.restart()
    assert lenient.ranges(first, second) == [(0, 7, 10)], "a batch that is repeated begins there, too"
    assert lenient.end(second) is None


def test_a_truncated_log_is_an_error_even_if_it_has_grown_again(kafka: Kafka, topic: str, stream: Any) -> None:
    kafka.create_topic(topic, 1)
    write(kafka, topic, 0, 0, 6)
    write(kafka, topic, 0, 6, 4)
    one = stream(startingOffsets="earliest")
    first = one.end(one.initial())
    kafka.broker.diverge_log(topic, 0, 6, [b"new %d" % number for number in range(9)])
    with pytest.raises(TruncationError, match=r"was read up to offset 10 of leader epoch 0, but .* up to offset 6"):
        one.end(first)
    lenient = stream(failOnDataLoss="false")
    second = lenient.end(first)
    assert lenient.ranges(first, second) == [(0, 6, 15)]
    assert lenient.end(second) is None


def test_a_truncated_log_without_new_records_is_noticed_once(kafka: Kafka, topic: str, stream: Any) -> None:
    kafka.create_topic(topic, 1)
    write(kafka, topic, 0, 0, 6)
    write(kafka, topic, 0, 6, 4)
    one = stream(startingOffsets="earliest", failOnDataLoss="false")
    first = one.end(one.initial())
    kafka.broker.diverge_log(topic, 0, 6, [])
    second = one.end(first)
    assert second.offsets == {TopicPartition(topic, 0): 6}
    assert one.end(second) is None
    write(kafka, topic, 0, 6, 2)
    assert one.ranges(second, one.end(second)) == [(0, 6, 8)]


def test_partitions_that_are_gone_are_an_error_or_left_out(kafka: Kafka, topic: str, stream: Any) -> None:
    kafka.create_topic(topic, 1)
    write(kafka, topic, 0, 0, 2)
    first = StreamOffset({TopicPartition(topic, 0): 1, TopicPartition(topic, 5): 9, TopicPartition("other", 0): 3})
    strict = stream()
    with pytest.raises(DataLossError, match=f"do not have: other-0, {topic}-5"):
        strict.end(first)
    lenient = stream(failOnDataLoss="false")
    second = lenient.end(first)
    assert lenient.ranges(first, second) == [(0, 1, 2)]
    assert lenient.end(second) is None


def test_a_checkpoint_of_sparks_own_connector_is_continued(kafka: Kafka, topic: str, stream: Any) -> None:
    kafka.create_topic(topic, 2)
    write(kafka, topic, 0, 0, 6)
    write(kafka, topic, 1, 0, 2)
    one = stream()
    start = parse_offset({topic: {"0": 4}})
    end = one.end(start)
    assert one.ranges(start, end) == [(0, 4, 6), (1, 0, 2)]
    # A batch that the other connector has planned and not finished.
    assert one.ranges(start, parse_offset({topic: {"0": 5, "1": 1}})) == [(0, 4, 5), (1, 0, 1)]


def test_without_a_start_an_end_has_all_that_is_needed(kafka: Kafka, topic: str, stream: Any) -> None:
    """As Spark before 4.2 requests it."""
    kafka.create_topic(topic, 1)
    write(kafka, topic, 0, 0, 2)
    one = stream(startingOffsets="earliest")
    start = one.initial()
    first = one.end(None)
    assert one.ranges(start, first) == [(0, 0, 2)]
    assert one.end(None) == first
    kafka.add_partitions(topic, 2)
    write(kafka, topic, 1, 0, 3)
    second = one.end(None)
    assert one.ranges(first, second) == [(1, 0, 3)]
    one.restart()
    third = one.end(None)
    assert one.ranges(second, third) == []
    assert one.ranges(first, third) == [(1, 0, 3)]


def test_a_task_reads_pieces_if_there_are_to_be_more_tasks(kafka: Kafka, topic: str, stream: Any) -> None:
    kafka.create_topic(topic, 1)
    write(kafka, topic, 0, 0, 10)
    one = stream(startingOffsets="earliest", minPartitions="3", maxRecordsPerPartition="4")
    start = one.initial()
    assert one.ranges(start, one.end(start)) == [(0, 0, 3), (0, 3, 6), (0, 6, 10)]


def test_a_start_that_the_log_does_not_have_is_an_error(kafka: Kafka, topic: str, stream: Any) -> None:
    kafka.create_topic(topic, 1)
    with pytest.raises(KafkaError, match="ends at offset 0, before 5"):
        stream(startingOffsets=f'{{"{topic}": {{"0": 5}}}}').initial()

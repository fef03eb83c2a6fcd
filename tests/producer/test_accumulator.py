"""The accumulator: batching, budget, linger, backoff, expiry, splitting. The clock is a number."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, DeadlineError, KafkaError, MessageTooLargeError, error_for
from aiokproto.producer.accumulator import Accumulator, Drained
from aiokproto.producer.batch import ProducerBatch
from aiokproto.producer.limits import BufferLimits
from aiokproto.records import Compression, RecordBatch
from aiokproto.types import RecordMetadata
from tests.producer.sticky import FreeSinks, lowest

LIMITS = BufferLimits(
    batch_size=1000, buffer_memory=10_000, max_request_size=5000, linger=1.0, delivery_timeout=30.0, in_flight=5
)
ERROR = error_for(ErrorCode.NOT_LEADER_OR_FOLLOWER, "Produce")


def accumulator(
    leaders: Sequence[int | None] = (1, 2, 1), compression: Compression = Compression.NONE, **changes: Any
) -> Accumulator:
    made = Accumulator(LIMITS._replace(**changes), sticky=lowest(), compression=compression)
    made.update("flights", leaders, 0.0)
    return made


def append(
    to: Accumulator, value: bytes, partition: int | None = 0, now: float = 0.0
) -> tuple[ProducerBatch, int] | None:
    """Append one record, as the producer does."""
    topic = to.topics["flights"]
    batch = (topic.sticky if partition is None else topic.queues[partition]).open
    index = batch.append(1000, None, value) if batch is not None else None
    if batch is not None and index is not None:
        return batch, index
    return to.append(topic, partition, 1000, None, value, (), now)


def put(to: Accumulator, value: bytes, partition: int | None = 0, now: float = 0.0) -> ProducerBatch:
    placed = append(to, value, partition, now)
    assert placed is not None
    return placed[0]


def confirm(acc: Accumulator, *partitions: int) -> None:
    """Have a batch of each partition acknowledged by its leader."""
    batches = [put(acc, b"first", partition) for partition in partitions]
    acc.end_linger()
    while drain(acc, 0.0).requests:
        pass
    for batch in batches:
        acc.complete(batch, 0)


def drain(of: Accumulator, now: float, busy: frozenset[int] = frozenset()) -> Drained:
    return of.drain(now, FreeSinks(busy))


def sent(drained: Drained) -> dict[int, list[int]]:
    """Node → partitions of the request."""
    return {node: [batch.where.partition for batch in batches] for node, batches in drained.requests.items()}


def values(batch: ProducerBatch) -> list[bytes | None]:
    return [record.value for record in RecordBatch(batch.seal())]


@pytest.mark.parametrize("linger", [0.0, 1.0])
def test_a_first_record_that_memory_is_short_for_leaves_no_empty_batch(
    linger: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    acc = accumulator(linger=linger)
    before = put(acc, b"before", 1)

    def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(ProducerBatch, "append", fail)
        with pytest.raises(MemoryError):
            acc.append(acc.topics["flights"], 0, 1000, None, b"lost", (), 0.0)
    assert acc.used == before.reserved
    assert acc.topics["flights"].queues[0].open is None
    acc.end_linger()
    assert sent(drain(acc, 0.0)) == {2: [1]}
    assert values(put(acc, b"after")) == [b"after"]


def test_a_batch_goes_out_when_it_has_lingered() -> None:
    acc = accumulator()
    put(acc, b"a", now=5.0)
    assert drain(acc, 5.9) == Drained({}, [], 6.0)
    put(acc, b"b", now=5.95)
    drained = drain(acc, 6.0)
    assert [values(batch) for batch in drained.requests[1]] == [[b"a", b"b"]]
    assert drained.wake_at == 35.0, "the only remaining deadline is that of the delivery timeout"


def test_without_linger_a_batch_is_due_as_soon_as_it_is_opened_and_takes_records_until_it_goes_out() -> None:
    acc = accumulator(linger=0.0)
    batch = put(acc, b"a")
    assert acc.has_ready
    assert drain(acc, 0.0, busy=frozenset({1})).requests == {}
    put(acc, b"b")
    assert drain(acc, 0.0).requests == {1: [batch]}
    assert values(batch) == [b"a", b"b"]
    assert not acc.has_ready


def test_a_full_batch_goes_out_at_once() -> None:
    acc = accumulator()
    put(acc, b"a" * 600)
    assert sent(drain(acc, 0.0)) == {}
    put(acc, b"b" * 600)
    (batch,) = drain(acc, 0.0).requests[1]
    assert values(batch) == [b"a" * 600]


def test_one_request_carries_all_partitions_of_a_broker() -> None:
    acc = accumulator((1, 2, 1))
    for partition in (0, 1, 2):
        put(acc, b"x", partition)
    assert sent(drain(acc, 1.0)) == {1: [0, 2], 2: [1]}


def test_a_request_keeps_to_its_size_and_no_partition_starves() -> None:
    acc = accumulator((1, 1, 1), max_request_size=2000)
    confirm(acc, 0, 1, 2)
    for partition in (0, 1, 2):
        for _ in range(2):
            put(acc, b"x" * 900, partition)
    acc.end_linger()
    assert sent(drain(acc, 0.0)) == {1: [0, 1]}
    assert sent(drain(acc, 0.0)) == {1: [2, 0]}
    assert sent(drain(acc, 0.0)) == {1: [1, 2]}
    assert sent(drain(acc, 0.0)) == {}


def test_a_busy_broker_is_left_alone_and_its_batch_goes_on_filling() -> None:
    acc = accumulator()
    put(acc, b"a")
    assert sent(drain(acc, 1.0, busy=frozenset({1}))) == {}
    put(acc, b"b", now=1.5)
    (batch,) = drain(acc, 2.0).requests[1]
    assert values(batch) == [b"a", b"b"]


def test_a_partition_without_leader_waits_and_is_reported() -> None:
    acc = accumulator((None, 2))
    batch = put(acc, b"a")
    drained = drain(acc, 1.0)
    assert (drained.requests, [str(where) for where in drained.leaderless]) == ({}, ["flights-0"])
    acc.update("flights", (2, 2), 0.0)
    assert drain(acc, 1.0).requests == {2: [batch]}, "the batch goes to the current leader"


def test_records_without_key_stay_until_a_batch_is_full_and_then_go_elsewhere() -> None:
    acc = accumulator((1, None, 1))
    where = [put(acc, b"x" * 400, None).where.partition for _ in range(6)]
    assert where == [0, 0, 2, 2, 0, 0], "never the partition without a leader"


def test_a_lingered_batch_does_not_move_the_sticky_partition_before_its_share() -> None:
    acc = accumulator((1, 1))
    where = []
    for round_number in range(5):
        where.append(put(acc, b"x" * 400, None, now=float(round_number)).where.partition)
        for batch in drain(acc, round_number + 1.0).requests.get(1, []):
            batch.seal()
            acc.complete(batch, 0)
    assert where == [0, 0, 0, 1, 1]


def test_buffer_memory_is_reserved_as_a_batch_fills() -> None:
    acc = accumulator(batch_size=100_000, buffer_memory=20_000, max_request_size=20_000)
    put(acc, b"x")
    assert acc.used == 4096
    while acc.used == 4096:
        put(acc, b"x" * 100)
    assert acc.used == 8192


def test_the_next_batch_reserves_the_size_of_the_last_one_if_half_of_the_buffer_is_free() -> None:
    acc = accumulator(batch_size=100_000, buffer_memory=20_000, max_request_size=20_000)
    for _ in range(50):
        put(acc, b"x" * 100)
    (batch,) = drain(acc, 10.0).requests[1]
    size = batch.size
    assert acc.used == size > 4096
    put(acc, b"x")
    assert acc.used == size + size + size // 4
    acc.end_linger()
    put(acc, b"x" * 100, 1)
    assert acc.used == size + size + size // 4 + 4096


def test_a_full_buffer_takes_no_record_and_makes_all_batches_due() -> None:
    acc = accumulator(buffer_memory=2000)
    batches = [put(acc, b"x" * 800, 0), put(acc, b"x" * 800, 1)]
    assert append(acc, b"x" * 800, 2) is None
    drained = drain(acc, 0.0)
    assert drained.requests == {1: [batches[0]], 2: [batches[1]]}
    for batch in batches:
        acc.complete(batch, 0)
    assert acc.used == 0
    assert append(acc, b"x" * 800, 2) is not None


@pytest.mark.parametrize("option", ["max_request_size", "buffer_memory"])
def test_a_record_that_can_never_be_sent_is_refused(option: str) -> None:
    changes: dict[str, Any] = {option: 1500}
    acc = accumulator(**changes)
    put(acc, b"small")
    with pytest.raises(MessageTooLargeError, match=f"flights-0.*up to 2097 bytes, {option} is 1500"):
        append(acc, b"x" * 2000)
    assert values(drain(acc, 1.0).requests[1][0]) == [b"small"]


def test_a_record_larger_than_batch_size_has_a_batch_of_its_own() -> None:
    acc = accumulator()
    first_batch, large = put(acc, b"a"), put(acc, b"x" * 3000)
    assert first_batch is not large
    assert values(drain(acc, 0.0).requests[1][0]) == [b"a"], "it does not let earlier records wait behind it"


def fill_compressed(acc: Accumulator, value: Callable[[], bytes]) -> tuple[ProducerBatch, int]:
    """Fill a batch of partition 0, and compress it. Return it, and its size before."""
    first = put(acc, value())
    while put(acc, value()) is first:
        pass
    (batch,) = drain(acc, 0.0).requests[1]
    assert batch is first
    size = batch.size
    batch.seal()
    return batch, size


def test_compressed_batches_are_filled_by_their_size_after_compression() -> None:
    acc = accumulator(buffer_memory=100_000, compression=Compression.GZIP)
    words, before, after = random.Random(1), 0, 0
    for _ in range(60):
        batch, before = fill_compressed(acc, lambda: b"%030d" % words.randrange(10**20))
        after = batch.wire_size
        assert after <= 1.1 * LIMITS.batch_size
        acc.complete(batch, 0)
    assert after > 0.7 * LIMITS.batch_size
    assert before > 1.5 * LIMITS.batch_size
    # What does not compress is never larger than a request.
    noise, _ = fill_compressed(acc, lambda: words.randbytes(40))
    assert noise.wire_size <= LIMITS.max_request_size
    # A broker may refuse it all the same; then the next batch is as large as at first.
    acc.split(noise)
    for _ in range(2):
        (part,) = drain(acc, 0.0).requests[1]
        part.seal()
        acc.complete(part, 0)
    # The one that is open was begun before.
    begun, _ = fill_compressed(acc, lambda: bytes(40))
    acc.complete(begun, 0)
    _, size = fill_compressed(acc, lambda: bytes(40))
    assert size < 1.2 * LIMITS.batch_size


def test_a_retry_waits_and_comes_first() -> None:
    acc = accumulator()
    one = put(acc, b"1")
    assert drain(acc, 1.0).requests == {1: [one]}
    put(acc, b"2", now=1.0)
    acc.retry(one, ERROR, at=2.5)
    drained = drain(acc, 2.0)
    assert (drained.requests, drained.wake_at) == ({}, 2.5)
    assert drain(acc, 2.5).requests == {1: [one]}
    assert one.attempts == 2


def test_no_later_batch_is_in_flight_with_a_retried_one() -> None:
    acc = accumulator()
    confirm(acc, 0)
    one = put(acc, b"1")
    drain(acc, 1.0)
    two = put(acc, b"2", now=1.0)
    assert drain(acc, 2.0).requests == {1: [two]}, "without failures, they are sent one after the other"
    three = put(acc, b"3", now=2.0)
    acc.retry(two, ERROR, at=2.0)
    acc.retry(one, ERROR, at=2.0)
    for expected in (one, two, three):
        assert drain(acc, 3.0).requests == {1: [expected]}
        assert drain(acc, 3.0).requests == {}
        acc.complete(expected, 0)


def test_no_more_batches_of_a_partition_are_in_flight_than_allowed() -> None:
    acc = accumulator(in_flight=2)
    confirm(acc, 0)
    batches = [put(acc, bytes([i]) * 900) for i in range(4)]
    assert drain(acc, 0.0).requests == {1: [batches[0]]}
    assert drain(acc, 0.0).requests == {1: [batches[1]]}
    assert drain(acc, 0.0).requests == {}
    acc.complete(batches[0], 0)
    assert drain(acc, 0.0).requests == {1: [batches[2]]}


def test_one_batch_is_in_flight_until_the_broker_has_acknowledged_one() -> None:
    """A broker without state for the producer accepts any first sequence number, also that of the second batch."""
    acc = accumulator()
    batches = [put(acc, bytes([i]) * 900) for i in range(3)]
    acc.end_linger()
    assert drain(acc, 0.0).requests == {1: [batches[0]]}
    assert drain(acc, 0.0).requests == {}
    acc.retry(batches[0], ERROR, at=0.0)
    assert drain(acc, 0.0).requests == {1: [batches[0]]}
    assert drain(acc, 0.0).requests == {}
    acc.complete(batches[0], 0)
    assert drain(acc, 0.0).requests == {1: [batches[1]]}
    assert drain(acc, 0.0).requests == {1: [batches[2]]}


def test_nothing_is_sent_to_a_new_leader_before_the_old_one_has_responded() -> None:
    acc = accumulator()
    confirm(acc, 0)
    one, two, three = (put(acc, bytes([i]) * 900) for i in range(3))
    assert drain(acc, 0.0).requests == {1: [one]}
    acc.update("flights", (2, 2, 1), 0.0)
    assert drain(acc, 0.0).requests == {}
    acc.complete(one, 1)
    assert drain(acc, 0.0).requests == {2: [two]}
    assert drain(acc, 0.0).requests == {}, "the new leader has not acknowledged any"
    acc.complete(two, 2)
    assert drain(acc, 1.0).requests == {2: [three]}


def test_delivery_timeout_names_partition_attempts_and_last_error() -> None:
    acc = accumulator()
    batch = put(acc, b"1")
    drain(acc, 1.0)
    acc.retry(batch, ERROR, at=2.0)
    drain(acc, 2.0)
    assert acc.expire(29.9) == []
    assert acc.expire(30.0) == [batch]
    outcome = batch.outcome.record_result(0, 1000)
    assert isinstance(outcome, DeadlineError)
    assert str(outcome).startswith(
        "1 record for flights-0 not acknowledged within delivery_timeout_ms=30000; 2 attempts"
    )
    assert "NOT_LEADER_OR_FOLLOWER" in str(outcome)
    assert outcome.__cause__ is ERROR
    assert (acc.used, list(acc.incomplete)) == (0, [])


@pytest.mark.parametrize(
    ("leaders", "sealed", "reason"),
    [
        ((None,), False, "has no leader"),
        ((1,), False, "is being compressed"),
        ((1,), True, "has not responded"),
    ],
)
def test_delivery_timeout_without_an_error_says_what_is_missing(
    leaders: tuple[int | None], sealed: bool, reason: str
) -> None:
    acc = accumulator(leaders)
    batch = put(acc, b"1")
    drain(acc, 1.0)
    if sealed:
        batch.seal()
    acc.expire(30.0)
    outcome = batch.outcome.record_result(0, 1000)
    assert isinstance(outcome, DeadlineError)
    assert reason in str(outcome)


def test_each_record_has_its_own_outcome() -> None:
    acc = accumulator()
    batch = put(acc, b"1")
    put(acc, b"2")
    drain(acc, 1.0)
    called: list[bool] = []
    batch.outcome.add_done_callback(lambda: called.append(batch.done))
    acc.complete(batch, 40)
    assert called == [True]
    assert batch.outcome.record_result(1, 1000) == RecordMetadata("flights", 0, 41, 1000)
    acc2 = accumulator()
    stamped = put(acc2, b"1")
    drain(acc2, 1.0)
    acc2.complete(stamped, 7, append_time=5000)
    assert stamped.outcome.record_result(0, 1000) == RecordMetadata("flights", 0, 7, 5000), "LogAppendTime"


def test_a_batch_that_is_too_large_is_split_in_halves() -> None:
    acc = accumulator()
    batch = put(acc, b"0")
    for i in range(1, 5):
        put(acc, b"%d" % i)
    later = put(acc, b"x" * 900)
    drain(acc, 0.0)
    acc.queue(batch).assign(batch, (7, 0))
    batch.seal()
    used = acc.used
    acc.split(batch)
    assert acc.used == used
    found: list[list[bytes | None]] = []
    for _ in range(3):
        (part,) = drain(acc, 1.0).requests[1]
        acc.queue(part).assign(part, (7, 0))
        found.append(values(part))
        acc.complete(part, 10 * len(found))
    assert found == [[b"0", b"1"], [b"2", b"3", b"4"], [b"x" * 900]]
    assert batch.done
    assert [batch.outcome.record_result(i, 1000) for i in range(5)] == [
        RecordMetadata("flights", 0, offset, 1000) for offset in (10, 11, 20, 21, 22)
    ]
    assert later.sequence == 5
    assert (acc.used, list(acc.incomplete)) == (0, [])


def test_batches_split_down_to_single_records_take_no_more_buffer_memory() -> None:
    acc = accumulator()
    for number in range(8):
        put(acc, b"%d" % number)
    found: list[bytes | None] = []
    acc.end_linger()
    while batches := drain(acc, 0.0).requests.get(1):
        (batch,) = batches
        held, used = values(batch), acc.used
        if batch.count == 1:
            found += held
            acc.complete(batch, 0)
        else:
            acc.split(batch)
            assert acc.used == used
    assert found == [b"%d" % number for number in range(8)]
    assert acc.used == 0


def test_a_half_that_fails_fails_its_own_records_only() -> None:
    acc = accumulator()
    batch = put(acc, b"0")
    put(acc, b"1")
    drain(acc, 1.0)
    batch.seal()
    acc.split(batch)
    (one,) = drain(acc, 1.0).requests[1]
    acc.fail(one, ERROR)
    assert not batch.done, "the other half is still under way"
    (two,) = drain(acc, 1.0).requests[1]
    acc.complete(two, 0)
    assert batch.done
    assert isinstance(batch.outcome.record_result(0, 1000), BrokerError)
    assert batch.outcome.record_result(1, 1000) == RecordMetadata("flights", 0, 0, 1000)


def test_an_unobserved_failure_is_logged_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    acc = accumulator()
    put(acc, b"0")
    put(acc, b"1")
    acc.fail_all(lambda _: KafkaError("lost"))
    drain(acc, 1.0)
    assert acc.delivery_context.unobserved_failures == 2
    assert [record.getMessage() for record in caplog.records] == [
        "failed to deliver 2 records for flights-0; no task awaited them: lost"
    ]


def test_an_observed_failure_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    acc = accumulator()
    batch = put(acc, b"0")
    acc.fail_all(lambda _: KafkaError("lost"))
    drain(acc, 1.0)
    batch.outcome.record_result(0, 1000)
    del batch
    assert (acc.delivery_context.unobserved_failures, caplog.records) == (0, [])


def test_partitions_can_be_added_to_a_topic() -> None:
    acc = accumulator((1,))
    acc.update("flights", (1, 2), 0.0)
    assert put(acc, b"x", 1).where.partition == 1
    acc.update("flights", (), 0.0)
    assert drain(acc, 1.0).leaderless, "a topic that is gone keeps its records until they expire"


def test_an_idle_accumulator_has_no_deadline() -> None:
    assert drain(accumulator(), 0.0).wake_at == math.inf

"""Records that can't be decoded, and calls that are cancelled: each record is seen once, and committed after that."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.dead_letters import DeadLetterTopic
from aiokproto.consumer.deserializers import Deserializers
from aiokproto.consumer.deserializing import DeserializingReader
from aiokproto.consumer.reader import Reader
from aiokproto.consumer.start_lookup import COMMITTED
from aiokproto.consumer.undecodable import Policy, Undecodable
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    ConfigurationError,
    CorruptBatchError,
    DeadlineError,
    RecordDeserializationError,
    UnknownTopicError,
    error_for,
)
from aiokproto.fetched.chunk import BufferedBytes, chunks
from aiokproto.records import BatchRecord, encode
from aiokproto.types import Header, Record, TopicPartition
from tests.consumer.parts import EngineStub

AT = TopicPartition("t", 0)
END = b'"end"'
PolicyName = Literal["raise", "skip", "return", "dead letter"]
POLICIES: tuple[PolicyName, ...] = ("raise", "skip", "return", "dead letter")


class StoredBatch(NamedTuple):
    """The values of a batch, and how it is damaged: not at all, in its records, or in a field of its header."""

    values: list[bytes | None]
    damage: Literal["", "records", "last offset", "magic", "attributes"] = ""


class FakeDelivery:
    """Awaiting it can be cancelled, as of a real one, without effect on the outcome."""

    def __init__(self, outcome: asyncio.Future[None]) -> None:
        self._outcome = outcome

    def __await__(self) -> Generator[Any, None, None]:
        while not self._outcome.done():
            yield
        self._outcome.result()


class Letters:
    """A producer for dead letters: each is acknowledged some iterations of the event loop later, or fails at first."""

    def __init__(self, failures: int = 0) -> None:
        self.written: list[int] = []
        self.acknowledged: set[int] = set()
        self._failures = failures

    async def post_bytes(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, headers: Sequence[Header] = ()
    ) -> Awaitable[Any]:
        await asyncio.sleep(0)
        offset = int(dict(headers)["__dlq.errors.offset"] or b"")
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._failures:
            self._failures -= 1
            outcome.set_exception(DeadlineError("not acknowledged"))
            return FakeDelivery(outcome)
        self.written.append(offset)

        def acknowledge() -> None:
            self.acknowledged.add(offset)
            outcome.set_result(None)

        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: loop.call_soon(acknowledge))
        return FakeDelivery(outcome)


class NoTopic:
    """A producer whose topic does not exist."""

    async def post_bytes(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, headers: Sequence[Header] = ()
    ) -> Awaitable[Any]:
        raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Metadata")


class Partition(EngineStub):
    """One partition with these batches, and a consumer's reader of it."""

    def __init__(self, log: list[StoredBatch], policy: PolicyName, *, is_async: bool, failures: int = 0) -> None:
        super().__init__()
        self.raw: list[tuple[int, bytes]] = []
        self.end = 0
        for batch in log:
            self.raw.append((self.end, stored(batch, self.end)))
            self.end += len(batch.values)
        self.letters = Letters(failures)
        chosen: Policy = DeadLetterTopic("dead", self.letters) if policy == "dead letter" else policy

        engine: Any = self
        self.assignment = Assignment(engine)
        self.undecodable = Undecodable(chosen, "g")
        self.reader = Reader(engine, self.assignment, self.undecodable)
        self.assignment.add([AT], COMMITTED)
        self.cursor = self.assignment.get(AT)
        self.cursor.set_position(0)
        self.deserializers: Deserializers[bytes, Any] = Deserializers(None, later if is_async else json.loads)
        self.records = DeserializingReader(self.assignment, self.reader, self.deserializers, self.undecodable, 60.0)

    def assignment_changed(self, cursors: Any = ()) -> None:
        self.buffer_has_room()

    def buffer_has_room(self) -> None:
        # A fetcher takes some time, so don't respond at once.
        asyncio.get_running_loop().call_soon(self.pump)

    def records_arrived(self) -> None:
        self.reader.wake()

    def pump(self) -> None:
        """What the fetcher does: two batches at a time, from the one that has the offset on."""
        cursor, wanted = self.cursor, self.cursor.fetch.offset
        if not cursor.fetchable or wanted is None or cursor.buffer.chunks or wanted >= self.end:
            return
        cursor.fetch.high_watermark = self.end
        first = max(place for place, (base, _) in enumerate(self.raw) if base <= wanted)
        data = b"".join(raw for _, raw in self.raw[first : first + 2])
        for chunk in chunks(AT, wanted, memoryview(data), []):
            cursor.received(chunk, BufferedBytes())
            self.assignment.arrived(cursor)

    def committable(self) -> int:
        return self.assignment.committable(processed=True)[AT].offset


async def later(raw: bytes) -> Any:
    for _ in range(len(raw) % 3):
        await asyncio.sleep(0)
    return json.loads(raw)


def stored(batch: StoredBatch, base: int) -> bytes:
    records = [BatchRecord(base + place, 1, b"k", value) for place, value in enumerate(batch.values)]
    raw = bytearray(encode(records, base_offset=base))
    if batch.damage == "records":
        raw[-1] ^= 0xFF
    elif batch.damage == "last offset":
        # It claims far more offsets than it has.
        raw[23:27] = (1000).to_bytes(4, "big")
    elif batch.damage == "magic":
        raw[16] = 9
    elif batch.damage == "attributes":
        # It's a control batch, which would be skipped.
        raw[22] ^= 0x20
    return bytes(raw)


Read = Callable[[Partition], Awaitable[list[Record[Any, Any]]]]


async def one(partition: Partition) -> list[Record[Any, Any]]:
    return [await partition.records.__anext__()]


async def three(partition: Partition) -> list[Record[Any, Any]]:
    return await partition.records.poll(asyncio.get_running_loop().time() + 60, 3)


async def bytes_of_batches(partition: Partition) -> list[Record[Any, Any]]:
    batch = await partition.reader.batch()
    assert batch is not None
    return list(batch)


class Seen(NamedTuple):
    """What a reader got: values by offset, offsets of records and of batches with an error."""

    values: dict[int, Any]
    errors: list[int]
    damaged: list[int]


async def read_all(partition: Partition, reads: list[Read], cancel: list[int]) -> Seen:
    """Read to the last record by these calls in turn; cancel each after so many iterations of the loop (0: never)."""
    seen = Seen({}, [], [])
    reached, processed_at_error = 0, [0]
    for turn in range(1000):
        partition.pump()
        task = asyncio.ensure_future(reads[turn % len(reads)](partition))
        patience = cancel[turn % len(cancel)] if cancel else 0
        if patience and turn < 100:
            for _ in range(patience):
                await asyncio.sleep(0)
            task.cancel()
        try:
            records = await task
        except asyncio.CancelledError:
            continue
        except DeadlineError:
            # The dead letter couldn't be written, so the record isn't counted.
            continue
        except RecordDeserializationError as error:
            seen.errors.append(error.record.offset)
            # It isn't processed yet. A process that ends here reads it again.
            processed_at_error.append(partition.committable() - error.record.offset)
            continue
        except CorruptBatchError as error:
            seen.damaged.append(error.base_offset)
            partition.assignment.seek(AT, error.next_offset)
            continue
        for record in records:
            assert record.offset >= reached, "in order, and none twice"
            reached = record.offset + 1
            if isinstance(record.error, CorruptBatchError):
                seen.damaged.append(record.offset)
            elif record.error is not None:
                seen.errors.append(record.offset)
                assert record.value == record.raw_value
            else:
                seen.values[record.offset] = record.value
        # The records that were returned last aren't processed yet.
        assert max(processed_at_error) <= 0
        assert not records or partition.committable() <= records[0].offset
        if records and records[-1].raw_value == END:
            return seen
    raise AssertionError(f"no end: {seen}")


def expected(log: list[StoredBatch], *, deserialized: bool) -> Seen:
    seen = Seen({}, [], [])
    base = 0
    for batch in log:
        if batch.damage:
            seen.damaged.append(base)
        else:
            for place, value in enumerate(batch.values):
                if value == b"bad" and deserialized:
                    seen.errors.append(base + place)
                else:
                    seen.values[base + place] = json.loads(value) if value is not None and deserialized else value
        base += len(batch.values)
    return seen


values = st.lists(st.sampled_from([b"1", b'"two"', b"[3, 33]", None, b"bad"]), min_size=1, max_size=5)
damages: Any = st.sampled_from(["", "", "", "records", "last offset", "magic", "attributes"])
logs = st.lists(st.builds(StoredBatch, values, damages), max_size=6).map(lambda log: [*log, StoredBatch([END])])


@settings(max_examples=300, deadline=None)
@given(
    log=logs,
    policy=st.sampled_from(POLICIES),
    reads=st.lists(st.sampled_from([one, three]), min_size=1, max_size=4),
    cancel=st.lists(st.integers(0, 6), max_size=5),
    is_async=st.booleans(),
    failures=st.integers(0, 2),
)
def test_every_record_is_seen_once_or_settled(
    log: list[StoredBatch], policy: PolicyName, reads: list[Read], cancel: list[int], is_async: bool, failures: int
) -> None:
    async def run() -> tuple[Partition, Seen]:
        partition = Partition(log, policy, is_async=is_async, failures=failures)
        return partition, await read_all(partition, reads, cancel)

    partition, seen = asyncio.run(run())
    wanted = expected(log, deserialized=True)
    assert seen.values == wanted.values
    assert partition.undecodable.count == len(wanted.errors) + len(wanted.damaged)
    if policy in ("raise", "return"):
        assert (seen.errors, seen.damaged) == (wanted.errors, wanted.damaged)
    else:
        assert (seen.errors, seen.damaged) == ([], [])
    if policy == "dead letter":
        # Each is written once, even if calls were cancelled, because the next call waits for a letter that is being
        # written.
        assert partition.letters.written == sorted(wanted.errors + wanted.damaged)
        assert partition.letters.acknowledged == set(partition.letters.written)


@settings(max_examples=150, deadline=None)
@given(log=logs, policy=st.sampled_from(POLICIES), cancel=st.lists(st.integers(0, 6), max_size=5))
def test_batches_leave_out_the_damaged_ones(log: list[StoredBatch], policy: PolicyName, cancel: list[int]) -> None:
    async def run() -> tuple[Partition, Seen]:
        partition = Partition(log, policy, is_async=False)
        return partition, await read_all(partition, [bytes_of_batches], cancel)

    partition, seen = asyncio.run(run())
    wanted = expected(log, deserialized=False)
    assert seen.values == wanted.values
    assert seen.damaged == (wanted.damaged if policy in ("raise", "return") else [])
    assert partition.undecodable.count == len(wanted.damaged)
    if policy == "dead letter":
        assert partition.letters.written == wanted.damaged


async def test_a_dead_letter_is_acknowledged_before_the_position_moves() -> None:
    partition = Partition([StoredBatch([b"bad", END])], "dead letter", is_async=False)
    partition.pump()
    task = asyncio.ensure_future(one(partition))
    while not partition.letters.written:
        await asyncio.sleep(0)
    assert (partition.committable(), partition.letters.acknowledged) == (0, set())
    [record] = await task
    assert (record.offset, partition.letters.acknowledged, partition.committable()) == (1, {0}, 1)


@pytest.mark.parametrize("topic", ["dead", lambda record: f"{record.topic}ead"])
async def test_the_error_of_a_dead_letter_names_the_record_and_its_topic(
    topic: str | Callable[[Record[Any, Any]], str],
) -> None:
    """Before it is buffered, and after that."""
    letters = DeadLetterTopic(topic, Letters(failures=1))
    record = Record("d", 3, 7, 1, None, b"bad", ())
    with pytest.raises(DeadlineError, match=r"the dead letter of d-3@7 .* topic 'dead': not acknowledged") as caught:
        await letters.write(record, ValueError("bad"))
    assert str(caught.value.__cause__) == "not acknowledged"
    with pytest.raises(
        UnknownTopicError, match=r"the dead letter of d-3@7 .* topic 'dead': Metadata: UNKNOWN"
    ) as unknown:
        await DeadLetterTopic(topic, NoTopic()).write(record, ValueError("bad"))
    assert unknown.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_an_undecodable_record_whose_letter_is_not_acknowledged_names_it() -> None:
    partition = Partition([StoredBatch([b"bad", END])], "dead letter", is_async=False, failures=1)
    partition.pump()
    with pytest.raises(DeadlineError, match=r"the dead letter of t-0@0 .*: not acknowledged"):
        await one(partition)
    [record] = await one(partition)
    assert record.offset == 1


async def test_a_seek_during_a_deserializer_drops_its_result() -> None:
    partition = Partition([StoredBatch([b"[1]", b"[22]", END])], "raise", is_async=True)
    partition.pump()
    await one(partition)
    task = asyncio.ensure_future(one(partition))
    await asyncio.sleep(0)
    partition.assignment.seek(AT, 2)
    partition.pump()
    assert [record.value for record in await task] == ["end"]


async def test_a_second_task_is_refused_during_a_deserializer() -> None:
    partition = Partition([StoredBatch([b"[1]", END])], "raise", is_async=True)
    partition.pump()
    # The first call waits in the reader, the second one in the deserializer.
    task = asyncio.ensure_future(three(partition))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="another task"):
        await one(partition)
    assert len(await task) == 2


@pytest.mark.parametrize("error", [ConnectionError("no registry"), TimeoutError()])
@pytest.mark.parametrize("is_async", [False, True])
async def test_what_is_not_about_the_record_is_raised_and_tried_again(error: Exception, is_async: bool) -> None:
    down = True

    def registry(raw: bytes) -> Any:
        if down and raw == b"[2]":
            raise error
        return json.loads(raw)

    async def asked(raw: bytes) -> Any:
        return registry(raw)

    partition = Partition([StoredBatch([b"[1]", b"[2]", END])], "skip", is_async=is_async)
    partition.records._deserializers = Deserializers(None, asked if is_async else registry)
    partition.pump()
    assert [record.value for record in await three(partition)] == [[1]]
    with pytest.raises(type(error)):
        await three(partition)
    down = False
    assert [record.value for record in await three(partition)] == [[2], "end"]
    assert partition.undecodable.count == 0


def test_a_damaged_size_stops_the_partition_with_every_policy() -> None:
    async def run() -> None:
        partition = Partition([StoredBatch([b"1"]), StoredBatch([END])], "skip", is_async=False)
        base, raw = partition.raw[1]
        partition.raw[1] = (base, raw[:8] + b"\x00\x00\x00\x05" + raw[12:])
        partition.pump()
        assert [record.value for record in await one(partition)] == [1]
        with pytest.raises(Exception, match="length 5 is too small"):
            await one(partition)

    asyncio.run(run())


class Asynchronous:
    async def __call__(self, raw: bytes) -> str:
        return raw.decode()


def test_deserializers_get_no_nulls_and_errors_have_the_record() -> None:
    deserializers: Deserializers[str, Any] = Deserializers(bytes.decode, json.loads)
    record = deserializers.apply(Record("t", 0, 7, 1, b"k", None, (("h", b"1"),)))
    assert (record.key, record.value, record.raw_key, record.raw_value) == ("k", None, b"k", None)
    with pytest.raises(RecordDeserializationError, match="t-0: the value of the record at offset 7") as caught:
        deserializers.apply(Record("t", 0, 7, 1, b"k", b"{", (("h", b"1"),)))
    error = caught.value
    assert (error.origin, error.record.key, error.record.value, error.record.headers) == (
        "value",
        b"k",
        b"{",
        (("h", b"1"),),
    )
    assert isinstance(error.__cause__, json.JSONDecodeError)
    with pytest.raises(RecordDeserializationError) as caught:
        deserializers.apply(Record("t", 0, 7, 1, b"\xff", b"1"))
    assert caught.value.origin == "key"


@pytest.mark.parametrize("read", [one, three])
@pytest.mark.parametrize("policy", POLICIES)
async def test_a_coroutine_that_is_not_awaited_is_not_a_value(read: Read, policy: PolicyName) -> None:
    partition = Partition([StoredBatch([b"1", END])], policy, is_async=False)
    partition.records._deserializers = Deserializers(None, lambda raw: later(raw))
    partition.pump()
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"value_deserializer=.* is no coroutine function"):
            await read(partition)
    assert (partition.committable(), partition.letters.written) == (0, [])


@pytest.mark.parametrize("read", [one, three])
@pytest.mark.parametrize("policy", POLICIES)
async def test_a_deserializer_that_does_not_return_has_a_deadline(read: Read, policy: PolicyName) -> None:
    hangs = True

    async def hanging(raw: bytes) -> Any:
        if hangs and raw == b"2":
            await asyncio.Event().wait()
        return json.loads(raw)

    partition = Partition([StoredBatch([b"1", b"2", END])], policy, is_async=True)
    partition.records = DeserializingReader(
        partition.assignment, partition.reader, Deserializers(None, hanging), partition.undecodable, 0.01
    )
    partition.pump()
    # The records that were made until then are delivered.
    assert [record.value for record in await read(partition)] == [1]
    for _ in range(2):
        task = asyncio.ensure_future(read(partition))
        while partition.reader.awaited is None:
            await asyncio.sleep(0)
        assert str(partition.reader.awaited) == "t-0: the record at offset 1 waits for value_deserializer"
        with pytest.raises(DeadlineError, match="value_deserializer did not return for the record at offset 1 within"):
            await task
        assert partition.reader.awaited is None
    with pytest.raises(DeadlineError):
        await partition.records.deserialize(Record("t", 0, 1, 0, None, b"2"))
    assert partition.committable() == 1
    hangs = False
    assert (await read(partition))[0].value == 2


async def test_what_poll_has_taken_is_not_processed_if_a_deserializer_ends_it() -> None:
    """As Ctrl-C can, which is no error of the record."""

    def load(raw: bytes) -> Any:
        if raw == b"2":
            raise KeyboardInterrupt
        return json.loads(raw)

    partition = Partition([StoredBatch([b"1"]), StoredBatch([b"2"]), StoredBatch([END])], "skip", is_async=False)
    partition.records._deserializers = Deserializers(None, load)
    partition.pump()
    with pytest.raises(KeyboardInterrupt):
        # Send it directly, because a task would pass it on to the event loop.
        three(partition).send(None)
    assert partition.committable() == 0

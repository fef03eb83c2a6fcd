"""How the sender handles responses, failures and new leaders, tested through the producer's public API."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from aiokproto.codec.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerConnectionError,
    BrokerError,
    ClientClosedError,
    DeadlineError,
    EncodeError,
    InvalidRecordError,
    MessageTooLargeError,
)
from aiokproto.records import BatchRecord, encode
from aiokproto.types import RecordMetadata
from tests.net.waiting import until
from tests.producer.fake import FakeCluster, Make, batches, grow_old


async def test_send_returns_where_the_record_is(make: Make) -> None:
    fake = FakeCluster(partitions=3)
    async with make(fake) as producer:
        assert await producer.send("flights", b"v", partition=2, timestamp=5) == RecordMetadata("flights", 2, 0, 5)
    assert fake.logs[2].values == [b"v"]
    assert fake.requests[0][1].acks == -1


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
async def test_a_batch_retried_after_a_retriable_error_keeps_its_sequence_number(make: Make, code: ErrorCode) -> None:
    fake = FakeCluster()
    fake.fail_next(code, code)
    async with make(fake) as producer:
        assert (await producer.send("flights", b"v")).offset == 0
    assert [batch.base_sequence for batch in batches(fake)] == [0, 0, 0]
    assert bool(fake.invalidated) == code.refresh_metadata


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.MESSAGE_TOO_LARGE, MessageTooLargeError),
        (ErrorCode.INVALID_REQUIRED_ACKS, BrokerError),
    ],
)
async def test_other_error_codes_are_raised_to_the_caller(
    make: Make, code: ErrorCode, error: type[BrokerError]
) -> None:
    fake = FakeCluster()
    fake.fail_next(code, message="says the broker")
    async with make(fake) as producer:
        with pytest.raises(error, match=r"Produce to flights-0 on broker 0.*says the broker") as raised:
            await producer.send("flights", b"v")
        assert raised.value.code is code
        assert (await producer.send("flights", b"next")).offset == 0, "the partition goes on, under a new epoch"
    assert [(batch.producer_epoch, batch.base_sequence) for batch in batches(fake)] == [(0, 0), (1, 0)]


async def test_a_batch_whose_response_was_lost_is_stored_once(make: Make) -> None:
    fake = FakeCluster()

    async def lost(node: int, request: ProduceRequest) -> ProduceResponse:
        await fake.append(node, request)
        fake.answer = fake.append
        raise BrokerConnectionError("broker 0: connection reset")

    fake.answer = lost
    async with make(fake) as producer:
        assert (await producer.send("flights", b"v")).offset == 0
        assert (await producer.send("flights", b"w")).offset == 1
    assert fake.logs[0].values == [b"v", b"w"]
    assert len(fake.requests) == 3


async def test_a_timed_out_request_is_sent_again(make: Make) -> None:
    fake = FakeCluster()

    async def silent(node: int, request: ProduceRequest) -> ProduceResponse:
        await fake.append(node, request)
        fake.answer = fake.append
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nothing wakes it")

    fake.answer = silent
    async with make(fake, request_timeout_ms=20) as producer:
        assert (await producer.send("flights", b"v")).offset == 0
    assert fake.logs[0].values == [b"v"]


async def test_five_in_flight_stay_in_order_when_the_first_is_refused(make: Make) -> None:
    fake = FakeCluster()
    arrived: list[tuple[int, ProduceRequest, asyncio.Future[ProduceResponse]]] = []

    async def hold(node: int, request: ProduceRequest) -> ProduceResponse:
        answer: asyncio.Future[ProduceResponse] = asyncio.get_running_loop().create_future()
        arrived.append((node, request, answer))
        return await answer

    async with make(fake, batch_size=0) as producer:
        await producer.send("flights", b"0")
        fake.answer = hold
        deliveries = [await producer.post("flights", b"%d" % number) for number in range(1, 9)]
        await until(lambda: len(arrived) == 5)
        fake.answer = fake.append
        refused = fake.respond(
            arrived[0][1],
            lambda data: PartitionProduceResponse(
                index=data.index, error_code=ErrorCode.NOT_ENOUGH_REPLICAS, base_offset=-1
            ),
        )
        arrived[0][2].set_result(refused)
        for node, request, answer in arrived[1:]:
            answer.set_result(await fake.append(node, request))
        assert [(await delivery).offset for delivery in deliveries] == list(range(1, 9))
    assert fake.logs[0].values == [b"%d" % number for number in range(9)]


async def test_without_idempotence_one_in_flight_keeps_order(make: Make) -> None:
    fake = FakeCluster()
    fake.fail_next(ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS)
    options: dict[str, Any] = {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1}
    async with make(fake, batch_size=0, **options) as producer:
        outcomes = await producer.send_many("flights", [b"%d" % number for number in range(6)])
    assert all(isinstance(outcome, RecordMetadata) for outcome in outcomes)
    assert fake.logs[0].values == [b"%d" % number for number in range(1, 6)], (
        "the broker acknowledged the first batch without storing it"
    )
    assert {batch.producer_id for batch in batches(fake)} == {-1}


async def test_a_broker_is_tried_with_one_request_until_it_answers(make: Make) -> None:
    fake = FakeCluster()
    gate = asyncio.Event()

    async def gated(node: int, request: ProduceRequest) -> ProduceResponse:
        await gate.wait()
        return await fake.append(node, request)

    fake.answer = gated
    async with make(fake, batch_size=0) as producer:
        deliveries = [await producer.post("flights", b"x") for _ in range(8)]
        await until(lambda: fake.requests)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(fake.requests) == 1
        gate.set()
        for delivery in deliveries:
            await delivery


async def test_batches_move_with_the_leader(make: Make) -> None:
    fake = FakeCluster(nodes=2)
    async with make(fake) as producer:
        await producer.send("flights", b"0")
        fake.down = {0}
        delivery = await producer.post("flights", b"1")
        await until(lambda: fake.invalidated)
        fake.lead(1)
        assert (await delivery).offset == 1
    assert fake.requests[-1][0] == 1


async def test_a_leader_named_in_the_response_is_used_at_once(make: Make) -> None:
    fake = FakeCluster(nodes=2)
    fake.backoff.delay = lambda attempt: 3600.0

    async def elsewhere(node: int, request: ProduceRequest) -> ProduceResponse:
        fake.answer = fake.append

        def moved(data: PartitionProduceData) -> PartitionProduceResponse:
            leader = LeaderIdAndEpoch(leader_id=1, leader_epoch=5)
            return PartitionProduceResponse(index=data.index, error_code=6, base_offset=-1, current_leader=leader)

        return fake.respond(request, moved)

    fake.answer = elsewhere
    async with make(fake) as producer:
        assert (await producer.send("flights", b"v")).offset == 0
    assert [node for node, _ in fake.requests] == [0, 1]


async def test_a_partition_without_leader_waits_for_one(make: Make) -> None:
    fake = FakeCluster()
    async with make(fake) as producer:
        await producer.partitions_for("flights")
        fake.lead(-1)
        delivery = await producer.post("flights", b"v")
        await until(lambda: "flights-0 has no leader" in fake.invalidated)
        fake.lead(0)
        assert (await delivery).offset == 0


async def test_the_delivery_timeout_names_partition_attempts_and_cause(make: Make) -> None:
    fake = FakeCluster()
    fake.down = {0}
    async with make(fake, delivery_timeout_ms=50_000) as producer:
        sending = asyncio.ensure_future(producer.send("flights", b"v"))
        await until(lambda: fake.invalidated)
        grow_old(producer)
        with pytest.raises(DeadlineError, match=r"flights-0.*delivery_timeout_ms=50000; \d+ attempts?, last: broker 0"):
            await sending


async def test_the_delivery_timeout_ends_retries_that_nothing_else_ends(make: Make) -> None:
    fake = FakeCluster()
    fake.down = {0}
    async with make(fake, delivery_timeout_ms=50) as producer:
        with pytest.raises(DeadlineError, match=r"flights-0 not acknowledged within delivery_timeout_ms=50; \d+ att"):
            await producer.send("flights", b"v")


async def test_a_too_large_batch_is_split_until_it_fits(make: Make) -> None:
    fake = FakeCluster()

    async def small(node: int, request: ProduceRequest) -> ProduceResponse:
        data = request.topic_data[0].partition_data[0]
        assert data.records is not None
        if len(data.records) > 1000:
            return fake.respond(
                request,
                lambda data: PartitionProduceResponse(
                    index=data.index, error_code=ErrorCode.MESSAGE_TOO_LARGE, base_offset=-1
                ),
            )
        return await fake.append(node, request)

    fake.answer = small
    values = [b"%03d" % number * 30 for number in range(100)]
    async with make(fake, linger_ms=5) as producer:
        outcomes = await producer.send_many("flights", [*values, b"x" * 2000])
    assert fake.logs[0].values == values
    assert [outcome.offset for outcome in outcomes[:-1] if isinstance(outcome, RecordMetadata)] == list(range(100))
    assert isinstance(outcomes[-1], MessageTooLargeError)


async def test_records_that_the_broker_rejects_fail_with_their_own_errors(make: Make) -> None:
    fake = FakeCluster()

    async def refuse(node: int, request: ProduceRequest) -> ProduceResponse:
        errors = [BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key")]
        return fake.respond(
            request,
            lambda data: PartitionProduceResponse(
                index=data.index, error_code=ErrorCode.INVALID_RECORD, base_offset=-1, record_errors=errors
            ),
        )

    fake.answer = refuse
    async with make(fake, linger_ms=5) as producer:
        one, two = await producer.send_many("flights", [b"a", b"b"])
    assert isinstance(one, InvalidRecordError)
    assert "rejected other records of its batch" in str(one)
    assert isinstance(two, InvalidRecordError)
    assert "no key" in str(two)


async def test_a_broker_that_forgot_the_producer_gets_a_new_epoch(make: Make) -> None:
    fake = FakeCluster()
    async with make(fake) as producer:
        await producer.send("flights", b"0")
        fake.fail_next(ErrorCode.UNKNOWN_PRODUCER_ID)
        await producer.send("flights", b"1")
    assert [(batch.producer_epoch, batch.base_sequence) for batch in batches(fake)] == [(0, 0), (0, 1), (1, 0)]
    assert fake.logs[0].values == [b"0", b"1"]


async def test_a_fenced_epoch_gets_a_new_producer_id(make: Make) -> None:
    fake = FakeCluster()
    async with make(fake) as producer:
        await producer.send("flights", b"0")
        fake.producer_id = 8
        fake.fail_next(ErrorCode.INVALID_PRODUCER_EPOCH)
        await producer.send("flights", b"1")
    assert [(batch.producer_id, batch.base_sequence) for batch in batches(fake)] == [(7, 0), (7, 1), (8, 0)]


async def test_a_duplicate_is_a_success_without_offset(make: Make) -> None:
    fake = FakeCluster()
    fake.fail_next(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    async with make(fake) as producer:
        assert (await producer.send("flights", b"0")).offset == -1


async def test_without_the_right_to_a_producer_id_the_error_says_what_to_do(make: Make) -> None:
    fake = FakeCluster()
    fake.producer_id = AuthorizationError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "InitProducerId")
    async with make(fake) as producer:
        with pytest.raises(AuthorizationError, match="use enable_idempotence=False"):
            await producer.send("flights", b"0")
        fake.producer_id = 7
        assert (await producer.send("flights", b"0")).offset == 0


async def test_init_producer_id_is_retried_until_it_succeeds(make: Make) -> None:
    fake = FakeCluster()
    fake.producer_id = BrokerConnectionError("no broker reachable")
    async with make(fake) as producer:
        sending = asyncio.ensure_future(producer.send("flights", b"0"))
        await until(lambda: any(batch.last_error for batch in producer._accumulator.incomplete))
        grow_old(producer)
        with pytest.raises(DeadlineError, match="0 attempts, last: no broker reachable"):
            await sending
        fake.producer_id = 7
        assert (await producer.send("flights", b"0")).offset == 0


async def test_lost_credentials_end_the_producer(make: Make) -> None:
    fake = FakeCluster()

    async def refuse(node: int, request: ProduceRequest) -> ProduceResponse:
        raise AuthenticationError("broker 0: wrong password")

    fake.answer = refuse
    async with make(fake) as producer:
        with pytest.raises(AuthenticationError, match="wrong password"):
            await producer.send("flights", b"0")
        for call in (producer.send("flights", b"1"), producer.post("flights", b"1"), producer.flush()):
            with pytest.raises(AuthenticationError, match="wrong password"):
                await call
    assert len(fake.requests) == 1


async def test_acks_0_needs_no_response(make: Make) -> None:
    fake = FakeCluster()
    async with make(fake, acks=0) as producer:
        assert await producer.send("flights", b"0", timestamp=1) == RecordMetadata("flights", 0, -1, 1)
    assert (fake.requests[0][1].acks, fake.logs[0].values) == (0, [b"0"])


async def test_a_cancelled_task_ends_the_producer_and_every_call_says_so(make: Make) -> None:
    fake = FakeCluster()
    answered = asyncio.get_running_loop().create_future()

    async def silent(node: int, request: ProduceRequest) -> ProduceResponse:
        await answered
        raise AssertionError("nothing answers")

    fake.answer = silent
    mine = asyncio.current_task()
    async with make(fake) as producer:
        pending = asyncio.create_task(producer.send("flights", b"pending"))
        await until(lambda: fake.requests)
        for task in asyncio.all_tasks() - {mine, pending}:
            if "Sender._follow" in task.get_name():
                task.cancel()
        calls: list[Awaitable[object]] = [
            pending,
            producer.send("flights", b"0"),
            producer.post("flights", b"0"),
            producer.send_batch("flights", encode([BatchRecord(0, 0, None, b"v")]), partition=0),
            producer.flush(),
            producer.partitions_for("flights"),
        ]
        for call in calls:
            with pytest.raises(ClientClosedError, match=r"its task .*Sender._follow_metadata' was cancelled"):
                await call
        with pytest.raises(ClientClosedError, match="was cancelled"):
            producer.try_post("flights", b"0")
        assert isinstance((await producer.send_many("flights", [b"0"]))[0], ClientClosedError)


async def test_once_a_broker_has_answered_a_request_takes_no_task(make: Make) -> None:
    fake = FakeCluster()
    async with make(fake) as producer:
        for number in range(5):
            assert (await producer.send("flights", b"%d" % number)).offset == number
    assert (len(fake.requests), fake.sent_nowait) == (5, 4)


async def test_a_record_sent_when_an_outcome_is_known_goes_out_in_the_same_loop_iteration(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiokproto.producer.buffer.MAX_LOOP_HOLD", float("inf"))
    fake = FakeCluster()
    send_nowait = fake.send_nowait
    seen: list[int] = []

    def watched(request: ProduceRequest, node: int, tell: Callable[[Any], None], **options: Any) -> bool:
        def observed(outcome: object) -> None:
            tell(outcome)
            asyncio.get_running_loop().call_soon(lambda: seen.append(len(fake.requests)))

        return send_nowait(request, node, observed, **options)

    monkeypatch.setattr(fake, "send_nowait", watched)
    async with make(fake) as producer:
        for _ in range(5):
            await producer.send("flights", b"v")
        await until(lambda: len(seen) == 4)
    assert seen == [3, 4, 5, 5], (
        "the response to the second is followed by the third request; nothing follows the last one"
    )


@pytest.mark.parametrize("down", [False, True])
async def test_a_connection_closed_meanwhile_is_opened_again(make: Make, down: bool) -> None:
    fake = FakeCluster()
    async with make(fake) as producer:
        assert [(await producer.send("flights", b"v")).offset for _ in range(2)] == [0, 1]
        fake.idle = True
        if down:
            fake.down = {0}
        sending = asyncio.ensure_future(producer.send("flights", b"v"))
        await until(lambda: len(fake.requests) >= 3)
        fake.down = set()
        assert (await sending).offset == 2
        assert (await producer.send("flights", b"v")).offset == 3
    assert len(fake.logs[0].values) == 4
    assert fake.sent_nowait == 2, (
        "the second and the last: until a broker has responded again, each request waits in a task"
    )


async def test_no_record_is_lost_with_a_connection_that_breaks_while_it_is_written_to(make: Make) -> None:
    fake = FakeCluster()
    async with make(fake) as producer:
        await producer.send("flights", b"0")
        fake.down = {0}
        sending = [asyncio.ensure_future(producer.send("flights", b"%d" % number)) for number in (1, 2, 3)]
        await until(lambda: len(fake.requests) >= 2)
        fake.down = set()
        await asyncio.gather(*sending)
    assert fake.logs[0].values == [b"0", b"1", b"2", b"3"]


async def test_a_producer_id_given_up_between_two_requests_of_a_drain_holds_back_the_second(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would be sent without a sequence number, and could be stored twice."""
    fake = FakeCluster()
    fake.producer_epoch = 0x7FFF
    send_nowait = fake.send_nowait

    def refuses(*_: object, **__: object) -> bool:
        monkeypatch.setattr(fake, "send_nowait", send_nowait)
        fake.producer_id, fake.producer_epoch = 8, 0
        raise EncodeError("cannot be carried")

    async with make(fake, batch_size=0) as producer:
        await producer.send("flights", b"0")
        monkeypatch.setattr(fake, "send_nowait", refuses)
        broken, good = await producer.post("flights", b"1"), await producer.post("flights", b"2")
        with pytest.raises(EncodeError):
            await broken
        assert (await good).offset == 1
    numbers = [(batch.producer_id, batch.producer_epoch, batch.base_sequence) for batch in batches(fake)]
    assert numbers == [(7, 0x7FFF, 0), (8, 0, 0)]


async def test_a_partition_missing_from_the_response_is_sent_again(make: Make) -> None:
    fake = FakeCluster()

    async def empty(node: int, request: ProduceRequest) -> ProduceResponse:
        fake.answer = fake.append
        return ProduceResponse(responses=[])

    fake.answer = empty
    async with make(fake) as producer:
        assert (await producer.send("flights", b"0")).offset == 0


class _Bug:
    def __iter__(self) -> Any:
        raise RuntimeError("a bug")


async def _answers_bug(*_: object) -> ProduceResponse:
    response = ProduceResponse(responses=[])
    response.responses = cast("Any", _Bug())
    return response


async def _bug(*_: object) -> ProduceResponse:
    raise RuntimeError("a bug")


@pytest.mark.parametrize(
    ("bug", "later"),
    [(_bug, False), (_answers_bug, False), (_answers_bug, True)],
    ids=["in a task", "in the response of a task", "in a response as it is read"],
)
async def test_a_failed_sender_fails_pending_and_later_calls_with_the_cause(
    make: Make, caplog: pytest.LogCaptureFixture, bug: Any, later: bool
) -> None:
    fake = FakeCluster()
    async with make(fake) as producer:
        if later:
            await producer.send("flights", b"0")
        fake.answer = bug
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: producer.send("flights", b"0"),
            lambda: producer.post("flights", b"0"),
            lambda: producer.flush(),
        ]
        for call in calls:
            with pytest.raises(ClientClosedError, match=r"the producer has failed.*a bug") as raised:
                await call()
            assert isinstance(raised.value.__cause__, RuntimeError)
    assert "the producer has failed: a bug\n" in caplog.text

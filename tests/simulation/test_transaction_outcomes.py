"""A transaction reports its real outcome, whichever task asks, how often, and in which order."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest

from aiokproto import Producer
from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.codec.messages.end_txn import EndTxnRequest
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.codec.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from aiokproto.codec.schema import Request, Response
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    AuthorizationError,
    ClientClosedError,
    ConfigurationError,
    DeadlineError,
    FencedError,
    KafkaError,
    TransactionAbortedError,
    TransactionOutcomeUnknownError,
)
from aiokproto.producer import PreparedTransaction, TransactionStatus
from tests.simulation.environment import check_no_task_is_left
from tests.simulation.one_producer import V1, abortable_then_silent, both, fail_a_record, make, run, visible, write
from tests.simulation.test_prepared_transactions import two_phase


@both
def test_an_end_in_flight_at_the_deadline_ends_no_later_transaction(release: str | None) -> None:
    """The call's deadline comes before the request's."""

    async def program(cluster: Cluster, producer: Producer) -> None:
        late = asyncio.Event()

        async def first_is_late(call: RequestInfo, serve: Serve) -> Response | None:
            await late.wait()
            return await serve(call.request)

        txn = await producer.transaction().__aenter__()
        await txn.send("t", b"first", partition=0)
        with cluster.faults.intercept(EndTxnRequest, first_is_late, times=1):
            with pytest.raises(TransactionOutcomeUnknownError):
                await txn.commit()
            producer._cluster.pool.disconnect(0, "main")
            await txn.commit()
        txn = await producer.transaction().__aenter__()
        await txn.send("t", b"aborted", partition=0)
        late.set()
        await asyncio.sleep(1)
        await txn.abort()
        assert visible(cluster) == [b"first"]

    run(program, release, request_timeout_ms=60_000)


@both
@pytest.mark.parametrize("lost", ["request", "response"])
@pytest.mark.parametrize("by", ["the same call", "the next transaction"])
def test_a_commit_in_doubt_is_repeated_until_it_is_confirmed(release: str | None, lost: str, by: str) -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        txn = await producer.transaction().__aenter__()
        await txn.send("t", b"v", partition=0)
        with (
            cluster.faults.drop(EndTxnRequest, lost, times=10),  # type: ignore[arg-type]
            pytest.raises(TransactionOutcomeUnknownError),
        ):
            await txn.commit()
        if by == "the same call":
            await txn.commit()
            assert txn.status is TransactionStatus.COMMITTED
        await write(producer, b"next")
        assert visible(cluster) == [b"v", b"next"]

    run(program, release)


@both
def test_a_commit_that_was_cancelled_and_refused_is_not_called_committed(release: str | None) -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        txn = await producer.transaction().__aenter__()
        await txn.send("t", b"v", partition=0)
        with cluster.faults.intercept(EndTxnRequest, abortable_then_silent):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(txn.commit(), 0.1)
            assert txn.status.name == "COMMITTING"
            await asyncio.sleep(10)
        with pytest.raises(TransactionAbortedError, match="TRANSACTION_ABORTABLE"):
            await txn.commit()
        assert txn.status is TransactionStatus.ABORTED
        await write(producer, b"next")
        assert visible(cluster) == [b"next"]

    run(program, release)


@pytest.mark.parametrize("decision", ["commit", "abort"])
@pytest.mark.parametrize("then", ["commit", "abort"])
@pytest.mark.parametrize("later", [False, True], ids=["alone", "another open"])
def test_a_transaction_that_was_completed_elsewhere_decides_no_more(decision: str, then: str, later: bool) -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        async with producer:
            async with producer.transaction() as txn:
                await txn.send("t", b"v", partition=0)
                state = await txn.prepare()
            await producer.complete_transaction(state if decision == "commit" else None)
            other = producer.transaction()
            if later:
                await other.__aenter__()
                await other.send("t", b"w", partition=0)
            if then == "commit":
                with pytest.raises(ConfigurationError, match="complete_transaction"):
                    await txn.commit()
            elif decision == "commit":
                with pytest.raises(ConfigurationError, match="complete_transaction"):
                    await txn.abort()
            else:
                # The transaction is already aborted.
                await txn.abort()
            if later:
                await other.commit()
            stats = producer.stats()
            assert stats.transactions_committed == (decision == "commit") + later
            assert stats.transactions_aborted == (decision == "abort")
        assert visible(cluster) == ([b"v"] if decision == "commit" else []) + ([b"w"] if later else [])

    two_phase(program)


def test_no_two_prepared_transactions_have_the_same_name() -> None:
    """This holds after an empty one, too: the decision about that would commit the next one, which has no decision."""

    async def program(cluster: Cluster, producer: Producer) -> None:
        names = []
        async with producer:
            for values in ([], [b"a"], [], [], [b"b"]):
                async with producer.transaction() as txn:
                    for value in values:
                        await txn.send("t", value, partition=0)
                    names.append(await txn.prepare())
                    await txn.commit()
        assert len(set(names)) == len(names)
        assert visible(cluster) == [b"a", b"b"]

    two_phase(program)


def test_the_text_of_a_decision_is_no_decision() -> None:
    """The text would equal no transaction, and abort the one that it names."""

    async def program(cluster: Cluster, producer: Producer) -> None:
        async with producer:
            async with producer.transaction() as txn:
                await txn.send("t", b"v", partition=0)
                state = await txn.prepare()
            with pytest.raises(ConfigurationError, match=r"PreparedTransaction\.parse"):
                await producer.complete_transaction(str(state))  # type: ignore[arg-type]
            assert await producer.complete_transaction(PreparedTransaction.parse(str(state)))
        assert visible(cluster) == [b"v"]

    two_phase(program)


def test_a_decision_that_was_begun_is_not_reversed() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        async with producer:
            async with producer.transaction() as txn:
                await txn.send("t", b"v", partition=0)
                state = await txn.prepare()
            with cluster.faults.delay(EndTxnRequest, 1.0):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(producer.complete_transaction(state), 0.1)
                with pytest.raises(ConfigurationError, match="being committed"):
                    await producer.complete_transaction(None)
                assert await producer.complete_transaction(state)
        assert visible(cluster) == [b"v"]

    two_phase(program)


@both
def test_a_producer_whose_first_request_was_lost_starts_without_another_epoch(release: str | None) -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        with cluster.faults.drop(InitProducerIdRequest, "response", times=1):
            successor = make(cluster)
            await successor.start()
        with cluster.faults.watch(InitProducerIdRequest) as requests:
            await write(successor, b"v")
        await successor.close()
        assert requests.count == 0
        assert visible(cluster) == [b"v"]

    run(program, release)


def test_a_coordinator_that_is_down_when_the_epoch_is_bumped_does_not_end_the_producer() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        with cluster.faults.fail(ProduceRequest, ErrorCode.INVALID_RECORD):
            txn = await producer.transaction().__aenter__()
            await txn.post("t", b"refused", partition=0)
            await asyncio.sleep(0.1)
        with cluster.faults.drop(InitProducerIdRequest, "request", times=100), pytest.raises(DeadlineError):
            await txn.abort()
        await cluster.stop_broker(0)
        await asyncio.sleep(1)
        with pytest.raises(DeadlineError):
            await write(producer, b"no broker")
        await cluster.start_broker(0)
        await write(producer, b"next")
        assert visible(cluster) == [b"next"]

    run(program, V1)


@pytest.mark.parametrize(
    ("code", "fatal"),
    [(ErrorCode.PRODUCER_FENCED, FencedError), (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, AuthorizationError)],
)
def test_a_commit_that_is_confirmed_returns_whatever_becomes_of_the_next_epoch(
    code: ErrorCode, fatal: type[KafkaError]
) -> None:
    """Its first request had no response. A fenced producer has failed, but an ACL can be granted."""

    async def program(cluster: Cluster, producer: Producer) -> None:
        with cluster.faults.fail(InitProducerIdRequest, code), cluster.faults.drop(EndTxnRequest, "response", times=1):
            txn = await producer.transaction().__aenter__()
            await txn.send("t", b"v", partition=0)
            await txn.commit()
            assert txn.status is TransactionStatus.COMMITTED
            with pytest.raises(fatal):
                await write(producer, b"refused")
        if fatal is FencedError:
            with pytest.raises(FencedError):
                await producer.flush()
        else:
            await write(producer, b"next")
        assert visible(cluster) == ([b"v"] if fatal is FencedError else [b"v", b"next"])

    run(program, V1)


@both
@pytest.mark.parametrize("api", [ProduceRequest, EndTxnRequest])
def test_every_call_after_the_end_says_why_the_transaction_was_aborted(
    release: str | None, api: type[Request[Any]]
) -> None:
    code = ErrorCode.INVALID_RECORD if api is ProduceRequest else ErrorCode.TRANSACTION_ABORTABLE

    async def program(cluster: Cluster, producer: Producer) -> None:
        txn = await producer.transaction().__aenter__()
        with cluster.faults.fail(api, code, times=1):
            await txn.post("t", b"v", partition=0)
            for _ in range(2):
                with pytest.raises(TransactionAbortedError, match=code.name):
                    await txn.commit()
        for call in (txn.post("t", b"w"), txn.send_offsets({("t", 0): 1}, "g")):
            with pytest.raises(TransactionAbortedError, match=code.name):
                await call
        await txn.abort()

    run(program, release)


def test_a_failed_transaction_is_called_aborted_even_if_the_next_epoch_fails() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        with cluster.faults.fail(InitProducerIdRequest, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED):
            await fail_a_record(cluster, producer)
        await write(producer, b"next")
        assert visible(cluster) == [b"next"]

    run(program, V1)


@both
@pytest.mark.parametrize("timeout", [None, 0.0], ids=["waiting", "at once"])
def test_closing_during_a_commit_aborts_once_and_leaves_no_task(release: str | None, timeout: float | None) -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        with cluster.faults.delay(ProduceRequest, 1.0):
            txn = await producer.transaction().__aenter__()
            await txn.post("t", b"v", partition=0)
            committing = asyncio.create_task(txn.commit())
            await asyncio.sleep(0.1)
            with pytest.raises(DeadlineError) if timeout == 0.0 else nullcontext():
                await producer.close(timeout)
            with pytest.raises(KafkaError):
                await committing
        assert producer.stats().transactions_aborted == (timeout is None)
        check_no_task_is_left()
        async with make(cluster):
            pass
        assert visible(cluster) == []

    run(program, release)


@both
def test_offsets_that_are_refused_during_an_abort_say_why(release: str | None) -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        txn = await producer.transaction().__aenter__()
        await txn.send("t", b"v", partition=0)

        async def refuse(call: RequestInfo, serve: Serve) -> Response | None:
            response = await serve(call.request)
            assert isinstance(response, TxnOffsetCommitResponse)
            response.topics[0].partitions[0].error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            await asyncio.sleep(1)
            return response

        with cluster.faults.intercept(TxnOffsetCommitRequest, refuse):
            sending = asyncio.create_task(txn.send_offsets({("t", 0): 1}, "g"))
            await asyncio.sleep(0.1)
            await txn.abort()
            with pytest.raises(TransactionAbortedError, match="GROUP_AUTHORIZATION_FAILED"):
                await sending

    run(program, release)


@both
def test_closing_while_a_transaction_starts_starts_none(release: str | None) -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        txn = producer.transaction()
        # The producer has to connect to ask the coordinator for the transaction version.
        producer._cluster.pool.disconnect(0, "main")
        task = asyncio.create_task(txn.__aenter__())
        await asyncio.sleep(0)
        await producer.close()
        with pytest.raises(ClientClosedError):
            await task
        stats = producer.stats()
        assert stats.transactions_committed == stats.transactions_aborted == 0

    run(program, release)

"""Single guards of transactions, each in the schedule that needs it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokproto import Producer
from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.broker.transactions.transaction_metadata import ProducerIdAndEpoch
from aiokproto.codec.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from aiokproto.codec.messages.end_txn import EndTxnRequest, EndTxnResponse
from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.codec.messages.txn_offset_commit import TxnOffsetCommitRequest
from aiokproto.codec.schema import Request, Response
from aiokproto.consumer.start_lookup import FormerPosition, ResetReason
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    BrokerError,
    FencedError,
    KafkaError,
    TransactionAbortedError,
    TransactionOutcomeUnknownError,
)
from aiokproto.producer import TransactionStatus
from aiokproto.simulation import Simulation
from tests.simulation.one_producer import (
    V1,
    abortable_then_silent,
    both,
    committed_offset,
    fail_a_record,
    make,
    new_session,
    run,
    skip_epochs,
    visible,
    write,
)
from tests.simulation.transaction_log import committed_values

# ---- timeouts


def test_after_the_transactions_timeout_the_commit_aborts_and_the_next_transaction_begins() -> None:
    """The coordinator answers INVALID_TXN_STATE in version 2, as if a request were sent twice."""

    async def program(cluster: Cluster, producer: Producer) -> None:
        txn = await producer.transaction().__aenter__()
        await txn.send("t", b"late", partition=0)
        await asyncio.sleep(2)
        with pytest.raises(TransactionAbortedError, match="transaction_timeout_ms=1000"):
            await txn.commit()
        assert txn.status is TransactionStatus.ABORTED
        await write(producer, b"next")
        assert visible(cluster) == [b"next"]

    run(program, transaction_timeout_ms=1000)


def test_after_the_transactions_timeout_offsets_are_refused_and_the_next_transaction_starts() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        await write(producer, b"first")
        async with producer.transaction() as txn:
            await txn.send_offsets({("t", 0): 1}, "g")
        txn = await producer.transaction().__aenter__()
        await txn.send("t", b"late", partition=0)
        await asyncio.sleep(2)
        with pytest.raises(TransactionAbortedError, match="transaction_timeout_ms=1000"):
            await txn.send_offsets({("t", 0): 2}, "g")
        await txn.abort()
        async with producer.transaction() as txn:
            await txn.send_offsets({("t", 0): 3}, "g")
        assert committed_offset(cluster) == 3

    run(program, transaction_timeout_ms=1000)


# ---- the end


@both
def test_an_abort_that_the_broker_refuses_as_abortable_is_repeated(release: str | None) -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        with cluster.faults.fail(EndTxnRequest, ErrorCode.TRANSACTION_ABORTABLE, times=2):
            txn = await producer.transaction().__aenter__()
            await txn.send("t", b"v", partition=0)
            with pytest.raises(TransactionAbortedError, match="TRANSACTION_ABORTABLE"):
                await txn.commit()
        await write(producer, b"next")
        assert visible(cluster) == [b"next"]

    run(program, release)


@both
def test_a_commit_that_is_refused_and_whose_abort_is_not_confirmed_is_aborted(release: str | None) -> None:
    """The error isn't a DeadlineError, because the caller wouldn't know that none of its records is visible."""

    async def program(cluster: Cluster, producer: Producer) -> None:
        txn = await producer.transaction().__aenter__()
        await txn.send("t", b"v", partition=0)
        with cluster.faults.intercept(EndTxnRequest, abortable_then_silent):
            with pytest.raises(TransactionAbortedError, match="TRANSACTION_ABORTABLE"):
                await txn.commit()
            with pytest.raises(TransactionAbortedError):
                await txn.commit()
        await write(producer, b"next")
        assert visible(cluster) == [b"next"]

    run(program, release)


@both
def test_a_commit_whose_response_is_lost_before_the_producer_is_fenced_is_not_called_aborted(
    release: str | None,
) -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        txn = await producer.transaction().__aenter__()
        await txn.send("t", b"v", partition=0)
        with cluster.faults.drop(EndTxnRequest, "response"):
            committing = asyncio.create_task(txn.commit())
            await asyncio.sleep(3)
            async with make(cluster):
                pass
        with pytest.raises((FencedError, TransactionOutcomeUnknownError)):
            await committing
        assert txn.status is TransactionStatus.COMMITTING
        assert visible(cluster) == [b"v"], "it was committed"

    run(program, release)


@both
def test_a_commit_that_was_executed_and_is_refused_when_it_is_repeated_is_in_doubt_until_its_abort_is_answered(
    release: str | None,
) -> None:
    """Its coordinator may have lost the transaction's state, in an unclean election."""

    async def program(cluster: Cluster, producer: Producer) -> None:
        attempts = 0

        async def executed_then_refused(call: RequestInfo, serve: Serve) -> Response | None:
            nonlocal attempts
            attempts += 1
            response = await serve(call.request)
            assert isinstance(response, EndTxnResponse)
            response.error_code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
            return response if attempts == 2 else None

        txn = await producer.transaction().__aenter__()
        await txn.send("t", b"v", partition=0)
        with cluster.faults.intercept(EndTxnRequest, executed_then_refused):
            with pytest.raises(TransactionOutcomeUnknownError, match="INVALID_PRODUCER_ID_MAPPING"):
                await txn.commit()
            assert txn.status.name == "COMMITTING"
        await txn.commit()
        assert txn.status is TransactionStatus.COMMITTED
        await write(producer, b"next")
        assert visible(cluster) == [b"v", b"next"]

    run(program, release)


@both
def test_a_commit_that_was_executed_and_is_refused_when_it_is_repeated_is_not_called_aborted(
    release: str | None,
) -> None:
    """Coordinators don't contradict themselves. If one does, the producer doesn't believe it."""

    async def program(cluster: Cluster, producer: Producer) -> None:
        attempts = 0

        async def contradict(call: RequestInfo, serve: Serve) -> Response | None:
            nonlocal attempts
            attempts += 1
            await serve(call.request)
            code = ErrorCode.TRANSACTION_ABORTABLE if attempts == 2 else ErrorCode.INVALID_TXN_STATE
            response = EndTxnResponse(error_code=code)
            return None if attempts == 1 else response

        txn = await producer.transaction().__aenter__()
        await txn.send("t", b"v", partition=0)
        with (
            cluster.faults.intercept(EndTxnRequest, contradict),
            pytest.raises(BrokerError, match="TRANSACTION_ABORTABLE"),
        ):
            await txn.commit()
        assert txn.status is TransactionStatus.COMMITTING
        assert visible(cluster) == [b"v"]

    run(program, release)


@both
def test_an_unknown_server_error_is_not_a_commit(release: str | None) -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        txn = await producer.transaction().__aenter__()
        await txn.send("t", b"v", partition=0)
        with cluster.faults.fail(EndTxnRequest, ErrorCode.UNKNOWN_SERVER_ERROR):
            with pytest.raises(BrokerError, match="UNKNOWN_SERVER_ERROR"):
                await txn.commit()
            assert txn.status is TransactionStatus.COMMITTING
            for call in (txn.commit(), producer.flush(), write(producer, b"next")):
                with pytest.raises(BrokerError, match="UNKNOWN_SERVER_ERROR"):
                    await call
        async with make(cluster):
            pass
        assert visible(cluster) == []

    run(program, release)


# ---- version 1: requests that add to the transaction


def test_a_transaction_that_no_partition_could_be_added_to_ends() -> None:
    """The coordinator knows no transaction to abort, and returns INVALID_TXN_STATE."""

    async def program(cluster: Cluster, producer: Producer) -> None:
        await write(producer, b"first")
        with (
            cluster.faults.fail(AddPartitionsToTxnRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            pytest.raises(TransactionAbortedError, match="TOPIC_AUTHORIZATION_FAILED"),
        ):
            async with producer.transaction() as txn:
                await txn.post("t", b"refused", partition=0)
        await write(producer, b"next")
        assert visible(cluster) == [b"first", b"next"]

    run(program, V1)


def test_partitions_that_are_not_added_any_more_keep_nothing_busy() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        await write(producer, b"first")
        txn = await producer.transaction().__aenter__()
        with cluster.faults.delay(AddPartitionsToTxnRequest, 1.0):
            first = await txn.post("t", b"v", partition=0)
            await asyncio.sleep(0.1)
            await txn.post("t", b"w", partition=1)
            await asyncio.sleep(0.1)
            cancelled = asyncio.create_task(txn.send_offsets({("t", 0): 1}, "g"))
            await asyncio.sleep(0.1)
            cancelled.cancel()
            with pytest.raises(KafkaError):
                await first
            await asyncio.sleep(10)
        await txn.abort()

    simulation = run(program, V1)
    assert simulation.loop.turns < 2000


def test_a_batch_of_a_failed_transaction_that_is_retried_keeps_nothing_busy() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        txn = await producer.transaction().__aenter__()
        await txn.send("t", b"first", partition=0)
        with (
            cluster.faults.fail(ProduceRequest, ErrorCode.NOT_ENOUGH_REPLICAS),
            cluster.faults.delay(AddPartitionsToTxnRequest, 3.0),
        ):
            await txn.post("t", b"retried", partition=0)
            await txn.post("t", b"never added", partition=1)
            await asyncio.sleep(1)
            producer._transactions.fail(KafkaError("doubt"))  # type: ignore[union-attr]
            await asyncio.sleep(5)
        await txn.abort()

    simulation = run(program, V1)
    assert simulation.loop.turns < 3000


def test_offsets_whose_call_was_cancelled_before_it_sent_them_are_not_left_out() -> None:
    """The call waited for a partition to be added. A commit without the offsets would repeat the records."""

    async def program(cluster: Cluster, producer: Producer) -> None:
        txn = await producer.transaction().__aenter__()
        with cluster.faults.delay(AddPartitionsToTxnRequest, 1.0):
            await txn.post("t", b"v", partition=0)
            await asyncio.sleep(0.1)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(txn.send_offsets({("t", 0): 1}, "g"), 0.1)
            with pytest.raises(TransactionAbortedError, match="was cancelled"):
                await txn.commit()
        assert visible(cluster) == []

    run(program, V1)


@both
def test_offsets_that_arrive_after_their_call_was_cancelled_are_in_no_later_transaction(release: str | None) -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        arrived = asyncio.Event()

        async def late(call: RequestInfo, serve: Serve) -> Response | None:
            await arrived.wait()
            return await serve(call.request)

        await write(producer, b"first")
        txn = await producer.transaction().__aenter__()
        await txn.send("t", b"aborted", partition=0)
        with cluster.faults.intercept(TxnOffsetCommitRequest, late):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(txn.send_offsets({("t", 0): 7}, "g"), 0.5)
            await txn.abort()
            # The group of the next transaction is added as well, so the late request finds everything it needs.
            async with producer.transaction() as txn:
                await txn.send("t", b"next", partition=0)
                if release == V1:
                    await _add_group(cluster, producer)
                arrived.set()
                await asyncio.sleep(1)
        assert visible(cluster) == [b"first", b"next"]
        assert committed_offset(cluster) is None

    run(program, release)


def test_an_abort_waits_for_offsets_that_another_task_sends() -> None:
    """The next transaction has the same epoch in version 1, so the offsets would be committed with it."""

    async def main() -> None:
        config = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}
        async with (
            Cluster(2, auto_create_topics=False, config=config, as_version=V1) as cluster,
            make(cluster) as producer,
        ):
            await cluster.create_topic("t", 2)
            async with producer.transaction() as txn:
                await txn.send_offsets({("t", 0): 1}, "g")
            # This broker isn't the transaction's coordinator, because one connection has its responses in order.
            at = await cluster.move_leader("__transaction_state", 0)
            await cluster.move_leader("__consumer_offsets", 0, 1 - at)

            async def slowly(call: RequestInfo, serve: Serve) -> Response | None:
                await asyncio.sleep(1)
                return await serve(call.request)

            txn = await producer.transaction().__aenter__()
            await txn.send("t", b"aborted", partition=0)
            with cluster.faults.intercept(TxnOffsetCommitRequest, slowly, times=1):
                sending = asyncio.create_task(txn.send_offsets({("t", 0): 7}, "g"))
                await asyncio.sleep(0.5)
                await txn.abort()
            await sending
            async with producer.transaction() as txn:
                await txn.send_offsets({("t", 1): 2}, "g")
            entry = cluster._running.groups.entry("g")
            assert entry is not None
            assert {where: found.offset for where, found in entry.offsets.items()} == {("t", 0): 1, ("t", 1): 2}

    Simulation(1).run(main())


async def _add_group(cluster: Cluster, producer: Producer) -> None:
    where = cluster._running.groups.partition_of("g")
    manager = producer._transactions
    assert manager is not None
    assert manager.id.current is not None
    producer_id = ProducerIdAndEpoch(*manager.id.current)
    cluster._running.transactions.add_partitions("id", producer_id, [(where.topic, where.index)])


@both
@pytest.mark.parametrize("api", [EndTxnRequest, TxnOffsetCommitRequest])
def test_a_request_that_is_executed_again_long_after_its_retry_changes_no_later_transaction(
    release: str | None, api: type[Request[Any]]
) -> None:
    """The broker has read the request from a connection that the client has given up."""

    async def program(cluster: Cluster, producer: Producer) -> None:
        attempts, late = 0, asyncio.Event()

        async def first_is_late(call: RequestInfo, serve: Serve) -> Response | None:
            nonlocal attempts
            attempts += 1
            if attempts == 1:
                await late.wait()
            return await serve(call.request)

        with cluster.faults.intercept(api, first_is_late):
            async with producer.transaction() as txn:
                await txn.send("t", b"first", partition=0)
                await txn.send_offsets({("t", 0): 1}, "g")
            async with producer.transaction() as txn:
                await txn.send("t", b"second", partition=0)
                await txn.send_offsets({("t", 0): 2}, "g")
            assert attempts > 1
            txn = await producer.transaction().__aenter__()
            await txn.send("t", b"aborted", partition=0)
            await txn.send_offsets({("t", 0): 3}, "g")
            late.set()
            await asyncio.sleep(1)
            await txn.abort()
            assert visible(cluster) == [b"first", b"second"]
            async with producer.transaction() as txn:
                await txn.send("t", b"last", partition=0)
            assert committed_offset(cluster) == 2

    run(program, release)


@both
def test_a_call_of_an_earlier_transaction_that_ends_late_does_not_fail_the_open_one(release: str | None) -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        earlier = await producer.transaction().__aenter__()
        await earlier.send("t", b"earlier", partition=0)
        await earlier.abort()
        async with producer.transaction() as txn:
            await txn.send("t", b"open", partition=0)
            # The transaction's records are refused because it has ended.
            outcomes = await earlier.send_many("t", [b"late"], partition=0)
            assert outcomes.errors
        assert visible(cluster) == [b"open"]

    run(program, release)


# ---- epochs


@both
def test_a_producer_whose_epochs_are_exhausted_gets_another_producer_id(release: str | None) -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        assert producer._transactions is not None
        ids = producer._transactions.id
        before = ids.identity.producer.id
        skip_epochs(cluster, producer, 32764)
        for number in range(6):
            await write(producer, b"%d" % number)
            await fail_a_record(cluster, producer)
        assert ids.identity.producer.id != before
        assert visible(cluster) == [b"%d" % number for number in range(6)]

    run(program, release)


@pytest.mark.parametrize("at", range(4))
@both
def test_the_new_producer_id_is_found_when_the_response_that_has_it_is_lost(release: str | None, at: int) -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        skip_epochs(cluster, producer, 32764)
        for number in range(4):
            lost = (EndTxnRequest, InitProducerIdRequest) if number == at else ()
            with cluster.faults.drop(lost, "response", times=1):
                await write(producer, b"%d" % number)
                await fail_a_record(cluster, producer)
        assert visible(cluster) == [b"%d" % number for number in range(4)]

    run(program, release)


# ---- sessions


def test_a_batch_of_a_partition_that_was_lost_and_came_back_is_not_committed() -> None:
    """The member has joined again, so the coordinator would accept the offsets. The records are delivered again."""

    async def main() -> None:
        async with Cluster(1, auto_create_topics=False) as cluster:
            for topic in ("t", "out"):
                await cluster.create_topic(topic, 1)
            async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                await producer.send_many("t", [b"0", b"1"], partition=0)
            async with new_session(cluster) as session:
                deliveries = 0
                async for records, txn in session.batches():
                    deliveries += 1
                    if deliveries == 1:
                        with cluster.faults.fail(HeartbeatRequest, ErrorCode.UNKNOWN_MEMBER_ID, times=1):
                            await asyncio.sleep(20)
                    else:
                        session.stop()
                    for record in records:
                        await txn.post("out", record.value, partition=0)
            assert deliveries == 2
            assert committed_values(cluster, "out", 1)[0] == [b"0", b"1"]
            assert committed_offset(cluster) == 2

    Simulation(1).run(main())


def test_a_position_that_is_lost_while_a_batch_is_processed_does_not_leave_its_offset_out() -> None:
    """The log was truncated below the records that were fetched ahead. The position is looked up again, and meanwhile
    there is none."""

    async def main() -> None:
        async with Cluster(1, auto_create_topics=False) as cluster:
            for topic in ("t", "out"):
                await cluster.create_topic(topic, 1)
            async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                await producer.send_many("t", [b"1", b"2"])
            async with new_session(cluster) as session:
                assignment = session._consumer._assignment
                async for records, txn in session.batches():
                    await txn.post("out", b"%d" % len(records))
                    former = FormerPosition(ResetReason.OUT_OF_RANGE, 2, 0)
                    for cursor in list(assignment.cursors.values()):
                        assignment.reset(cursor, -2, former)
                    session.stop()
            assert committed_offset(cluster) == 2

    Simulation(1).run(main())

"""Two-phase commit (KIP-939): a prepared transaction waits for its decision, even if its producers fail."""

from __future__ import annotations

import asyncio

import pytest

from aiokproto import Producer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.end_txn import EndTxnRequest
from aiokproto.errors import (
    BrokerError,
    ConfigurationError,
    FencedError,
    KafkaError,
    TransactionOutcomeUnknownError,
    UnsupportedVersionError,
)
from aiokproto.producer import TransactionStatus
from aiokproto.simulation import Simulation
from tests.simulation.one_producer import Program, committed_offset, make, run, skip_epochs, visible, write
from tests.simulation.transaction_log import hanging


def two_phase(program: Program, *, allowed: bool = True, unstable: bool = True) -> None:
    async def main() -> None:
        config = {"transaction.two.phase.commit.enable": allowed, "unstable.api.versions.enable": unstable}
        async with Cluster(1, auto_create_topics=False, config=config) as cluster:
            await cluster.create_topic("t", 2)
            await program(cluster, make(cluster, transaction_two_phase_commit_enable=True))

    Simulation(1).run(main())


@pytest.mark.parametrize("decision", ["commit", "abort"])
@pytest.mark.parametrize("restarts", range(4))
def test_a_prepared_transaction_outlives_its_producers(decision: str, restarts: int) -> None:
    commit = decision == "commit"

    async def program(cluster: Cluster, producer: Producer) -> None:
        async with producer, producer.transaction() as txn:
            await txn.send("t", b"v", partition=0)
            state = await txn.prepare()
            with pytest.raises(ConfigurationError, match="was prepared"):
                await txn.post("t", b"w", partition=0)
        for _ in range(restarts):
            # This is longer than any timeout.
            await asyncio.sleep(10_000)
            async with make(cluster, transaction_two_phase_commit_enable=True) as successor:
                assert successor.prepared_transaction == state
                with pytest.raises(ConfigurationError, match="was prepared and has no decision"):
                    await write(successor, b"x")
        assert hanging(cluster, "t", 2)
        async with make(cluster, transaction_two_phase_commit_enable=True) as last:
            assert await last.complete_transaction(state if commit else None) is commit
            assert last.prepared_transaction is None
            assert not await last.complete_transaction(state), "the second call does nothing"
            stats = last.stats()
            assert (stats.transactions_committed, stats.transactions_aborted) == ((1, 0) if commit else (0, 1))
            await write(last, b"next")
        assert visible(cluster) == ([b"v"] if commit else []) + [b"next"]
        assert not hanging(cluster, "t", 2)

    two_phase(program)


def test_the_producer_that_has_prepared_a_transaction_decides_about_it() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        async with producer:
            for value, commit in ((b"a", True), (b"b", False), (b"c", True)):
                async with producer.transaction() as txn:
                    await txn.send("t", value, partition=0)
                    await txn.prepare()
                    await (txn.commit() if commit else txn.abort())
                    with pytest.raises(KafkaError, match="the transaction was committed" if commit else "was aborted"):
                        await txn.commit()
            async with producer.transaction() as txn:
                await txn.send("t", b"d", partition=0)
                await txn.send_offsets({("t", 0): 4}, "g")
                state = await txn.prepare()
            assert committed_offset(cluster) is None
            assert await producer.complete_transaction(state)
            await write(producer, b"not prepared")
        assert visible(cluster) == [b"a", b"c", b"d", b"not prepared"]
        assert committed_offset(cluster) == 4

    two_phase(program)


@pytest.mark.parametrize("commit", [True, False])
def test_a_decision_about_a_prepared_transaction_is_its_status(commit: bool) -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        async with producer:
            async with producer.transaction() as txn:
                await txn.send("t", b"v", partition=0)
                state = await txn.prepare()
                with pytest.raises(ConfigurationError, match="was prepared and has no decision"):
                    await producer.transaction().__aenter__()
            assert txn.status is TransactionStatus.PREPARED
            await producer.complete_transaction(state if commit else None)
            assert txn.status is (TransactionStatus.COMMITTED if commit else TransactionStatus.ABORTED)
            with pytest.raises(ConfigurationError, match="has decided"):
                await txn.commit()

    two_phase(program)


def test_a_transaction_that_was_not_prepared_is_aborted_by_the_decision_about_another() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        async with producer:
            async with producer.transaction() as txn:
                await txn.send("t", b"first", partition=0)
                state = await txn.prepare()
                await txn.commit()
            txn = await producer.transaction().__aenter__()
            await txn.send("t", b"open", partition=0)
            await producer._cluster.close(0)
        async with make(cluster, transaction_two_phase_commit_enable=True) as successor:
            assert successor.prepared_transaction not in (None, state)
            assert not await successor.complete_transaction(state)
        assert visible(cluster) == [b"first"]
        assert not hanging(cluster, "t", 2)

    two_phase(program)


def test_a_producer_that_was_replaced_cannot_decide_any_more() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        async with producer, producer.transaction() as txn:
            await txn.send("t", b"v", partition=0)
            await txn.prepare()
            async with make(cluster, transaction_two_phase_commit_enable=True) as successor:
                with pytest.raises(FencedError):
                    await txn.abort()
                assert await successor.complete_transaction(successor.prepared_transaction)
        assert visible(cluster) == [b"v"]

    two_phase(program)


@pytest.mark.parametrize("commit", [True, False])
def test_an_empty_transaction_of_a_replaced_producer_does_not_end_its_successors_transaction(commit: bool) -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        async with producer:
            empty = await producer.transaction().__aenter__()
            await empty.prepare()
            async with make(cluster, transaction_two_phase_commit_enable=True) as successor:
                txn = await successor.transaction().__aenter__()
                await txn.send("t", b"v", partition=0)
                await txn.prepare()
                try:
                    await (empty.commit() if commit else empty.abort())
                except FencedError:
                    assert not commit, "it is known what has become of nothing"
                with pytest.raises(FencedError):
                    await producer.transaction().__aenter__()
                await txn.commit()
        assert visible(cluster) == [b"v"]

    two_phase(program)


def test_a_decision_whose_response_is_lost_is_repeated() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        async with producer, producer.transaction() as txn:
            await txn.send("t", b"v", partition=0)
            state = await txn.prepare()
        async with make(cluster, transaction_two_phase_commit_enable=True) as successor:
            with (
                cluster.faults.drop(EndTxnRequest, "response", times=10),
                pytest.raises(TransactionOutcomeUnknownError),
            ):
                await successor.complete_transaction(state)
            assert await successor.complete_transaction(state)
        assert visible(cluster) == [b"v"]

    two_phase(program)


def test_a_prepared_transaction_of_the_last_epoch_is_decided_under_another_producer_id() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        async with producer:
            skip_epochs(cluster, producer, 32765)
            txn = await producer.transaction().__aenter__()
            await txn.send("t", b"v", partition=0)
            state = await txn.prepare()
        for _ in range(2):
            async with make(cluster, transaction_two_phase_commit_enable=True) as successor:
                assert successor.prepared_transaction == state
        async with make(cluster, transaction_two_phase_commit_enable=True) as successor:
            assert await successor.complete_transaction(state)
            await write(successor, b"next")
        assert visible(cluster) == [b"v", b"next"]
        assert not hanging(cluster, "t", 2)

    two_phase(program)


@pytest.mark.parametrize(
    ("allowed", "unstable", "error", "text"),
    [
        (True, False, UnsupportedVersionError, r"KIP-939.*needs InitProducerId version 6; the coordinator has 5"),
        (False, True, BrokerError, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    ],
)
def test_brokers_without_two_phase_commit_are_named(
    allowed: bool, unstable: bool, error: type[KafkaError], text: str
) -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        with pytest.raises(error, match=text):
            await producer.start()

    two_phase(program, allowed=allowed, unstable=unstable)


def test_without_two_phase_commit_nothing_can_be_prepared() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        async with producer.transaction() as txn:
            with pytest.raises(ConfigurationError, match="transaction_two_phase_commit_enable"):
                await txn.prepare()
        with pytest.raises(ConfigurationError, match="transaction_two_phase_commit_enable"):
            await producer.complete_transaction(None)
        assert producer.prepared_transaction is None

    run(program)

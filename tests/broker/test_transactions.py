"""Transactions: states of a transactional id, a log's producer state, and the coordinator across restarts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.broker import Broker, Cluster
from aiokproto.broker.clock import VirtualClock
from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.groups.coordinator import GroupCoordinator
from aiokproto.broker.groups.pending_offsets import PendingTransactionalOffsets
from aiokproto.broker.log import Log, LogConfig
from aiokproto.broker.log.producer_state import ProducerStateManager
from aiokproto.broker.metadata.cluster_state import ClusterState, Node
from aiokproto.broker.transactions.coordinator import TransactionCoordinator
from aiokproto.broker.transactions.records import decode_key, decode_value, encode_key, encode_value
from aiokproto.broker.transactions.transaction_metadata import (
    EPOCH_BUMP,
    LAST_EPOCH,
    MAX_EPOCH,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionStatus,
)
from aiokproto.codec.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from aiokproto.codec.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from aiokproto.codec.messages.end_txn import EndTxnRequest
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.records import BatchBuilder
from aiokproto.records.control import encode_end_transaction
from tests.broker.test_transaction_model import Clock
from tests.broker.wire import NOW, Wire, connect, produce_request

OPEN = TransactionMetadata(
    "tx",
    7,
    1000,
    producer_epoch=3,
    status=TransactionStatus.ONGOING,
    partitions=frozenset({("t", 0)}),
    started=NOW,
    updated=NOW,
)
WHO = ProducerIdAndEpoch(7, 3)
LATER = NOW + 500


def fresh_id() -> int:
    return 1000


def no_id() -> int:
    raise AssertionError("no new producer id is due")


def code_of(act: Callable[[], object]) -> ErrorCode:
    with pytest.raises(BrokerError) as caught:
        act()
    return caught.value.code


# ---- the life of a transactional id


def test_the_first_producer_has_epoch_0() -> None:
    known = TransactionMetadata("tx", 7, 1000).initialized(2000, None, no_id, LATER)
    assert (known.identity, known.timeout_ms, known.status) == ((7, 0), 2000, TransactionStatus.EMPTY)


def test_the_next_producer_aborts_the_ongoing_transaction_and_retries() -> None:
    fenced = OPEN.initialized(2000, None, no_id, LATER)
    assert (fenced.status, fenced.producer_epoch, fenced.partitions) == (
        TransactionStatus.PREPARE_ABORT,
        4,
        OPEN.partitions,
    )
    assert code_of(lambda: fenced.initialized(2000, None, no_id, LATER)) is ErrorCode.CONCURRENT_TRANSACTIONS
    after = fenced.completed(LATER).initialized(2000, None, no_id, LATER)
    assert after.identity == (7, 5)


@pytest.mark.parametrize(
    ("known", "identity"),
    [
        (None, (1000, 0)),
        (ProducerIdAndEpoch(7, LAST_EPOCH), (1000, 0)),
        (ProducerIdAndEpoch(7, LAST_EPOCH - 1), None),
        (ProducerIdAndEpoch(8, LAST_EPOCH), None),
    ],
)
def test_after_the_last_epoch_another_producer_id_follows(
    known: ProducerIdAndEpoch | None, identity: tuple[int, int] | None
) -> None:
    spent = replace(OPEN, status=TransactionStatus.COMPLETE_COMMIT, producer_epoch=LAST_EPOCH)
    if identity is None:
        assert code_of(lambda: spent.initialized(1000, known, fresh_id, LATER)) is ErrorCode.PRODUCER_FENCED
        return
    rotated = spent.initialized(1000, known, fresh_id, LATER)
    assert (rotated.identity, rotated.previous_producer_id) == (identity, 7)
    if known is not None:
        assert rotated.initialized(1000, known, no_id, LATER).identity == identity, "the answer was lost"


def test_a_transaction_with_the_last_epoch_is_followed_by_another_producer_id() -> None:
    last = replace(OPEN, producer_epoch=LAST_EPOCH)
    who = ProducerIdAndEpoch(7, LAST_EPOCH)
    ending = last.ended(who, True, EPOCH_BUMP, fresh_id, LATER)
    assert (ending.producer_id, ending.producer_epoch, ending.identity) == (7, MAX_EPOCH, (1000, 0))
    assert code_of(lambda: ending.with_partitions(ending.identity, [("t", 1)], 2, LATER)) is (
        ErrorCode.CONCURRENT_TRANSACTIONS
    )
    done = ending.completed(LATER)
    assert (done.identity, done.previous_producer_id, done.status) == ((1000, 0), 7, TransactionStatus.COMPLETE_COMMIT)
    assert done.ended(who, True, EPOCH_BUMP, no_id, LATER) is done
    assert code_of(lambda: done.ended(who, False, EPOCH_BUMP, no_id, LATER)) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [0, EPOCH_BUMP])
def test_ending(commit: bool, version: int) -> None:
    ending = OPEN.ended(WHO, commit, version, no_id, LATER)
    assert ending.status is (TransactionStatus.PREPARE_COMMIT if commit else TransactionStatus.PREPARE_ABORT)
    assert ending.producer_epoch == (4 if version else 3)
    assert code_of(lambda: ending.ended(WHO, commit, version, no_id, LATER)) is ErrorCode.CONCURRENT_TRANSACTIONS
    done = ending.completed(LATER)
    assert (done.commits, done.partitions) == (commit, frozenset())
    assert done.ended(WHO, commit, version, no_id, LATER) is done
    assert code_of(lambda: done.ended(WHO, not commit, version, no_id, LATER)) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(
    ("who", "code"),
    [
        ((8, 3), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ((7, 2), ErrorCode.PRODUCER_FENCED),
        ((7, 4), ErrorCode.PRODUCER_FENCED),
    ],
)
def test_other_producers_are_refused(who: tuple[int, int], code: ErrorCode) -> None:
    other = ProducerIdAndEpoch(*who)
    assert code_of(lambda: OPEN.with_partitions(other, [("t", 1)], 0, LATER)) is code
    assert code_of(lambda: OPEN.verify(other, [("t", 0)])) is code
    for version in (0, EPOCH_BUMP):
        assert code_of(partial(OPEN.ended, other, True, version, no_id, LATER)) is code


def test_adding_partitions_continues_or_begins_a_transaction() -> None:
    assert OPEN.with_partitions(WHO, [("t", 0)], 0, LATER) is OPEN
    more = OPEN.with_partitions(WHO, [("t", 1)], 0, LATER)
    assert (more.partitions, more.started) == (frozenset({("t", 0), ("t", 1)}), NOW)
    done = OPEN.ended(WHO, True, 0, no_id, LATER).completed(LATER)
    again = done.with_partitions(WHO, [("u", 0)], 0, LATER)
    assert (again.partitions, again.started, again.deadline) == (frozenset({("u", 0)}), LATER, LATER + 1000)
    assert OPEN.verify(WHO, [("t", 0), ("u", 0)]) == [("u", 0)]


statuses = st.sampled_from(
    [
        status
        for status in TransactionStatus
        if status not in (TransactionStatus.DEAD, TransactionStatus.PREPARE_EPOCH_FENCE)
    ]
)


@given(
    st.builds(
        TransactionMetadata,
        st.text(min_size=1),
        st.integers(0, 2**63 - 1),
        st.integers(1, 2**31 - 1),
        producer_epoch=st.integers(0, MAX_EPOCH),
        status=statuses,
        partitions=st.frozensets(st.tuples(st.text(min_size=1), st.integers(0, 2**31 - 1))),
        updated=st.integers(0, 2**63 - 1),
        started=st.integers(-1, 2**63 - 1),
        previous_producer_id=st.integers(-1, 2**63 - 1),
        next_producer_id=st.integers(-1, 2**63 - 1),
        client_version=st.sampled_from([0, 2]),
    )
)
def test_a_record_has_the_whole_state(transaction: TransactionMetadata) -> None:
    if transaction.status is TransactionStatus.EMPTY:
        transaction = replace(transaction, partitions=frozenset())
    name = decode_key(encode_key(transaction.transactional_id))
    assert decode_value(name, encode_value(transaction)) == transaction


# ---- a log's producer state


def batch(producer_id: int, sequence: int, epoch: int = 0, transactional: bool = True) -> bytes:
    builder = BatchBuilder(
        producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=transactional
    )
    builder.append(NOW, b"k", b"v")
    return bytes(builder.close())


def marker(producer_id: int, commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> bytes:
    return bytes(
        encode_end_transaction(
            committed=commit,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=NOW,
        )
    )


def new_log(path: Path) -> Log:
    return Log(path / "t-0", LogConfig(), NOW)


def test_the_last_stable_offset_is_where_the_oldest_open_transaction_begins(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for step, stable in [
        (batch(1, 0), 0),
        (batch(2, 0), 0),
        (marker(1, commit=True), 1),
        (batch(3, 0, transactional=False), 1),
        (batch(1, 1), 1),
        (marker(2, commit=False), 4),
        (marker(1, commit=True), 7),
    ]:
        log.append(step, 0, NOW)
        assert log.last_stable_offset == stable
        log.close_handlers()
        log = new_log(tmp_path)
        assert log.last_stable_offset == stable, "read again"
    found = log.aborted_transactions(0, log.end_offset)
    assert [(each.producer_id, each.first_offset, each.last_offset, each.last_stable_offset) for each in found] == [
        (2, 1, 5, 4)
    ]
    assert log.aborted_transactions(6, log.end_offset) == log.aborted_transactions(0, 1) == []
    log.close_handlers()


def test_markers_fence(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(batch(1, 0, epoch=5), 0, NOW)
    assert code_of(lambda: log.append(marker(1, True, epoch=4), 0, NOW)) is ErrorCode.INVALID_PRODUCER_EPOCH
    log.append(marker(1, True, epoch=6, coordinator_epoch=2), 0, NOW)
    assert code_of(lambda: log.append(batch(1, 1, epoch=5), 0, NOW)) is ErrorCode.INVALID_PRODUCER_EPOCH
    older = marker(1, True, epoch=6, coordinator_epoch=1)
    assert code_of(lambda: log.append(older, 0, NOW)) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert code_of(lambda: log.append(batch(1, 1, epoch=6), 0, NOW)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.append(batch(1, 0, epoch=6), 0, NOW)
    log.close_handlers()


def test_sequences_continue_after_a_marker_of_the_same_epoch(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(batch(1, 0), 0, NOW)
    log.append(marker(1, commit=True), 0, NOW)
    assert log.append(batch(1, 0), 0, NOW).duplicate
    assert not log.append(batch(1, 1), 0, NOW).duplicate
    outside = batch(1, 2, transactional=False)
    assert code_of(lambda: log.append(outside, 0, NOW)) is ErrorCode.INVALID_TXN_STATE
    log.close_handlers()


def test_producers_with_an_open_transaction_do_not_expire(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(batch(1, 0), 0, NOW)
    log.append(batch(2, 0, transactional=False), 0, NOW)
    log.forget_producers(NOW + 1)
    assert [producer.producer_id for producer in log.producers] == [1]
    log.close_handlers()


def test_producer_state_is_restored_from_a_snapshot(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for step in (batch(2, 0), batch(1, 0, epoch=3), batch(1, 1, epoch=3), batch(3, 0), marker(3, True, epoch=1)):
        log.append(step, 0, NOW)
    restored = ProducerStateManager()
    restored.restore(reversed(log.producers.snapshot()), NOW)
    assert restored.first_unstable_offset == log.producers.first_unstable_offset == 0
    assert restored.in_transaction(1, 3)
    assert not restored.in_transaction(3, 1)
    by_id = {producer.producer_id: producer for producer in restored}
    for producer in log.producers:
        again = by_id[producer.producer_id]
        assert (again.epoch, again.last_sequence, again.coordinator_epoch, list(again.batches)[-1:]) == (
            producer.epoch,
            producer.last_sequence,
            producer.coordinator_epoch,
            list(producer.batches)[-1:],
        )
    log.close_handlers()


# ---- offsets in doubt


def test_offsets_are_pending_until_their_transaction_ends() -> None:
    pending: PendingTransactionalOffsets[int] = PendingTransactionalOffsets()
    pending.add(0, 1, "g", {("t", 0): 5, ("t", 1): 6})
    pending.add(0, 2, "g", {("t", 0): 7})
    pending.add(1, 1, "h", {("t", 0): 8})
    assert pending.of_group(0, "g") == {("t", 0), ("t", 1)}
    pending.supersede(0, "g", [("t", 1)])
    assert pending.of_group(0, "g") == {("t", 0), ("t", 1)}, "in doubt still"
    assert pending.end(0, 1) == {"g": {("t", 0): 5}}
    assert pending.end(0, 1) == {}
    assert pending.of_group(0, "g") == {("t", 0)}
    pending.drop(0)
    assert (pending.end(0, 2), pending.end(1, 1)) == ({}, {"h": {("t", 0): 8}})


# ---- the coordinator


async def begin(wire: Wire, *partitions: int, name: str = "tx", timeout_ms: int = 60_000) -> ProducerIdAndEpoch:
    """Open a transaction with a record in each of some partitions of ``t``, which this node leads."""
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms)
    answer = await wire.ask(request, 5)
    assert answer.error_code == 0, ErrorCode(answer.error_code)
    who = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
    adding = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=who.producer_id,
        v3_and_below_producer_epoch=who.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=list(partitions))],
    )
    added = (await wire.ask(adding, 3)).results_by_topic_v3_and_below[0].results_by_partition
    assert {each.partition_error_code for each in added} == {0}
    return who


async def write(wire: Wire, who: ProducerIdAndEpoch, partition: int = 0, name: str = "tx") -> ErrorCode:
    request = produce_request("t", batch(who.producer_id, 0, who.epoch), partition)
    request.transactional_id = name
    answer = await wire.ask(request, 11)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


async def end(wire: Wire, who: ProducerIdAndEpoch, commit: bool = True, name: str = "tx") -> ErrorCode:
    request = EndTxnRequest(
        transactional_id=name, producer_id=who.producer_id, producer_epoch=who.epoch, committed=commit
    )
    return ErrorCode((await wire.ask(request, 4)).error_code)


async def describe(wire: Wire, name: str = "tx") -> TransactionState:
    return (await wire.ask(DescribeTransactionsRequest(transactional_ids=[name]))).transaction_states[0]


async def test_an_open_transaction_survives_a_restart(tmp_path: Path) -> None:
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        await broker.create_topic("t")
        who = await begin(wire, 0)
        assert await write(wire, who) is ErrorCode.NONE
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        assert (await describe(wire)).transaction_state == "Ongoing"
        assert await end(wire, who) is ErrorCode.NONE
        assert (await describe(wire)).transaction_state == "CompleteCommit"
        assert await end(wire, who) is ErrorCode.NONE


async def test_a_transaction_is_aborted_at_its_timeout() -> None:
    clock = VirtualClock()
    async with Broker(clock=clock) as broker, connect(broker) as wire:
        await broker.create_topic("t")
        who = await begin(wire, 0, timeout_ms=10_000)
        assert await write(wire, who) is ErrorCode.NONE
        await clock.advance(9)
        assert (await describe(wire)).transaction_state == "Ongoing"
        await clock.advance(2)
        found = await describe(wire)
        assert (found.transaction_state, found.producer_epoch) == ("CompleteAbort", who.epoch + 1)
        assert await write(wire, who) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await end(wire, who) is ErrorCode.PRODUCER_FENCED


async def test_unused_transactional_ids_expire() -> None:
    clock = VirtualClock()
    config = {
        "transactional.id.expiration.ms": 100_000,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 10_000,
    }
    async with Broker(clock=clock, config=config) as broker, connect(broker) as wire:
        await broker.create_topic("t")
        await begin(wire, 0, name="busy", timeout_ms=900_000)
        who = await begin(wire, 0, name="idle")
        assert await end(wire, who, name="idle") is ErrorCode.NONE
        await clock.advance(90)
        assert (await describe(wire, "idle")).error_code == 0
        await clock.advance(20)
        assert (await describe(wire, "idle")).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert (await describe(wire, "busy")).transaction_state == "Ongoing"


async def test_a_partition_without_a_leader_gets_its_marker_when_it_has_one() -> None:
    config = {"transaction.state.log.min.isr": 1}
    async with Cluster(2, config=config) as cluster, connect(cluster, 0) as wire:
        await cluster.create_topic("t", 2)
        name = await name_coordinated_by(wire)
        here = 0 if cluster.leader("t", 0) == 0 else 1
        there = 1 - here
        who = await begin(wire, 0, 1, name=name)
        async with connect(cluster, 1) as other:
            assert await write(other, who, there, name) is ErrorCode.NONE
        assert await write(wire, who, here, name) is ErrorCode.NONE
        await cluster.stop_broker(1)
        assert await end(wire, who, name=name) is ErrorCode.NONE
        assert (await describe(wire, name)).transaction_state == "PrepareCommit"
        assert await end(wire, who, name=name) is ErrorCode.CONCURRENT_TRANSACTIONS
        await cluster.start_broker(1)
        assert (await describe(wire, name)).transaction_state == "CompleteCommit"


async def name_coordinated_by(wire: Wire) -> str:
    """Return a transactional id that the node at the other end coordinates."""
    for number in range(1000):
        name = f"tx-{number}"
        if (await describe(wire, name)).error_code != ErrorCode.NOT_COORDINATOR:
            return name
    raise AssertionError("a node coordinates nothing")


async def test_a_new_coordinator_loads_the_state_of_the_old_one() -> None:
    clock = VirtualClock()
    async with Cluster(2, clock=clock) as cluster, connect(cluster, 0) as old, connect(cluster, 1) as new:
        await cluster.create_topic("t", 2)
        name = await name_coordinated_by(old)
        partition = 0 if cluster.leader("t", 0) == 0 else 1
        who = await begin(old, partition, name=name)
        assert await write(old, who, partition, name) is ErrorCode.NONE
        for index in range(50):
            if cluster.leader("__transaction_state", index) == 0:
                await cluster.move_leader("__transaction_state", index)
        assert await end(old, who, name=name) is ErrorCode.NOT_COORDINATOR
        await clock.advance(0)
        assert await end(new, who, name=name) is ErrorCode.NONE
        assert (await describe(new, name)).transaction_state == "CompleteCommit"


def test_a_loading_coordinator_returns_load_in_progress(tmp_path: Path) -> None:
    clock = Clock()
    state = ClusterState(tmp_path, {0: Node(0, "h", 1), 1: Node(1, "h", 1)}, BrokerOptions({}), clock)
    state.nodes_up([0, 1])
    coordinator = TransactionCoordinator(state, GroupCoordinator(state))
    state.runtime = cast("Any", coordinator)
    known = coordinator.init_producer_id("tx", 1000, None)
    partition = coordinator.partition_of("tx")
    moved = state.move_leader(partition.topic, partition.index)
    assert code_of(lambda: coordinator.check("tx", moved)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert code_of(lambda: coordinator.transactions_of(moved)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert list(coordinator.transactions_of(1 - moved)) == [], "only the node that loads does not know all of its own"
    clock.run()
    coordinator.check("tx", moved)
    assert [each.identity for each in coordinator.transactions_of(moved)] == [known.identity]
    state.close_handlers()


async def test_a_decision_needs_min_insync_replicas() -> None:
    """It needs two of three (``transaction.state.log.min.isr``). Until then producers and timeouts have to wait."""
    clock = VirtualClock()
    async with Cluster(3, clock=clock) as cluster, connect(cluster, 0) as wire:
        await cluster.create_topic("t")
        name = await name_coordinated_by(wire)
        who = await begin(wire, 0, name=name)
        assert await write(wire, who, name=name) is ErrorCode.NONE
        await cluster.stop_broker(1)
        assert await end(wire, who, name=name) is ErrorCode.NONE
        who = await begin(wire, 0, name=name, timeout_ms=60_000)
        await cluster.stop_broker(2)
        assert await end(wire, who, name=name) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await clock.advance(70)
        assert (await describe(wire, name)).transaction_state == "Ongoing"
        await cluster.start_broker(1)
        await clock.advance(10)
        assert (await describe(wire, name)).transaction_state == "CompleteAbort"


@pytest.mark.parametrize(
    ("given", "replicas"), [({}, 3), ({"replication.factor": 2}, 2), ({"replication.factor": 9}, 3)]
)
async def test_internal_topics_have_the_configured_replication(given: dict[str, int], replicas: int) -> None:
    """They have at most as many replicas as there are brokers, because a single broker must be enough."""
    names = ("offsets.topic", "transaction.state.log")
    config = {f"{name}.{option}": value for name in names for option, value in given.items()}
    async with Cluster(3, config=config) as cluster, connect(cluster, 0) as wire:
        for kind in (0, 1):
            await wire.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["k"]))
        for name in ("__consumer_offsets", "__transaction_state"):
            (topic,) = (await wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]))).topics
            assert {len(each.replica_nodes) for each in topic.partitions} == {replicas}
            assert {each.leader_id for each in topic.partitions} == {0, 1, 2}

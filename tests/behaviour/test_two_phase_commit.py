"""Two-phase commit of transactions (KIP-939), on the embedded broker and on real Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aiokproto.broker import Broker
from aiokproto.client import Client
from aiokproto.codec.messages.describe_transactions import DescribeTransactionsRequest
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import AuthorizationError, UnsupportedVersionError
from aiokproto.producer import PreparedTransaction, Producer
from tests.behaviour.secured import Secured, as_user, revoke, rule
from tests.behaviour.transactional import COMMITTED, TRY_AGAIN, read, read_when
from tests.behaviour.waiting import until
from tests.broker.secure import TRANSACTIONAL_ID, TWO_PHASE_COMMIT, WRITE, grant
from tests.broker.wire import Wire
from tests.clusters import BehaviourCluster, EmbeddedCluster, real_cluster
from tests.conftest import ON_BOTH
from tests.kafka.plugin import TWO_PHASE
from tests.kafka.pool import KafkaPool


@pytest.fixture(params=ON_BOTH)
async def allowing(request: pytest.FixtureRequest) -> AsyncIterator[BehaviourCluster]:
    """A cluster of one broker that allows two-phase commit."""
    if request.param == "embedded":
        async with Broker(auto_create_topics=False, config=TWO_PHASE) as broker:
            yield EmbeddedCluster(broker, 1)
    else:
        pool: KafkaPool = request.getfixturevalue("kafka_pool")
        with pool.lease("two-phase") as running:
            async with real_cluster(running) as cluster:
                yield cluster


@pytest.fixture
async def client(allowing: BehaviourCluster) -> AsyncIterator[Client]:
    async with Client(bootstrap_servers=allowing.bootstrap_servers) as client:
        yield client


def make(cluster: BehaviourCluster, name: str) -> Producer:
    return Producer(
        bootstrap_servers=cluster.bootstrap_servers,
        transactional_id=name,
        transaction_two_phase_commit_enable=True,
        linger_ms=0,
    )


@asynccontextmanager
async def started(cluster: BehaviourCluster, name: str) -> AsyncIterator[Producer]:
    """A producer that keeps no transaction of its predecessor, because Kafka 4.4 can't do that."""
    producer = make(cluster, name)
    await producer.start(keep_prepared=False)
    try:
        yield producer
    finally:
        await producer.close()


async def prepare(producer: Producer, topic: str, *values: bytes) -> PreparedTransaction:
    """Prepare a transaction with these records."""
    async with producer.transaction() as txn:
        for value in values:
            await txn.send(topic, value)
        return await txn.prepare()


async def test_a_prepared_transaction_is_committed_or_aborted_as_decided(
    allowing: BehaviourCluster, client: Client, topic: str
) -> None:
    await allowing.create_topic(topic)
    async with started(allowing, topic) as producer:
        for value, commit in ((b"a", True), (b"b", False), (b"c", True)):
            state = await prepare(producer, topic, value)
            assert PreparedTransaction.parse(str(state)) == state
            # Leaving the block hasn't decided the transaction.
            assert await read(client, topic, isolation=COMMITTED) == ([] if value == b"a" else [b"a"])
            assert producer.prepared_transaction == state
            assert await producer.complete_transaction(state if commit else None) is commit
        await read_when(client, topic, [b"a", b"c"])


async def test_no_two_prepared_transactions_have_the_same_name(
    allowing: BehaviourCluster, client: Client, topic: str
) -> None:
    """Empty transactions have different ids, too, although the coordinator knows nothing about them."""
    await allowing.create_topic(topic)
    async with started(allowing, topic) as producer:
        names = []
        for values in ([], [b"a"], [], [], [b"b"]):
            names.append(await prepare(producer, topic, *values))
            assert await producer.complete_transaction(names[-1])
        assert len(set(names)) == len(names)
        await read_when(client, topic, [b"a", b"b"])


async def test_it_has_no_timeout(allowing: BehaviourCluster, client: Client, topic: str) -> None:
    await allowing.create_topic(topic)
    async with started(allowing, topic) as producer, producer.transaction() as txn:
        await txn.send(topic, b"v")
        request = DescribeTransactionsRequest(transactional_ids=[topic])
        described = (await client.request(request)).transaction_states[0]
        assert described.transaction_timeout_ms == 0x7FFFFFFF
        assert described.transaction_state == "Ongoing"
    await read_when(client, topic, [b"v"])


async def test_a_producer_that_keeps_nothing_aborts_what_was_prepared(
    allowing: BehaviourCluster, client: Client, topic: str
) -> None:
    await allowing.create_topic(topic)
    async with started(allowing, topic) as first:
        await prepare(first, topic, b"prepared")
    async with started(allowing, topic) as second:
        assert second.prepared_transaction is None
        async with second.transaction() as txn:
            await txn.send(topic, b"next")
    await read_when(client, topic, [b"next"])


async def test_what_was_prepared_is_kept_if_the_brokers_can(
    allowing: BehaviourCluster, client: Client, topic: str
) -> None:
    """Kafka 4.4 refuses to keep it, and the prepared transaction stays as it is."""
    await allowing.create_topic(topic)
    async with started(allowing, topic) as first:
        state = await prepare(first, topic, b"prepared")
        if allowing.kind == "kafka":
            with pytest.raises(UnsupportedVersionError, match=r"cannot keep a prepared.*keep_prepared=False"):
                await make(allowing, topic).start()
            assert await first.complete_transaction(state)
    if allowing.kind == "embedded":
        async with make(allowing, topic) as second:
            assert await second.complete_transaction(state)
    await read_when(client, topic, [b"prepared"])


async def test_it_has_a_permission_of_its_own(secured: Secured, topic: str, user: str) -> None:
    """The user needs TWO_PHASE_COMMIT on the transactional id, besides the permission to write with it."""

    async def init(client: Wire, *, two_phase: bool) -> ErrorCode:
        request = InitProducerIdRequest(transactional_id=topic, transaction_timeout_ms=60_000, enable2_pc=two_phase)

        async def ask() -> ErrorCode:
            return ErrorCode((await client.ask(request, 6)).error_code)

        return await until(ask, lambda code: code not in TRY_AGAIN)

    async with as_user(secured, "admin") as admin, as_user(secured, user) as client:
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=[topic])
        await until(lambda: admin.ask(find, 4), lambda found: not found.coordinators[0].error_code)
        try:
            await grant(admin, rule(user, TRANSACTIONAL_ID, topic, WRITE))
            assert await init(client, two_phase=False) is ErrorCode.NONE
            assert await init(client, two_phase=True) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            await grant(admin, rule(user, TRANSACTIONAL_ID, topic, TWO_PHASE_COMMIT))
            assert await init(client, two_phase=True) is ErrorCode.NONE
        finally:
            await revoke(admin, user)


async def test_brokers_that_do_not_allow_it_are_named(cluster: BehaviourCluster, topic: str) -> None:
    with pytest.raises((UnsupportedVersionError, AuthorizationError), match=r"KIP-939.*InitProducerId version 6"):
        await make(cluster, topic).start()


@pytest.mark.parametrize("text", ["", "1", "1:2:3", "a:b", "-1:0", "1:40000", "99999999999999999999:1", "1: 2"])
def test_a_text_that_names_no_transaction_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="names no prepared transaction"):
        PreparedTransaction.parse(text)

"""The driver killed at every request, and everything else that can come between a plan and its commit."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aiokproto.client import Client
from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.config import ClusterConfig
from aiokproto.errors import FencedError
from aiokproto.producer.handed_over import HandedOver, abort_open, end_handed_over
from aiokproto.producer.producer_id import ProducerId
from aiokproto.producer.transactional_id import TransactionalId
from aiokproto.spark.sink.exactly_once import state_topic
from aiokproto.spark.sink.exactly_once.coordinator import Coordinator
from aiokproto.spark.sink.exactly_once.protocol import Batch, OnLoss, StateError, TransactionLossError, batch_record
from aiokproto.spark.sink.exactly_once.state_topic import CONFIGS, StateTopic
from aiokproto.spark.sink.exactly_once.tasks import start_producer
from aiokproto.spark.sink.exactly_once.transactions import Transactions
from aiokproto.spark.worker import Worker
from tests.behaviour.transactional import stable
from tests.behaviour.waiting import until
from tests.clusters import BehaviourCluster
from tests.spark.sink.exactly_once.harness import RUN, Job, Kill, KilledError, batches, values


@pytest.fixture
async def client(cluster: BehaviourCluster) -> AsyncIterator[Client]:
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


@pytest.fixture
async def job(cluster: BehaviourCluster, worker: Worker, topic: str) -> Job:
    await cluster.create_topic(topic)
    return Job(cluster, worker, topic)


@pytest.fixture(params=["v1", "v2"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The version of transactions."""
    if request.param == "v1":

        async def has_v2(self: TransactionalId, before: bool) -> bool:
            return False

        monkeypatch.setattr(TransactionalId, "has_v2", has_v2)
    return str(request.param)


async def abort(job: Job, name: str) -> None:
    """Abort a transaction as a producer with its id does when it starts."""
    async with ClusterClient(ClusterConfig.parse({"bootstrap_servers": job.cluster.bootstrap_servers})) as cluster:
        await abort_open(cluster, name, 60_000)


@pytest.mark.parametrize("after", [False, True])
async def test_a_driver_killed_at_every_request(
    cluster: BehaviourCluster,
    worker: Worker,
    client: Client,
    topic: str,
    version: str,
    after: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the first batch and in the second; and once more while it recovers."""
    given = batches(2)
    if after:
        # Each plan writes a snapshot with this.
        monkeypatch.setattr(state_topic, "SNAPSHOT_AFTER", -1)
    await cluster.create_topic(f"{topic}-state", config={"cleanup.policy": "compact"})
    at, seen = 0, set[str]()
    while True:
        await cluster.create_topic(f"{topic}-{at}")
        job = Job(cluster, worker, f"{topic}-{at}", {"stateTopic": f"{topic}-state"})
        kill = Kill(at, after)
        await job.run(given, kill, Kill((7 * at) % 11, after))
        assert await job.committed(client) == values(given), (at, kill.requests[-1])
        seen.update(kill.requests)
        if not kill.killed:
            break
        at += 1
    assert at >= 25
    assert seen >= {
        "InitProducerIdRequest",
        "ListOffsetsRequest",
        "ProduceRequest",
        "EndTxnRequest",
        "DescribeTransactionsRequest",
        "ListTransactionsRequest",
    }


async def test_a_driver_killed_while_it_creates_the_state_topic(job: Job, client: Client) -> None:
    for after in (False, True):
        with pytest.raises(KilledError):
            await job.plan(Kill(0, after, "CreateTopicsRequest"))
    await job.run(batches(1))
    assert await job.committed(client) == values(batches(1))


async def test_ids_are_used_again_and_a_shrinking_query_keeps_them(job: Job, client: Client, version: str) -> None:
    given = [*batches(2, 4), *batches(4, 2)[2:], *batches(6, 4)[4:]]
    await job.run(given)
    assert await job.committed(client) == values(given)
    # Four partitions at most, and one more each time a free id has gone with an empty partition.
    assert len(job.ids) == 4


async def test_a_failed_attempt_and_a_speculative_copy_are_not_committed(job: Job, client: Client) -> None:
    await job.run(batches(1))
    plan = await job.plan()
    lost = await job.task(plan, 0, [b"lost"])
    won = await job.task(plan, 0, [b"won"], first=False)
    # Two attempts finish; Spark takes the message of one.
    twice = [await job.task(plan, 1, [b"other"], first=first) for first in (True, False)]
    await job.commit(plan, 1, [won, twice[1]])
    job.done = 1
    assert await job.committed(client) == sorted([*values(batches(1)), b"won", b"other"])
    # The ids of the attempts that lost are never given to another attempt.
    plan = await job.plan()
    names = {f"{job.prefix}-{free.name}" for free in plan.free}
    assert lost.transaction is not None
    assert twice[0].transaction is not None
    assert not names & {lost.transaction.transactional_id, twice[0].transaction.transactional_id}


async def test_a_stage_that_runs_again_has_other_ids(job: Job, client: Client) -> None:
    """Its attempts are first ones again, while the earlier attempts still run."""
    await job.run(batches(1))
    plan = await job.plan()
    old = await job.task(plan, 0, [b"old"])
    new = await job.task(plan, 0, [b"new"])
    assert old.transaction is not None
    assert new.transaction is not None
    assert old.transaction.transactional_id != new.transaction.transactional_id
    await job.commit(plan, 1, [new])
    assert await job.committed(client) == sorted([*values(batches(1)), b"new"])


async def test_the_later_one_of_two_drivers_with_one_prefix_commits(job: Job, client: Client, version: str) -> None:
    await job.run(batches(1))
    first = await job.plan()
    written = await job.task(first, 0, [b"first"])
    second = await job.plan()
    with pytest.raises(FencedError, match=f"transactionalIdPrefix={job.prefix}.*another query, job or run"):
        await job.commit(first, 1, [written])
    await job.drive(lambda coordinator: coordinator.abort(first.token))
    await job.commit(second, 1, [await job.task(second, 0, [b"second"])])
    assert await job.committed(client) == sorted([*values(batches(1)), b"second"])


async def test_a_failed_batch_is_aborted_at_once(job: Job, client: Client) -> None:
    plan = await job.plan()
    await job.task(plan, 0, [b"a"])
    assert not await stable(client, job.topic, 0)
    await job.drive(lambda coordinator: coordinator.abort(plan.token))
    assert await job.committed(client) == []


async def test_prefixes_that_start_alike_do_not_interfere(
    cluster: BehaviourCluster, worker: Worker, client: Client, topic: str, job: Job
) -> None:
    other = Job(cluster, worker, topic, prefix=f"{job.prefix}-a", options={"stateTopic": f"{job.prefix}-state"})
    plan = await other.plan()
    written = await other.task(plan, 0, [b"other"])
    await job.run(batches(2))
    await other.commit(plan, 0, [written])
    assert await job.committed(client) == sorted([*values(batches(2)), b"other"])


async def test_a_transaction_that_timed_out_before_the_commit_fails_the_batch(
    job: Job, client: Client, version: str
) -> None:
    plan = await job.plan()
    messages = [await job.task(plan, place, [b"a"]) for place in range(2)]
    assert messages[1].transaction is not None
    await abort(job, messages[1].transaction.transactional_id)
    with pytest.raises(TransactionLossError, match=r"1 of its 2 transactions are not open.*Nothing was written"):
        await job.commit(plan, 0, messages)
    assert (await job.plan()).done == {}
    await job.run(batches(1))
    assert await job.committed(client) == values(batches(1))


async def decided(job: Job, committed: int, lost: int) -> None:
    """Leave an intent of three transactions, and commit some and abort some of them."""
    plan = await job.plan()
    messages = [await job.task(plan, place, [b"%d" % place]) for place in range(3)]
    # The first EndTxn belongs to the intent.
    with pytest.raises(KilledError):
        await job.commit(plan, 0, messages, Kill(1 + committed, only="EndTxnRequest"))
    transactions = [one.transaction for one in messages if one.transaction is not None]
    async with ClusterClient(ClusterConfig.parse({"bootstrap_servers": job.cluster.bootstrap_servers})) as cluster:
        still_open = await Transactions(cluster, 60_000).still_open(transactions)
        assert len(still_open) == 3 - committed
        for one in still_open[:lost]:
            await end_handed_over(cluster, one, commit=False)


@pytest.mark.parametrize("committed", range(4))
async def test_what_was_decided_is_committed_by_the_next_run(
    job: Job, client: Client, version: str, committed: int
) -> None:
    await decided(job, committed, 0)
    plan = await job.plan()
    assert plan.done == {RUN: 0}
    assert await job.committed(client) == [b"0", b"1", b"2"]


async def test_a_batch_without_any_committed_part_is_written_again(job: Job, client: Client, version: str) -> None:
    await decided(job, 0, 3)
    await job.run(batches(2))
    assert await job.committed(client) == values(batches(2))


async def test_an_intent_whose_transactions_have_timed_out_is_taken_back(
    job: Job, client: Client, version: str
) -> None:
    job.options["kafka.transaction.timeout.ms"] = "500"
    plan = await job.plan()
    messages = [await job.task(plan, place, [b"late"]) for place in range(2)]
    transactions = tuple(one.transaction for one in messages if one.transaction is not None)
    async with ClusterClient(ClusterConfig.parse({"bootstrap_servers": job.cluster.bootstrap_servers})) as cluster:
        tasks = Transactions(cluster, 60_000)

        async def still_open() -> list[HandedOver]:
            return await tasks.still_open(transactions)

        assert await until(still_open, lambda found: not found) == []
        # It was decided just before.
        options = job.parsed[1]
        state = StateTopic(cluster, options.connection, options.state_topic, job.prefix)
        await state.acquire(plan.token)
        await state.write(batch_record(job.prefix, Batch(RUN, 0, transactions=transactions)))
    del job.options["kafka.transaction.timeout.ms"]
    await job.run(batches(2))
    assert await job.committed(client) == values(batches(2))


@pytest.mark.parametrize(("committed", "lost"), [(1, 1), (1, 2), (0, 1), (2, 1)])
async def test_a_batch_that_is_partly_lost_fails_in_every_run_until_an_option_decides(
    job: Job, client: Client, version: str, committed: int, lost: int
) -> None:
    await decided(job, committed, lost)
    for _ in range(2):
        with pytest.raises(TransactionLossError, match=f"3 transactions {3 - lost} are committed, {lost} were aborted"):
            await job.plan()
    job.options["onTransactionLoss"] = "skip"
    assert (await job.plan()).done == {RUN: 0}
    assert len(await job.committed(client)) == 3 - lost


async def test_a_batch_that_is_partly_lost_can_be_written_again(job: Job, client: Client) -> None:
    await decided(job, 2, 1)
    job.options["onTransactionLoss"] = "rewrite"
    await job.run(batches(1))
    found = await job.committed(client)
    assert len(found) == len(values(batches(1))) + 2
    assert set(values(batches(1))) < set(found)


@pytest.mark.parametrize(
    ("partitions", "policy", "text"), [(2, "compact", "has 2 partitions"), (1, "delete", "cleanup.policy=delete")]
)
async def test_a_state_topic_that_would_lose_state_is_refused(
    job: Job, cluster: BehaviourCluster, partitions: int, policy: str, text: str
) -> None:
    await cluster.create_topic(f"{job.prefix}-state", partitions, config={"cleanup.policy": policy})
    with pytest.raises(StateError, match=text):
        await job.plan()


async def test_an_attempt_that_hangs_before_its_start_does_not_write_with_an_id_that_was_committed(
    job: Job, client: Client, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another batch came in between, and its driver has died. Its outcome must still be found."""
    await job.run([[[b"first"]]])
    plan = await job.plan()
    came: list[HandedOver] = []
    is_current = Transactions.is_current

    async def looks_and_hangs(self: Transactions, name: str, producer: ProducerId) -> bool:
        found = await is_current(self, name, producer)
        if found and not came:
            came.append(HandedOver("", 0, 0, False))
            options, transactions = job.parsed
            other = await start_producer(self._cluster, options, transactions, plan, plan.free[0])
            async with other.transaction() as transaction:
                await transaction.send(job.topic, b"other")
                came[0] = await transaction.hand_over()
            await other.close()
            await end_handed_over(self._cluster, came[0], commit=True)
        return found

    monkeypatch.setattr(Transactions, "is_current", looks_and_hangs)
    late = await job.task(plan, 0, [b"late"])
    monkeypatch.undo()
    assert late.transaction is not None
    assert came[0].transactional_id == f"{job.prefix}-{plan.free[0].name}"
    assert late.transaction.transactional_id != came[0].transactional_id


async def test_a_new_state_topic_is_compacted_soon(job: Job, client: Client) -> None:
    await job.plan()
    resource = DescribeConfigsResource(resource_type=2, resource_name=f"{job.prefix}-state", configuration_keys=None)
    response = await client.request(DescribeConfigsRequest(resources=[resource]))
    configs = {one.name: one.value for one in response.results[0].configs}
    assert {name: configs[name] for name in CONFIGS} == CONFIGS
    assert int(CONFIGS["max.message.bytes"]) < int(CONFIGS["segment.bytes"]) <= 1 << 24


async def test_a_commit_that_spark_has_given_up_decides_nothing_after_the_abort(
    job: Job, client: Client, version: str
) -> None:
    plan = await job.plan()
    written = await job.task(plan, 0, [b"a"])
    assert written.transaction is not None
    options = job.parsed[1]
    async with ClusterClient(ClusterConfig.parse(options.connection)) as cluster:
        commit = StateTopic(cluster, options.connection, options.state_topic, job.prefix)
        await commit.acquire(plan.token)
        await job.drive(lambda coordinator: coordinator.abort(plan.token))
        with pytest.raises(FencedError):
            await commit.write(batch_record(job.prefix, Batch(RUN, 0, transactions=(written.transaction,))))
    await job.run(batches(1))
    assert await job.committed(client) == values(batches(1))


async def test_a_driver_that_was_overtaken_does_not_abort_what_is_open(job: Job, client: Client, version: str) -> None:
    options = job.parsed[1]
    async with ClusterClient(ClusterConfig.parse(options.connection)) as cluster:
        state = StateTopic(cluster, options.connection, options.state_topic, job.prefix)
        await state.ensure()
        await state.acquire()
        overtaken = Coordinator(job.prefix, state, Transactions(cluster, 60_000), OnLoss.FAIL)
        plan = await job.plan()
        written = await job.task(plan, 0, [b"a"])
        await overtaken._abort_orphans()
    await job.commit(plan, 0, [written])
    assert await job.committed(client) == [b"a"]

"""Transactions without a timeout, where the brokers grant them (KIP-939)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aiokproto.broker import Broker
from aiokproto.client import Client
from aiokproto.codec.messages.describe_transactions import DescribeTransactionsRequest
from aiokproto.spark.worker import Worker
from tests.clusters import BehaviourCluster, EmbeddedCluster, real_cluster
from tests.conftest import ON_BOTH
from tests.kafka.plugin import TWO_PHASE
from tests.kafka.pool import KafkaPool
from tests.spark.sink.exactly_once.harness import Job, Kill, KilledError, batches, values


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


@pytest.mark.parametrize(("wish", "two_phase"), [(None, True), ("true", True), ("false", False)])
async def test_it_is_used_if_it_is_granted_and_wanted(
    allowing: BehaviourCluster, worker: Worker, topic: str, wish: str | None, two_phase: bool
) -> None:
    await allowing.create_topic(topic)
    options = {} if wish is None else {"kafka.transaction.two.phase.commit.enable": wish}
    job = Job(allowing, worker, topic, options)
    plan = await job.plan()
    assert plan.two_phase is two_phase
    written = await job.task(plan, 0, [b"0"])
    assert written.transaction is not None
    async with Client(bootstrap_servers=allowing.bootstrap_servers) as client:
        asked = DescribeTransactionsRequest(transactional_ids=[written.transaction.transactional_id])
        (state,) = (await client.request(asked)).transaction_states
        assert (state.transaction_timeout_ms == 0x7FFFFFFF) is two_phase
        with pytest.raises(KilledError):
            await job.commit(plan, 0, [written], Kill(1, only="EndTxnRequest"))
        await job.run([[[b"0"]], *batches(3)[1:]])
        assert await job.committed(client) == sorted([b"0", *values(batches(3)[1:])])

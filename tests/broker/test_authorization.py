"""Authorization of requests: which permissions a request needs, and what refusing costs."""

from __future__ import annotations

import pytest

from aiokproto.codec.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from aiokproto.codec.messages.describe_transactions import DescribeTransactionsRequest
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.error_codes import ErrorCode
from tests.broker.secure import (
    CLUSTER,
    CLUSTER_ACTION,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    acl,
    grant,
    guarded,
    logged_in,
)


@pytest.mark.parametrize("version", [4, 5])
async def test_only_brokers_may_add_partitions_to_transactions_of_others(version: int) -> None:
    async with guarded() as broker, logged_in(broker, "admin") as admin, logged_in(broker, "alice") as alice:
        await broker.create_topic("t")
        await grant(admin, acl(TOPIC, "t", WRITE), acl(TRANSACTIONAL_ID, "mine", WRITE))
        await admin.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["payments"]), 4)
        owner = await admin.ask(InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=60_000), 4)

        def request(transactional_id: str) -> AddPartitionsToTxnRequest:
            topics = [AddPartitionsToTxnTopic(name="t", partitions=[0])]
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=transactional_id, producer_id=owner.producer_id, producer_epoch=0, topics=topics
            )
            return AddPartitionsToTxnRequest(transactions=[transaction])

        # As Kafka: also for a transactional id that the client may write to.
        for name in ("payments", "mine"):
            assert (await alice.ask(request(name), version)).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        described = await admin.ask(DescribeTransactionsRequest(transactional_ids=["payments"]), 0)
        assert described.transaction_states[0].transaction_state == "Empty"
        await grant(admin, acl(CLUSTER, "kafka-cluster", CLUSTER_ACTION))
        added = await alice.ask(request("payments"), version)
        assert added.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code == 0

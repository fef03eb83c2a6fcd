"""Authorization of requests: which permissions a request needs, and what refusing costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiokproto.codec.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from aiokproto.codec.messages.delete_groups import DeleteGroupsRequest
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest
from aiokproto.codec.messages.describe_groups import DescribeGroupsRequest
from aiokproto.codec.messages.describe_producers import DescribeProducersRequest, TopicRequest
from aiokproto.codec.messages.describe_transactions import DescribeTransactionsRequest
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aiokproto.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from aiokproto.codec.schema import Request
from aiokproto.error_codes import ErrorCode
from tests.behaviour.requests_by_api import errors
from tests.broker.secure import (
    ALL,
    CLUSTER,
    CLUSTER_ACTION,
    GROUP,
    PREFIXED,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    acl,
    grant,
    guarded,
    logged_in,
)
from tests.counting import counted_calls


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

        # Kafka, too, refuses this for a transactional id that the client may write to.
        for name in ("payments", "mine"):
            assert (await alice.ask(request(name), version)).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        described = await admin.ask(DescribeTransactionsRequest(transactional_ids=["payments"]), 0)
        assert described.transaction_states[0].transaction_state == "Empty"
        await grant(admin, acl(CLUSTER, "kafka-cluster", CLUSTER_ACTION))
        added = await alice.ask(request("payments"), version)
        assert added.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code == 0


# ---- what a refusal costs


def names(count: int, kind: str) -> list[str]:
    """Return some names. The client has all permissions for every second one, or for none."""
    return [f"{'mine' if kind == 'half' and each % 2 else 'other'}-{each}" for each in range(count)]


def one_group(count: int, kind: str) -> OffsetFetchRequest:
    """Name the same group repeatedly, each time with one of the client's own topics and another topic."""
    both = [OffsetFetchRequestTopics(name=each, partition_indexes=[0]) for each in names(2, kind)]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="mine", topics=both) for _ in range(count)])


MANY: dict[str, tuple[Callable[[int, str], Request[Any]], int]] = {
    "DeleteTopics": (lambda count, kind: DeleteTopicsRequest(topic_names=names(count, kind)), 5),
    "Metadata": (
        lambda count, kind: MetadataRequest(topics=[MetadataRequestTopic(name=each) for each in names(count, kind)]),
        9,
    ),
    "DescribeProducers": (
        lambda count, kind: DescribeProducersRequest(
            topics=[TopicRequest(name=each, partition_indexes=[0, 1]) for each in names(count, kind)]
        ),
        0,
    ),
    "DescribeProducers of one topic": (
        lambda count, kind: DescribeProducersRequest(
            topics=[TopicRequest(name=(each % 2 and "mine") or "other", partition_indexes=[0]) for each in range(count)]
        ),
        0,
    ),
    "OffsetFetch": (
        lambda count, kind: OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=each, topics=[OffsetFetchRequestTopics(name="other", partition_indexes=[0])]
                )
                for each in names(count, kind)
            ]
        ),
        8,
    ),
    "OffsetFetch of one group": (one_group, 8),
}


@pytest.mark.parametrize("kind", ["half", "none"])
@pytest.mark.parametrize("name", MANY)
async def test_refusing_twice_as_many_names_costs_twice_as_much(name: str, kind: str) -> None:
    make, version = MANY[name]
    async with guarded() as broker, logged_in(broker, "admin") as admin, logged_in(broker, "alice") as alice:
        await grant(admin, acl(TOPIC, "mine", ALL, pattern=PREFIXED), acl(GROUP, "mine", ALL, pattern=PREFIXED))
        calls: dict[int, int] = {}
        # The first request isn't counted, since it imports the handler and fills caches.
        for count in (2, 100, 200):
            request = make(count, kind)
            with counted_calls() as counted:
                answer = await alice.ask(request, version)
            calls[count] = counted[0]
            assert errors(answer) & {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED}
        assert calls[200] < 2.2 * calls[100]


async def test_a_refusal_costs_about_what_an_answer_costs() -> None:
    make, version = MANY["DescribeProducers"]
    async with guarded() as broker, logged_in(broker, "admin") as admin, logged_in(broker, "alice") as alice:
        calls = []
        for client in (alice, admin) * 2:
            request = make(300, "none")
            with counted_calls() as counted:
                await client.ask(request, version)
            calls.append(counted[0])
        refused, served = calls[2:]
        assert refused < 3 * served


# ---- names


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (OffsetFetchRequest(group_id="", topics=None), 7),
        (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="", topics=None)]), 8),
        (DescribeGroupsRequest(groups=[""]), 5),
        (DeleteGroupsRequest(groups_names=[""]), 2),
        (
            OffsetCommitRequest(
                group_id="",
                topics=[
                    OffsetCommitRequestTopic(
                        name="t", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_metadata="")]
                    )
                ],
            ),
            8,
        ),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Request) else None,
)
async def test_the_group_with_the_empty_name_needs_a_permission(request_: Request[Any], version: int) -> None:
    """It can have offsets, as in Kafka: the offsets of consumers without a group."""
    async with guarded() as broker, logged_in(broker, "alice") as alice:
        assert errors(await alice.ask(request_, version)) == {ErrorCode.GROUP_AUTHORIZATION_FAILED}


async def test_a_request_that_lists_no_group_needs_no_permission() -> None:
    async with guarded() as broker, logged_in(broker, "alice") as alice:
        assert (await alice.ask(OffsetFetchRequest(groups=[]), 8)).groups == []
        assert (await alice.ask(DescribeGroupsRequest(groups=[]), 5)).groups == []

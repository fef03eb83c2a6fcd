"""Whom a request is for, what an answer says of the whole broker, and whether to try again: all pure."""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto.cluster.backoff import Backoff
from aiokproto.cluster.bootstrap import bootstrap_error, definitive
from aiokproto.cluster.coordinators import CoordinatorKind, Coordinators, answered, question
from aiokproto.cluster.routes import answer_code, coordinator_key, partitions_of
from aiokproto.cluster.snapshot import BrokerNode
from aiokproto.codec import registry
from aiokproto.codec.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
from aiokproto.codec.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from aiokproto.codec.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from aiokproto.codec.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from aiokproto.codec.messages.describe_groups import DescribeGroupsRequest
from aiokproto.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from aiokproto.codec.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from aiokproto.codec.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.codec.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from aiokproto.codec.schema import Request, Response, Route
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    AuthenticationError,
    BootstrapError,
    BrokerConnectionError,
    BrokerError,
    ConfigurationError,
    DecodeError,
    KafkaError,
    NotKafkaError,
    UnsupportedVersionError,
    error_for,
)

GROUP, TRANSACTION = CoordinatorKind.GROUP, CoordinatorKind.TRANSACTION


@pytest.mark.parametrize(
    ("request_", "key"),
    [
        (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), "g"),
        (OffsetFetchRequest(group_id="g", topics=None), "g"),
        (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), "g"),
        (DescribeGroupsRequest(groups=["g", "g"]), "g"),
        (DeleteGroupsRequest(groups_names=["g"]), "g"),
        (InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1), "t"),
        (InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), None),
        (AddPartitionsToTxnRequest(v3_and_below_transactional_id="t"), "t"),
        (
            AddPartitionsToTxnRequest(
                transactions=[
                    AddPartitionsToTxnTransaction(
                        transactional_id="t", producer_id=1, producer_epoch=0, verify_only=False, topics=[]
                    )
                ]
            ),
            "t",
        ),
    ],
)
def test_the_coordinators_key(request_: Request[Any], key: str | None) -> None:
    assert coordinator_key(request_) == key


@pytest.mark.parametrize("groups", [[], ["a", "b"]])
def test_no_one_coordinator(groups: list[str]) -> None:
    with pytest.raises(ConfigurationError, match=r"DescribeGroupsRequest .* `key` or `node`"):
        coordinator_key(DescribeGroupsRequest(groups=groups))


def test_every_coordinated_request_of_a_client_tells_its_key() -> None:
    """By a field of one of the known names; the share coordinator's keys are no single field."""
    for api_key in registry.api_keys():
        request = registry.request(api_key)
        if request.route in (Route.GROUP, Route.TRANSACTION):
            with_key = request()
            names = {spec.name for spec in with_key.fields()}
            fields = {"group_id", "group_ids", "groups", "groups_names"}
            if request.route is Route.TRANSACTION:
                fields = {"transactional_id", "v3_and_below_transactional_id", "transactions", "transactional_ids"}
            assert names & fields, request.__name__


def test_partitions_by_name_or_id() -> None:
    records = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=3, offset=0)])],
        timeout_ms=1,
    )
    assert list(partitions_of(records)) == [("t", 3)]
    fetch = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[
            FetchTopic(
                topic_id=b"\1" * 16,
                partitions=[FetchPartition(partition=2, fetch_offset=0, partition_max_bytes=1)],
            )
        ],
    )
    assert list(partitions_of(fetch)) == [(b"\1" * 16, 2)]


@pytest.mark.parametrize(
    ("response", "code"),
    [
        (HeartbeatResponse(error_code=0), 0),
        (HeartbeatResponse(error_code=27), 27),
        (CreateTopicsResponse(topics=[CreatableTopicResult(name="a", error_code=41, error_message=None)]), 41),
        (CreateTopicsResponse(topics=[CreatableTopicResult(name="a", error_code=7, error_message=None)]), 0),
        (CreateTopicsResponse(topics=[]), 0),
        (
            DeleteGroupsResponse(
                throttle_time_ms=0,
                results=[
                    DeletableGroupResult(group_id="a", error_code=16),
                    DeletableGroupResult(group_id="b", error_code=0),
                ],
            ),
            0,
        ),
    ],
)
def test_the_code_of_a_whole_answer(response: Response, code: int) -> None:
    """An item's own failure is the caller's; "wrong broker" in all of them is about the broker."""
    assert answer_code(response) == code


def test_coordinator_cache() -> None:
    cache = Coordinators()
    cache.learn(GROUP, "x", 1)
    cache.learn(TRANSACTION, "x", 2)
    assert (cache.get(GROUP, "x"), cache.get(TRANSACTION, "x"), cache.get(GROUP, "y")) == (1, 2, None)
    cache.forget(GROUP, "x")
    cache.forget(GROUP, "x")
    assert (cache.get(GROUP, "x"), cache.get(TRANSACTION, "x")) == (None, 2)


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator_in_both_forms(version: int) -> None:
    asked = question(GROUP, "g", version)
    assert type(asked).decode(asked.encode(version), version) == asked
    found = (
        FindCoordinatorResponse(coordinators=[_found("other", 0), _found("g", 0)])
        if version >= 4
        else FindCoordinatorResponse(node_id=3, host="h", port=1)
    )
    assert answered(found, GROUP, "g") == BrokerNode(3, "h", 1)


@pytest.mark.parametrize(
    "found",
    [
        lambda code: FindCoordinatorResponse(error_code=code, error_message="because", node_id=-1),
        lambda code: FindCoordinatorResponse(coordinators=[_found("g", code)]),
    ],
)
def test_a_coordinator_that_cannot_be_found(found: Any) -> None:
    with pytest.raises(BrokerError, match=r"FindCoordinator for group 'g': GROUP_AUTHORIZATION_FAILED .30.: because"):
        answered(found(30), GROUP, "g")


@pytest.mark.parametrize("found", [FindCoordinatorResponse(), FindCoordinatorResponse(coordinators=[])])
def test_an_empty_answer_about_a_coordinator(found: FindCoordinatorResponse) -> None:
    with pytest.raises(DecodeError, match="empty"):
        answered(found, GROUP, "g")


def test_an_answer_about_another_coordinator() -> None:
    with pytest.raises(DecodeError, match=r"is about \['h'\]"):
        answered(FindCoordinatorResponse(coordinators=[_found("h", 0)]), GROUP, "g")


def _found(key: str, code: int) -> Coordinator:
    return Coordinator(key=key, node_id=3, host="h", port=1, error_code=code, error_message="because" if code else None)


def test_backoff_doubles_up_to_its_limit_with_jitter() -> None:
    plain = Backoff(0.1, 1.0, uniform=lambda low, high: (low + high) / 2)
    assert [round(plain.delay(failures), 6) for failures in (0, 1, 2, 3, 4, 5, 10_000)] == [0, 0.1, 0.2, 0.4, 0.8, 1, 1]
    assert Backoff(0.1, 1.0, uniform=lambda low, high: high).delay(1) == pytest.approx(0.12)
    assert Backoff(0.1, 1.0, uniform=lambda low, high: low).delay(1) == pytest.approx(0.08)


A, B = BrokerNode(-1, "a", 1), BrokerNode(-2, "b", 2)


@pytest.mark.parametrize(
    ("first", "second", "kind", "final"),
    [
        (NotKafkaError("x"), NotKafkaError("y"), NotKafkaError, True),
        (AuthenticationError("x"), AuthenticationError("y"), AuthenticationError, True),
        (NotKafkaError("x"), AuthenticationError("y"), BootstrapError, True),
        (NotKafkaError("x"), BrokerConnectionError("y"), BootstrapError, False),
        (UnsupportedVersionError("x"), NotKafkaError("y"), BootstrapError, True),
        (error_for(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), NotKafkaError("y"), BootstrapError, False),
    ],
)
def test_what_bootstrap_makes_of_failures(first: KafkaError, second: KafkaError, kind: type[Any], final: bool) -> None:
    failures = [(A, first), (B, second)]
    error = bootstrap_error(failures, 3, 1.5)
    assert type(error) is kind
    assert f"after 3 attempts in 1.5 s: a:1: {first}; b:2: {second}" in str(error)
    assert definitive(failures) is final

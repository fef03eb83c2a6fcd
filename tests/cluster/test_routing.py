"""Routing of requests, errors that concern a whole response, and whether to retry."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.cluster.backoff import Backoff
from aiokproto.cluster.coordinators import (
    CoordinatorCache,
    CoordinatorKind,
    find_coordinator_request,
    found_coordinator,
)
from aiokproto.cluster.division import coordinator_keys, error_response, join, response_error
from aiokproto.cluster.metadata import bootstrap_error, definitive
from aiokproto.cluster.snapshot import BrokerNode
from aiokproto.codec import registry
from aiokproto.codec.entities import Entity, divide, entities
from aiokproto.codec.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
from aiokproto.codec.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from aiokproto.codec.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from aiokproto.codec.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from aiokproto.codec.messages.describe_groups import DescribeGroupsRequest
from aiokproto.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from aiokproto.codec.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from aiokproto.codec.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.codec.messages.list_transactions import ListTransactionsResponse, TransactionState
from aiokproto.codec.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from aiokproto.codec.schema import Request, Response, Role, Route, Struct
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    AuthenticationError,
    BootstrapError,
    BrokerConnectionError,
    BrokerError,
    ConfigurationError,
    DeadlineError,
    KafkaError,
    NotKafkaError,
    UnsupportedVersionError,
    error_for,
)
from tests.counting import counted_calls

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
    assert coordinator_keys(request_) == [key]


def test_the_keys_of_several_coordinators() -> None:
    assert coordinator_keys(DescribeGroupsRequest(groups=["a", "b", "a"])) == ["a", "b"]
    with pytest.raises(ConfigurationError, match=r"DescribeGroupsRequest .* `key` or `node`"):
        coordinator_keys(DescribeGroupsRequest())


@pytest.mark.parametrize("api_key", registry.api_keys())
def test_every_routed_request_names_its_entities_by_role(api_key: int) -> None:
    """The route in the declaration of a message is enough: nothing else names the message."""
    request = registry.request(api_key)
    roles = {
        Route.GROUP: Role.GROUP_ID,
        Route.TRANSACTION: Role.TRANSACTIONAL_ID,
        Route.LEADER: Role.PARTITION_INDEX,
        Route.LEADERS: Role.PARTITION_INDEX,
        Route.SHARE: Role.GROUP_ID,
    }
    role = roles.get(request.route)
    assert role is None or role in _roles_of(request)


def _roles_of(struct: type[Struct]) -> set[Role | None]:
    found = {spec.role for spec in struct.fields()}
    return found.union(*(_roles_of(spec.struct) for spec in struct.fields() if spec.struct is not None))


def name_of(topic_id: bytes) -> str:
    return {b"\1" * 16: "one"}[topic_id]


def test_partitions_by_name_or_id() -> None:
    fetch = FetchRequest(
        topics=[
            FetchTopic(topic_id=b"\1" * 16, partitions=[FetchPartition(partition=2), FetchPartition(partition=3)]),
            FetchTopic(topic="two", partitions=[FetchPartition(partition=2)]),
        ],
        forgotten_topics_data=[ForgottenTopic(topic="gone", partitions=[7])],
    )
    assert list(entities(fetch, name_of)) == [Entity("one", 2), Entity("one", 3), Entity("two", 2)]
    parts = divide(fetch, lambda about: about.partition, name_of)
    assert {key: list(entities(part, name_of)) for key, part in parts.items()} == {
        2: [Entity("one", 2), Entity("two", 2)],
        3: [Entity("one", 3)],
    }
    assert all(part.forgotten_topics_data == fetch.forgotten_topics_data for part in parts.values())


names = st.sampled_from(["a", "b", "c"])


@given(st.dictionaries(names, st.sets(st.integers(0, 5), min_size=1), min_size=1), st.integers(1, 4))
def test_responses_of_a_divided_request_are_joined(partitions: dict[str, set[int]], nodes: int) -> None:
    """Every partition is in one part, and once in the response, with the error code of its part."""
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=each) for each in indexes])
            for name, indexes in partitions.items()
        ]
    )
    parts = divide(request, lambda about: (about.partition or 0) % nodes, name_of)
    errors: list[tuple[KafkaError, ErrorCode]] = [
        (DeadlineError("silent"), ErrorCode.REQUEST_TIMED_OUT),
        (BrokerConnectionError("gone"), ErrorCode.NETWORK_EXCEPTION),
        (error_for(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (UnsupportedVersionError("old"), ErrorCode.UNSUPPORTED_VERSION),
    ]
    answers = [error_response(part, errors[node][0]) for node, part in parts.items()]
    joined = join([each for each in answers if each is not None], name_of)
    assert isinstance(joined, DeleteRecordsResponse)
    assert len({topic.name for topic in joined.topics}) == len(joined.topics)
    got = [(topic.name, one.partition_index, one.error_code) for topic in joined.topics for one in topic.partitions]
    assert sorted(got) == sorted(
        (name, each, errors[each % nodes][1]) for name, indexes in partitions.items() for each in indexes
    )


def test_a_joined_response_has_the_longest_throttle_the_first_error_and_each_filter_once() -> None:
    state = TransactionState(transactional_id="t")
    first = ListTransactionsResponse(throttle_time_ms=5, unknown_state_filters=["x"])
    second = ListTransactionsResponse(
        throttle_time_ms=3, error_code=29, unknown_state_filters=["x", "y"], transaction_states=[state]
    )
    assert join([first, second], name_of) == ListTransactionsResponse(
        throttle_time_ms=5, error_code=29, unknown_state_filters=["x", "y"], transaction_states=[state]
    )


@pytest.mark.parametrize("repeated", [False, True])
def test_joining_twice_as_many_responses_costs_twice_as_much(repeated: bool) -> None:
    def responses(count: int) -> list[DeleteRecordsResponse]:
        return [
            DeleteRecordsResponse(
                topics=[
                    DeleteRecordsTopicResult(
                        name="t" if repeated else f"t-{node}",
                        partitions=[DeleteRecordsPartitionResult(partition_index=node)],
                    )
                ]
            )
            for node in range(count)
        ]

    calls = {}
    for count in (2, 100, 200):
        parts = responses(count)
        with counted_calls() as counted:
            joined = join(parts, name_of)
        calls[count] = counted[0]
        assert sum(len(topic.partitions) for topic in joined.topics) == count
    assert calls[200] < 2.2 * calls[100]


def _deleted(*codes: int) -> DeleteRecordsResponse:
    results = [DeleteRecordsPartitionResult(partition_index=index, error_code=code) for index, code in enumerate(codes)]
    return DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="t", partitions=results)])


@pytest.mark.parametrize(
    ("response", "code"),
    [
        (HeartbeatResponse(error_code=0), 0),
        (HeartbeatResponse(error_code=27), 27),
        (CreateTopicsResponse(topics=[CreatableTopicResult(name="a", error_code=41, error_message=None)]), 41),
        (CreateTopicsResponse(topics=[CreatableTopicResult(name="a", error_code=7, error_message=None)]), 0),
        (CreateTopicsResponse(topics=[]), 0),
        (_deleted(6, 6), 6),
        (_deleted(6, 0), 0),
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
def test_which_error_codes_apply_to_a_whole_response(response: Response, code: int) -> None:
    """An item's own error is the caller's; "wrong broker" in all items concerns the whole response."""
    assert response_error(response) == code


def test_coordinator_cache() -> None:
    cache = CoordinatorCache()
    cache.put(GROUP, "x", 1)
    cache.put(TRANSACTION, "x", 2)
    assert (cache.get(GROUP, "x"), cache.get(TRANSACTION, "x"), cache.get(GROUP, "y")) == (1, 2, None)
    cache.forget(GROUP, "x")
    cache.forget(GROUP, "x")
    assert (cache.get(GROUP, "x"), cache.get(TRANSACTION, "x")) == (None, 2)


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator_with_one_key_and_with_several(version: int) -> None:
    request = find_coordinator_request(GROUP, "g", version)
    assert type(request).decode(request.encode(version), version) == request
    found = (
        FindCoordinatorResponse(coordinators=[_found("g", 0)])
        if version >= 4
        else FindCoordinatorResponse(node_id=3, host="h", port=1)
    )
    assert found_coordinator(found, GROUP, "g") == BrokerNode(3, "h", 1)


@pytest.mark.parametrize(
    "found",
    [
        lambda code: FindCoordinatorResponse(error_code=code, error_message="because", node_id=-1),
        lambda code: FindCoordinatorResponse(coordinators=[_found("g", code)]),
    ],
)
def test_a_coordinator_that_cannot_be_found(found: Any) -> None:
    with pytest.raises(
        BrokerError,
        match=r"FindCoordinator for group 'g': GROUP_AUTHORIZATION_FAILED .30.: DESCRIBE on group 'g' .*; because",
    ):
        found_coordinator(found(30), GROUP, "g")


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
def test_which_failures_end_bootstrapping(first: KafkaError, second: KafkaError, kind: type[Any], final: bool) -> None:
    failures = [(A, first), (B, second)]
    error = bootstrap_error(failures, 3, 1.5)
    assert type(error) is kind
    assert f"after 3 attempts in 1.5 s: a:1: {first}; b:2: {second}" in str(error)
    assert definitive(failures) is final

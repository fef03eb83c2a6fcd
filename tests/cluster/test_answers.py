"""What happens to a response that doesn't answer its request."""

from __future__ import annotations

import ast
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from aiokproto.authorization import Asked
from aiokproto.cluster.answers import ANSWERS, GAPS, AnswerChecker, check, described
from aiokproto.codec import registry
from aiokproto.codec.entities import names_entity
from aiokproto.codec.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aiokproto.codec.messages.join_group import JoinGroupRequest, JoinGroupResponse
from aiokproto.codec.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from aiokproto.codec.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aiokproto.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from aiokproto.codec.refusal import refuse
from aiokproto.codec.schema import Request, Response, Role, Struct
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import error_for

SOURCES = Path(registry.__file__).parents[1]
NOT_THE_CLIENT = ("broker", "codec", "spark", "cli", "simulation")
"""What sends nothing, or through `Client`."""

UNKNOWN = ErrorCode.LEADER_NOT_AVAILABLE


def sent() -> dict[int, str]:
    """The requests that the client builds, by ApiKey, with a place where it does."""
    found: dict[int, str] = {}
    for path in SOURCES.rglob("*.py"):
        if path.relative_to(SOURCES).parts[0] in NOT_THE_CLIENT:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            # This includes requests that are only named, such as heartbeats, whose form names the class.
            name = node.id if isinstance(node, ast.Name) else ""
            if name.endswith("Request") and name in REQUESTS:
                found[REQUESTS[name]] = path.name
    return found


REQUESTS = {registry.request(key).__name__: key for key in registry.api_keys()}


def test_every_request_of_the_client_is_declared() -> None:
    found = sent()
    assert len(found) > 25
    assert not {registry.request(key).__name__: place for key, place in found.items() if key not in ANSWERS}


def test_what_is_not_checked_says_why() -> None:
    assert all(bool(answer.why) == (answer.missing is None) for answer in ANSWERS.values())


# What a response says about items, with any API


def items(part: Struct, version: int, above: tuple[Any, ...] = (), most: int = 9) -> Iterator[tuple[Any, ...]]:
    """The names of the items in a part of a message, in ``most`` levels of lists."""
    for spec in part.fields():
        if spec.array and version in spec.versions and names_entity(spec):
            for item in getattr(part, spec.name):
                if not isinstance(item, Struct):
                    yield (*above, item)
                    continue
                names = (*above, *(getattr(item, each.name) for each in item.fields() if named(each, version)))
                inner = list(items(item, version, names, most - 1)) if most > 1 else []
                yield from inner or [names]


def named(spec: Any, version: int) -> bool:
    return not spec.array and version in spec.versions and names_entity(spec)


def sample(kind: type[Struct], version: int, number: int = 0) -> Any:
    """A message with two of each item."""
    made = kind()
    for spec in kind.fields():
        if version not in spec.versions or spec.mentioned or spec.role is Role.BROKER_ID:
            continue
        if spec.array and names_entity(spec):
            values = [
                value(spec.role, each) if spec.struct is None else sample(spec.struct, version, each) for each in (0, 1)
            ]
            setattr(made, spec.name, values)
        elif spec.role is not None and not spec.array:
            setattr(made, spec.name, value(spec.role, number))
    return made


def value(role: Role | None, number: int) -> Any:
    if role in (Role.PARTITION_INDEX, Role.PRODUCER_ID):
        return number
    return bytes([number + 1]) * 16 if role is Role.TOPIC_ID else f"{role}{number}"


def matched() -> Iterator[Any]:
    """The APIs whose responses answer item by item, with the versions in which they do."""
    for key, answer in ANSWERS.items():
        kind = registry.request(key)
        for version in range(kind.versions.lowest, kind.versions.highest + 1):
            request = sample(kind, version)
            if answer.missing is None or answer.whole or version < answer.from_version:
                continue
            if list(items(request, version)):
                yield pytest.param(kind, version, id=f"{kind.__name__} {version}")


MATCHED = list(matched())


def full(request: Request[Any], version: int) -> Response:
    """A response with each item, without errors."""
    response = refuse(request, version, ErrorCode.NONE)
    assert response is not None
    _fill(response)
    return response


def _fill(part: Struct) -> None:
    for spec in part.fields():
        if spec.name in ("host", "port"):
            setattr(part, spec.name, "a" if spec.name == "host" else 1)
        if spec.name in ("node_id", "producer_id", "producer_epoch"):
            setattr(part, spec.name, 0)
        if spec.struct is not None and spec.array:
            for item in getattr(part, spec.name):
                _fill(item)
        if spec.name == "partitions" and isinstance(part, MetadataResponseTopic):
            part.partitions = [MetadataResponsePartition(partition_index=0)]


def outer(request: Struct, response: Response, version: int) -> Counter[Any]:
    """The items of a response, as deep as the request's items."""
    return Counter(items(response, version, most=levels(type(request), version)))


def levels(kind: type[Struct], version: int) -> int:
    """How many lists are in each other."""
    inner = [spec for spec in kind.fields() if spec.array and version in spec.versions and names_entity(spec)]
    return max((1 + (levels(spec.struct, version) if spec.struct else 0) for spec in inner), default=0)


@pytest.mark.parametrize(("kind", "version"), MATCHED)
def test_a_good_response_stays_as_it_is(kind: type[Request[Any]], version: int) -> None:
    request = sample(kind, version)
    response, same = full(request, version), full(request, version)
    assert check(request, response, version) == []
    assert response == same


@pytest.mark.parametrize(("kind", "version"), MATCHED)
def test_each_item_is_answered_once_with_any_response(kind: type[Request[Any]], version: int) -> None:
    request = sample(kind, version)
    good = full(request, version)
    wanted = dict.fromkeys(outer(request, good, version), 1)
    for seed in range(20):
        response = full(request, version)
        damage(Random(seed), response, version)
        check(request, response, version)
        assert outer(request, response, version) == wanted, f"seed {seed}"
        assert check(request, response, version) == []


def damage(random: Random, part: Struct, version: int) -> None:
    """Drop, repeat, rename and add items."""
    for spec in part.fields():
        if not (spec.array and spec.struct is not None and version in spec.versions and names_entity(spec)):
            continue
        listed = getattr(part, spec.name)
        for item in listed:
            damage(random, item, version)
        changed = [item for item in listed if random.random() < 0.7]
        if changed and random.random() < 0.5:
            changed.append(random.choice(changed))
        if random.random() < 0.5:
            changed.insert(0, sample(spec.struct, version, random.randrange(2, 5)))
        setattr(part, spec.name, changed)


def test_a_response_to_nothing_is_refused_as_a_whole_where_it_lacks_items() -> None:
    for kind, version in (each.values for each in MATCHED):
        request = sample(kind, version)
        response = kind.response()
        check(request, response, version)
        assert Counter(items(request, version)).total() == outer(request, response, version).total(), kind


# Single APIs

TWO = ListOffsetsRequest(
    topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=each) for each in (0, 1)])]
)


def offsets(*entries: tuple[str, int, int]) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=name, partitions=[ListOffsetsPartitionResponse(partition_index=number, offset=offset)]
            )
            for name, number, offset in entries
        ]
    )


@pytest.mark.parametrize(
    ("given", "known"),
    [
        pytest.param(offsets(("t", 0, 5), ("t", 1, 6)), {0: 5, 1: 6}, id="two entries for a topic"),
        pytest.param(offsets(("t", 0, 5)), {0: 5, 1: None}, id="left out"),
        pytest.param(offsets(("t", 0, 5), ("t", 1, 6), ("t", 77, 1)), {0: 5, 1: 6}, id="a partition not requested"),
        pytest.param(offsets(("t", 0, 5), ("T", 1, 6)), {0: 5, 1: None}, id="another topic"),
        pytest.param(offsets(("t", 0, 5), ("t", 1, 6), ("t", 0, 9)), {0: 5, 1: 6}, id="the first counts"),
        pytest.param(offsets(("t", 0, -1), ("t", 1, -2)), {0: -1, 1: None}, id="an offset below none"),
        pytest.param(offsets(), {0: None, 1: None}, id="empty"),
    ],
)
def test_offsets_that_are_not_given_are_not_known(given: ListOffsetsResponse, known: dict[int, int | None]) -> None:
    check(TWO, given, 7)
    (topic,) = given.topics
    assert {each.partition_index: None if each.error_code else each.offset for each in topic.partitions} == known
    assert {each.error_code for each in topic.partitions} <= {0, UNKNOWN}


GROUP = OffsetFetchRequest(
    groups=[
        OffsetFetchRequestGroup(
            group_id="g",
            topics=[OffsetFetchRequestTopics(name="t", topic_id=bytes(15) + b"1", partition_indexes=[0, 1])],
        )
    ]
)


def test_an_offset_that_is_left_out_is_not_one_that_was_never_committed() -> None:
    partitions = [OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1)]
    topic = OffsetFetchResponseTopics(topic_id=bytes(15) + b"1", partitions=partitions)
    response = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=[topic])])
    check(GROUP, response, 10)
    codes = {each.partition_index: each.error_code for each in response.groups[0].topics[0].partitions}
    assert codes == {1: 0, 0: ErrorCode.COORDINATOR_NOT_AVAILABLE}


def test_nothing_is_missing_if_the_whole_response_has_an_error() -> None:
    refused = OffsetFetchResponseGroup(group_id="g", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    response = OffsetFetchResponse(groups=[refused])
    assert check(GROUP, response, 10) == []
    assert response.groups[0].topics == []


@pytest.mark.parametrize(
    "found",
    [
        FindCoordinatorResponse(),
        FindCoordinatorResponse(coordinators=[Coordinator(key="other", node_id=1, host="a", port=1)]),
        FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=1, host="", port=1)]),
        FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=1, host="a" * 30_000, port=1)]),
        FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=1, host="a", port=70_000)]),
        FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=-5, host="a", port=1)]),
    ],
)
def test_a_coordinator_without_an_address_is_not_available(found: FindCoordinatorResponse) -> None:
    check(FindCoordinatorRequest(coordinator_keys=["g"]), found, 4)
    assert [(each.key, each.error_code) for each in found.coordinators] == [("g", ErrorCode.COORDINATOR_NOT_AVAILABLE)]


def test_a_coordinator_without_an_address_is_not_available_in_old_versions() -> None:
    response = FindCoordinatorResponse()
    check(FindCoordinatorRequest(key="g"), response, 2)
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("asked", "given", "code"),
    [
        ("", "mine", ErrorCode.NONE),
        ("mine", "mine", ErrorCode.NONE),
        ("mine", "\x00", ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ("", "", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_coordinator_changes_the_id_of_no_member_that_it_knows(asked: str, given: str, code: ErrorCode) -> None:
    response = JoinGroupResponse(generation_id=1, member_id=given)
    check(JoinGroupRequest(group_id="g", member_id=asked), response, 9)
    assert response.error_code == code


def test_a_response_without_items_that_cannot_be_is_refused() -> None:
    response = InitProducerIdResponse(producer_id=-1, producer_epoch=-1)
    assert described(check(InitProducerIdRequest(), response, 4)) == "an impossible value"
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def metadata(topics: list[MetadataResponseTopic], change: Callable[[MetadataResponse], None] = lambda _: None) -> Any:
    brokers = [MetadataResponseBroker(node_id=0, host="a", port=1)]
    response = MetadataResponse(brokers=brokers, topics=topics)
    change(response)
    check(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), response, 12)
    return response


def topic(*indexes: int, name: str = "t") -> MetadataResponseTopic:
    partitions = [MetadataResponsePartition(partition_index=index) for index in indexes]
    return MetadataResponseTopic(name=name, topic_id=bytes(15) + b"1", partitions=partitions)


def test_a_topic_without_partitions_is_not_ready() -> None:
    assert [each.error_code for each in metadata([topic()]).topics] == [UNKNOWN]


def test_a_topic_that_is_left_out_is_not_deleted() -> None:
    assert [(each.name, each.error_code) for each in metadata([topic(0, name="u")]).topics] == [("t", UNKNOWN)]


def test_what_a_topic_costs_depends_on_the_partitions_that_are_listed() -> None:
    listed = metadata([topic(0, 1, 999_999, -1, 1, 2**31 - 1, 4 + GAPS)]).topics[0].partitions
    assert [each.partition_index for each in listed] == [0, 1, 4 + GAPS]


def test_brokers_without_an_address_are_dropped() -> None:
    def change(response: MetadataResponse) -> None:
        bad = [(-1, "a", 1), (1, "", 1), (2, "a", 0), (3, "a", 70_000), (4, "a" * 256, 1), (0, "other", 1)]
        response.brokers += [MetadataResponseBroker(node_id=node, host=host, port=port) for node, host, port in bad]

    assert [(each.node_id, each.host) for each in metadata([topic(0)], change).brokers] == [(0, "a")]


def test_a_listing_of_all_topics_has_no_names_that_cannot_be() -> None:
    response = MetadataResponse(topics=[topic(0), topic(0, name="n" * 30_000), topic(0, name="a b")])
    check(MetadataRequest(topics=None), response, 12)
    assert [each.name for each in response.topics] == ["t"]


def test_the_log_says_once_a_minute_what_is_wrong_and_briefly(caplog: pytest.LogCaptureFixture) -> None:
    time = 0.0
    checker = AnswerChecker(lambda: time)
    with caplog.at_level(logging.WARNING, "aiokproto"):
        for _ in range(20):
            time += 10.0
            checker.check(TWO, offsets(*[("n" * 30_000, number, 1) for number in range(50)]), 7, 3)
    assert len(caplog.records) == 4
    text = caplog.records[0].getMessage()
    assert "broker 3" in text
    assert "ListOffsets" in text
    assert len(text) < 800


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_errors_quote_the_start_of_what_a_broker_says(code: ErrorCode) -> None:
    """A name has up to 32 kB, and so has a message."""
    error = error_for(code, "n" * 30_000, "m" * 30_000, Asked(0, topic="t" * 200))
    assert len(str(error)) < 3000
    assert "… (30000 characters)" in str(error)

"""What is refused to users with partial permissions: as the handlers declare it, and as real Kafka does it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from aiokproto.broker.handlers import find
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import REFUSALS, Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.security.security_state import SecurityState
from aiokproto.error_codes import ErrorCode
from tests.behaviour.partial_permissions import (
    CLOSED,
    OPERATIONS,
    PAIRS,
    Outcome,
    User,
    outcomes,
    permitted_users,
    prepare,
    served_by,
    users,
    users_without_the_first,
)
from tests.behaviour.requests_of_all_apis import Names, Sample, samples
from tests.behaviour.secured import Secured, as_user, secured_broker, until_open
from tests.broker.secure import grant
from tests.kafka.pool import RunningKafka

TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID

Outcomes = dict[tuple[str, str], Outcome]
"""By the user and the request."""


def declared(sample: Sample) -> list[Required]:
    handler = find(sample.request.api_key)
    assert handler is not None
    return [each for each in handler.requires if sample.version in each.versions]


def needed(sample: Sample) -> list[Required]:
    """What is declared for a request of this content."""
    in_transaction = getattr(sample.request, "transactional_id", "") is not None
    return [each for each in declared(sample) if in_transaction or each.resource_type is not TRANSACTIONAL_ID]


def lacked(user: User, required: Iterable[Required]) -> list[Required]:
    """What a user does not have of what is required."""
    return [
        each
        for each in required
        if not user.permits(each.operation, each.resource_type)
        and not (each.unless and user.permits(each.unless, ResourceType.CLUSTER))
    ]


Chosen = Iterable[tuple[str, int]] | None
"""Requests, by title and version; None for all."""


async def found(secured: Secured, everyone: Iterable[User], chosen: Chosen = None) -> Outcomes:
    """Send requests as each of the users."""
    everyone = list(everyone)
    async with as_user(secured, "admin") as admin:
        served = await served_by(admin)
        names = await prepare(admin, everyone[0].name.split("-")[0])
        requests = [each for each in samples(names, served) if chosen is None or (each.name, each.version) in chosen]
        async with permitted_users(admin, everyone):
            return {
                (str(user), title): outcome
                for user in everyone
                for title, outcome in (await outcomes(secured, user, requests, names)).items()
            }


def prefix() -> str:
    return f"p{secrets.token_hex(4)}"


ANY_NAMES = Names({"a": bytes(16), "b": bytes(16)}, ("g", "h"), "x")
ALL = {f"{each.name} v{each.version}": each for each in samples(ANY_NAMES)}
NEWEST = {each.name: each for each in ALL.values()}


def check_declarations(outcomes: Outcomes, everyone: Iterable[User]) -> None:
    by_name = {str(user): user for user in everyone}
    for (user, title), outcome in outcomes.items():
        missing = lacked(by_name[user], needed(ALL[title]))
        refusals = {place.split(" ")[-1] for place in outcome if not place.endswith(" is listed")}
        where = (user, title)
        if not missing:
            assert (where, refusals) == (where, set())
        # In the order of the declaration; what handlers decide themselves they may do without an error.
        first = next((each for each in missing if not each.otherwise), None)
        if first is None:
            continue
        kind = first.resource_type
        # Of a request for all topics there is nothing to refuse.
        hidden = ALL[title].lists and not any(kind.name.lower() in place for place in outcome)
        assert (where, hidden or REFUSALS[kind].name in refusals) == (where, True), outcome


READ_GROUP = (ResourceType.GROUP, Operation.READ)
WRITE_TOPIC = (ResourceType.TOPIC, Operation.WRITE)
SOME = [
    (ResourceType.TOPIC, Operation.READ),
    (ResourceType.TRANSACTIONAL_ID, Operation.WRITE),
    (ResourceType.CLUSTER, Operation.CLUSTER_ACTION),
]


async def test_users_who_lack_one_operation_are_refused_as_declared() -> None:
    everyone = [each for each in users(prefix()) if not each.only and each[1:3] in SOME]
    newest = [(each.name, each.version) for each in NEWEST.values()]
    async with secured_broker() as secured:
        check_declarations(await found(secured, everyone, newest), everyone)


@pytest.mark.extended
async def test_all_users_with_partial_permissions_are_refused_as_declared() -> None:
    everyone = users(prefix())
    async with secured_broker() as secured:
        outcomes = await found(secured, everyone)
    assert len(outcomes) == len(ALL) * 2 * len(PAIRS)
    check_declarations(outcomes, everyone)


def check_parts(outcomes: Outcomes, everyone: Iterable[User]) -> int:
    """Of two resources only the one without the permission is refused. Returns how often one is."""
    by_name = {str(user): user for user in everyone}
    parts = 0
    for (user, title), outcome in outcomes.items():
        kind, where = by_name[user].resource_type, (user, title)
        lacks = [
            each
            for each in needed(ALL[title])
            if (each.operation, each.resource_type) == (by_name[user].operation, kind) and not each.unless
        ]
        refused = {place for place in outcome if place.endswith(REFUSALS[kind].name)}
        second = {place for place in outcome if f"{kind.name.lower()} 1" in place and not place.endswith(" is listed")}
        if not lacks:
            assert (where, refused, second) == (where, set(), set())
        if any(not each.otherwise for each in lacks) and any("0" in place for place in refused):
            attempted = {place for place in second if not place.endswith(ErrorCode.OPERATION_NOT_ATTEMPTED.name)}
            assert (where, attempted) == (where, set())
            assert (where, bool(second)) == (where, any(each.together for each in lacks))
            parts += 1
    return parts


async def test_users_who_lack_an_operation_on_one_of_two_resources_are_refused_that_one() -> None:
    everyone = [each for each in users_without_the_first(prefix()) if each[1:3] in (SOME[0], WRITE_TOPIC, READ_GROUP)]
    newest = [(each.name, each.version) for each in NEWEST.values()]
    # The last version for clients, where all is served or nothing.
    newest.append(("AddPartitionsToTxn", 3))
    async with secured_broker() as secured:
        assert check_parts(await found(secured, everyone, newest), everyone) > 10


@pytest.mark.extended
async def test_all_users_who_lack_an_operation_on_one_of_two_resources_are_refused_that_one() -> None:
    everyone = users_without_the_first(prefix())
    async with secured_broker() as secured:
        assert check_parts(await found(secured, everyone), everyone) > 130


# ---- brokers ask for nothing else


@pytest.mark.parametrize("versions", ["newest", pytest.param("all", marks=pytest.mark.extended)])
async def test_brokers_ask_for_what_handlers_declare(monkeypatch: pytest.MonkeyPatch, versions: str) -> None:
    """For each version: for nothing else, and for all of it, if what it is about exists."""
    asked: set[tuple[Operation, ResourceType]] = set()
    decide, decide_any = SecurityState.is_authorized, SecurityState.is_authorized_for_any

    def recorded(state: SecurityState, session: Any, operation: Operation, kind: ResourceType, name: str) -> bool:
        asked.add((operation, kind))
        return decide(state, session, operation, kind, name)

    def recorded_any(state: SecurityState, session: Any, operation: Operation, kind: ResourceType) -> bool:
        asked.add((operation, kind))
        return decide_any(state, session, operation, kind)

    monkeypatch.setattr(SecurityState, "is_authorized", recorded)
    monkeypatch.setattr(SecurityState, "is_authorized_for_any", recorded_any)
    # Asks for everything that there is.
    monkeypatch.setattr(RequestContext, "authorized_operations", lambda *_: 0)
    name = prefix()
    everyone = [
        # Each is refused at another place.
        User(f"{name}-{number}", kind, operation, False)
        for number, (kind, operation) in enumerate(
            [
                (ResourceType.CLUSTER, Operation.DESCRIBE),
                (ResourceType.CLUSTER, Operation.ALTER),
                (ResourceType.CLUSTER, Operation.CREATE),
                (ResourceType.CLUSTER, Operation.DELETE),
                (ResourceType.CLUSTER, Operation.CLUSTER_ACTION),
                (ResourceType.TOPIC, Operation.WRITE),
                (ResourceType.TOPIC, Operation.DELETE),
                (ResourceType.DELEGATION_TOKEN, Operation.DESCRIBE),
            ]
        )
    ]
    used: dict[str, set[tuple[Operation, ResourceType]]] = {}
    async with secured_broker() as secured:
        async with as_user(secured, "admin") as admin:
            names = await prepare(admin, name)
            await grant(admin, *(each for user in everyone for each in user.acls))
        async with AsyncExitStack() as stack:
            for user in everyone:
                wire = await stack.enter_async_context(as_user(secured, user.name))
                for sample in samples(names):
                    if versions == "newest" and sample.version != NEWEST[sample.name].version:
                        continue
                    asked.clear()
                    await wire.ask(sample.request, sample.version)
                    title = f"{sample.name.split(',')[0]} v{sample.version}"
                    used.setdefault(title, set()).update(asked)
    undeclared, unused = {}, {}
    for title, operations in used.items():
        required = declared(ALL[title])
        permitted = {(each.operation, each.resource_type) for each in required}
        permitted |= {(each.unless, ResourceType.CLUSTER) for each in required if each.unless}
        undeclared[title] = operations - permitted
        unused[title] = {each for each in permitted - operations if (title.split(" ")[0], *each) not in IF_IT_EXISTS}
    assert {title: each for title, each in undeclared.items() if each} == {}
    assert {title: each for title, each in unused.items() if each} == {}


IF_IT_EXISTS = {
    ("DeleteTopics", Operation.DELETE, ResourceType.TOPIC),
    ("CreateTopics", Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC),
    ("DescribeTransactions", Operation.DESCRIBE, ResourceType.TOPIC),
    ("DescribeDelegationToken", Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN),
    ("DescribeDelegationToken", Operation.DESCRIBE_TOKENS, ResourceType.USER),
    ("ConsumerGroupDescribe", Operation.DESCRIBE, ResourceType.TOPIC),
    ("ShareGroupDescribe", Operation.DESCRIBE, ResourceType.TOPIC),
    ("StreamsGroupDescribe", Operation.DESCRIBE, ResourceType.TOPIC),
    ("StreamsGroupHeartbeat", Operation.CREATE, ResourceType.TOPIC),
    ("StreamsGroupHeartbeat", Operation.CREATE, ResourceType.CLUSTER),
    ("ShareAcknowledge", Operation.READ, ResourceType.TOPIC),
}
"""What brokers ask for only with a topic, group, transaction or session that these requests do not have."""


# ---- real Kafka


DIFFERENCES = {
    "Produce v0": "Kafka lists v0 to v2 for old clients, and then closes the connection",
    "Produce v1": "",
    "Produce v2": "",
    "DeleteShareGroupOffsets v0": "the group is unknown, which Kafka reports instead of the topics' errors",
    "DescribeLogDirs v1": "Kafka's response to v1 and v2 has no place for the error, and is empty",
    "DescribeLogDirs v2": "",
    **{f"Metadata, creating v{version}": "the tests' Kafka creates no topics" for version in range(14)},
}
"""Why a request is refused otherwise."""


def without_repetitions(outcome: Outcome) -> Outcome:
    """What real Kafka repeats at fewer places: the error of a request or group, for each part of it."""
    places = [each.rpartition(" ")[::2] for each in outcome]

    def is_repeated(place: str, error: str) -> bool:
        return any(
            error == other_error and other != place and place.startswith(other.rpartition("/")[0] + "/")
            for other, other_error in places
        )

    return frozenset(f"{place} {error}" for place, error in places if not is_repeated(place, error))


async def compared(secured_kafka: RunningKafka, everyone: list[User]) -> int:
    await until_open(secured_kafka.bootstrap_servers)
    by_kafka = await found(Secured("kafka", secured_kafka.bootstrap_servers), everyone)
    async with secured_broker() as secured:
        here = await found(secured, everyone)
    common = [each for each in by_kafka if each in here and each[1] not in DIFFERENCES]
    for each in common:
        assert (each, without_repetitions(here[each])) == (each, without_repetitions(by_kafka[each]))
        assert CLOSED not in here[each]
    return len(common)


@pytest.mark.kafka
@pytest.mark.parametrize("only", [False, True], ids=["all but one operation", "one operation"])
@pytest.mark.parametrize("resource_type", OPERATIONS, ids=lambda each: each.name)
async def test_kafka_refuses_the_same(secured_kafka: RunningKafka, resource_type: ResourceType, only: bool) -> None:
    everyone = [each for each in users(prefix()) if each.resource_type is resource_type and each.only is only]
    assert await compared(secured_kafka, everyone) > 300 * len(everyone)


@pytest.mark.kafka
@pytest.mark.parametrize("resource_type", [ResourceType.TOPIC, ResourceType.GROUP], ids=lambda each: each.name)
async def test_kafka_refuses_the_same_of_two_resources(
    secured_kafka: RunningKafka, resource_type: ResourceType
) -> None:
    everyone = [each for each in users_without_the_first(prefix()) if each.resource_type is resource_type]
    assert await compared(secured_kafka, everyone) > 300 * len(everyone)

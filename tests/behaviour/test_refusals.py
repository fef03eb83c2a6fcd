"""Errors of clients without a permission name the operation and the resource that were refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from aiokproto import Client, Consumer, Producer, ShareConsumer
from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig
from aiokproto.errors import AuthorizationError, KafkaError, TransactionAbortedError
from aiokproto.group.streams_member import StreamsListener, StreamsMember
from aiokproto.types import OffsetAndMetadata, TopicPartition
from tests.behaviour.secured import Secured, as_user, create, revoke, rule, secured_broker
from tests.behaviour.test_streams_member import counting
from tests.broker.secure import (
    CREATE,
    DESCRIBE,
    GROUP,
    PREFIXED,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    grant,
    unsecured,
)
from tests.timeouts import LONG_TIMEOUT


class Unsecured:
    """A mechanism for any user, with an unsigned token."""

    name = "OAUTHBEARER"

    def __init__(self, user: str) -> None:
        self.user = user

    def exchange(self, host: str) -> Unsecured:
        return Unsecured(self.user)

    complete = True

    async def start(self) -> bytes:
        return unsecured(self.user)

    async def respond(self, challenge: bytes) -> bytes | None:
        return None


async def send(options: dict[str, Any], topic: str, **more: Any) -> None:
    async with Producer(**options, **more) as producer:
        await producer.send(topic, b"x")


async def transact(options: dict[str, Any], topic: str) -> None:
    async with Producer(**options, transactional_id=topic) as producer, producer.transaction() as transaction:
        await transaction.send(topic, b"x")


async def commit_offsets(options: dict[str, Any], topic: str) -> None:
    async with Client(**options) as client:
        await client.metadata([topic])
    async with Consumer(**options, group_id=topic) as consumer:
        consumer.assign((topic, 0))
        (await consumer.commit({(topic, 0): 1})).check()


async def consume(options: dict[str, Any], topic: str, *, group: bool) -> None:
    if group:
        async with Consumer(topic, **options, group_id=topic) as consumer:
            async for _ in consumer:
                pass
    else:
        async with Consumer(**options, auto_offset_reset="earliest") as consumer:
            consumer.assign((topic, 0))
            async for _ in consumer:
                pass


async def create_by_producing(options: dict[str, Any], topic: str) -> None:
    """The broker would create the topic if it were permitted."""
    async with Producer(**options, enable_idempotence=False) as producer:
        await producer.send(f"{topic}-new", b"x")


async def transact_offsets(options: dict[str, Any], topic: str) -> None:
    async with Producer(**options, transactional_id=topic) as producer, producer.transaction() as transaction:
        await transaction.send(topic, b"x")
        await transaction.send_offsets({TopicPartition(topic, 0): OffsetAndMetadata(1)}, topic)


async def consume_new(options: dict[str, Any], topic: str) -> None:
    async with Consumer(topic, **options, group_id=topic, group_protocol="consumer") as consumer:
        async for _ in consumer:
            pass


async def share(options: dict[str, Any], topic: str) -> None:
    async with ShareConsumer(topic, **options, group_id=topic) as consumer:
        async for _ in consumer:
            pass


async def process(options: dict[str, Any], topic: str) -> None:
    cluster = ClusterClient(ClusterConfig.parse(options))
    await cluster.start()
    try:
        await StreamsMember(cluster, topic, counting(topic), StreamsListener()).run()
    finally:
        await cluster.close()


class Case(NamedTuple):
    """What a user has, what the client does, and what it lacks: the operation, and on which kind of resource.

    The topic, the group and the transactional id have the same name.
    """

    granted: list[tuple[int, int]]
    call: Callable[[dict[str, Any], str], Awaitable[None]]
    operation: str
    resource_type: str


SEE = (TOPIC, DESCRIBE)
WRITES = [(TOPIC, WRITE), (TRANSACTIONAL_ID, WRITE)]
CASES = {
    "a topic that it may not see": Case([], lambda o, t: send(o, t, enable_idempotence=False), "DESCRIBE", "topic"),
    "writing": Case([SEE], lambda o, t: send(o, t, enable_idempotence=False), "WRITE", "topic"),
    "idempotent writing": Case([SEE], send, "IDEMPOTENT_WRITE", "cluster"),
    "a transactional id that it may not see": Case([SEE], transact, "DESCRIBE", "transactional id"),
    "a transactional id": Case([SEE, (TRANSACTIONAL_ID, DESCRIBE)], transact, "WRITE", "transactional id"),
    "writing in a transaction": Case([SEE, (TRANSACTIONAL_ID, WRITE)], transact, "WRITE", "topic"),
    "reading": Case([SEE], lambda o, t: consume(o, t, group=False), "READ", "topic"),
    "a group that it may not see": Case([SEE], lambda o, t: consume(o, t, group=True), "DESCRIBE", "group"),
    "joining a group": Case([SEE, (GROUP, DESCRIBE)], lambda o, t: consume(o, t, group=True), "READ", "group"),
    "committing": Case([SEE, (GROUP, READ)], commit_offsets, "READ", "topic"),
    "reading in a group": Case([SEE, (GROUP, READ)], lambda o, t: consume(o, t, group=True), "READ", "topic"),
    "a consumer group that it may not see": Case([SEE], consume_new, "DESCRIBE", "group"),
    "a consumer group": Case([SEE, (GROUP, DESCRIBE)], consume_new, "READ", "group"),
    "a topic of a consumer group": Case([(GROUP, READ)], consume_new, "DESCRIBE", "topic"),
    "reading in a consumer group": Case([SEE, (GROUP, READ)], consume_new, "READ", "topic"),
    "a share group that it may not see": Case([SEE], share, "DESCRIBE", "group"),
    "a share group": Case([SEE, (GROUP, DESCRIBE)], share, "READ", "group"),
    "a topic of a share group": Case([(GROUP, READ)], share, "DESCRIBE", "topic"),
    "reading in a share group": Case([SEE, (GROUP, READ)], share, "READ", "topic"),
    "a streams group that it may not see": Case([SEE], process, "DESCRIBE", "group"),
    "a streams group": Case([SEE, (GROUP, DESCRIBE)], process, "READ", "group"),
    "a group in a transaction that it may not see": Case(WRITES, transact_offsets, "DESCRIBE", "group"),
    "a group in a transaction": Case([*WRITES, (GROUP, DESCRIBE)], transact_offsets, "READ", "group"),
    "a group's topic in a transaction": Case([*WRITES, (GROUP, READ)], transact_offsets, "READ", "topic"),
}


@pytest.mark.parametrize("name", CASES)
async def test_an_error_names_what_was_refused(secured: Secured, topic: str, user: str, name: str) -> None:
    case = CASES[name]
    options = {
        "bootstrap_servers": secured.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": Unsecured(user),
    }
    async with as_user(secured, "admin") as admin:
        await create(admin, topic)
        await grant(admin, *(rule(user, kind, topic, operation) for kind, operation in case.granted))
        try:
            with pytest.raises(KafkaError) as raised:
                await case.call(options, topic)
        finally:
            await revoke(admin, user)
    found: BaseException | None = raised.value
    while found is not None and not isinstance(found, AuthorizationError):
        assert isinstance(found, KafkaError | TransactionAbortedError)
        found = found.__cause__
    assert found is not None, raised.value
    resource = "kafka-cluster" if case.resource_type == "cluster" else topic
    assert (found.operation, found.resource_type, found.resource_name) == (case.operation, case.resource_type, resource)
    assert f"{case.operation} on {case.resource_type}" in str(found)
    assert found.principal == f"User:{user}"
    assert f"kafka-acls.sh --add --allow-principal User:{user} " in str(found)


@pytest.mark.parametrize("granted", [[], [DESCRIBE]])
async def test_one_error_names_all_topics_that_are_refused_and_the_principal(
    secured: Secured, topic: str, user: str, granted: list[int]
) -> None:
    topics = {topic, f"{topic}-b"}
    async with as_user(secured, "admin") as admin:
        for name in topics:
            await create(admin, name)
            await grant(admin, *(rule(user, TOPIC, name, operation) for operation in granted))
        consumer = Consumer(
            *topics,
            bootstrap_servers=secured.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=Unsecured(user),
            auto_offset_reset="earliest",
        )

        async def until_all_are_named() -> AuthorizationError:
            while True:
                try:
                    await consumer.poll(10)
                except AuthorizationError as error:
                    if len(error.resource_names) == 2:
                        return error

        try:
            if granted:
                async with consumer:
                    found = await asyncio.wait_for(until_all_are_named(), LONG_TIMEOUT)
            else:
                with pytest.raises(AuthorizationError) as raised:
                    await consumer.start()
                found = raised.value
        finally:
            await revoke(admin, user)
    assert set(found.resource_names) == topics
    assert found.principal == f"User:{user}"
    assert f"--allow-principal User:{user} " in str(found)
    assert all(f"--topic {name}" in str(found) for name in topics)


async def test_a_topic_that_a_producer_may_write_and_not_create(user: str) -> None:
    """Brokers respond the same for a topic that may not be described. Real Kafka creates no topic here."""
    async with secured_broker() as secured, as_user(secured, "admin") as admin:
        options = {
            "bootstrap_servers": secured.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": Unsecured(user),
        }
        await grant(admin, rule(user, TOPIC, "orders", WRITE, pattern=PREFIXED))
        with pytest.raises(AuthorizationError, match="if the topic does not exist yet, it needs CREATE too"):
            await create_by_producing(options, "orders")
        await grant(admin, rule(user, TOPIC, "orders", CREATE, pattern=PREFIXED))
        await create_by_producing(options, "orders")

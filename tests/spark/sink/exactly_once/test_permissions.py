"""The permissions that the documentation of the sink lists: they are enough, and needed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from aiokproto.client import Client
from aiokproto.codec.messages.create_acls import AclCreation
from aiokproto.errors import KafkaError
from aiokproto.spark.worker import Worker
from tests.behaviour.conftest import secured, secured_kafka, user
from tests.behaviour.secured import Secured, as_user, create, revoke, rule
from tests.broker.secure import (
    CREATE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    PREFIXED,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    TWO_PHASE_COMMIT,
    USERS,
    WRITE,
    grant,
)
from tests.spark.sink.exactly_once.harness import Job, batches, values

__all__ = ["secured", "secured_kafka", "user"]

Permission = tuple[str, int]

LISTED: list[Permission] = [
    ("topic", WRITE),
    ("ids", WRITE),
    ("ids", DESCRIBE),
    ("state", READ),
    ("state", WRITE),
    ("state", DESCRIBE_CONFIGS),
    ("state", CREATE),
]
NOT_NEEDED: list[Permission] = [("ids", DESCRIBE), ("state", DESCRIBE_CONFIGS)]
"""The first is implied by WRITE in Kafka's authorizer; without the second there is a warning."""


class Granted:
    """A job of a user, and how it gets permissions."""

    def __init__(self, secured: Secured, worker: Worker, topic: str, user: str) -> None:
        module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
        options = {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.jaas.config": f'{module} required unsecuredLoginStringClaim_sub="{user}";',
        }
        self.job = Job(secured, worker, topic, options)
        self._secured, self._user = secured, user

    async def grant(self, permissions: Sequence[Permission]) -> None:
        user, job = self._user, self.job
        rules: dict[str, Callable[[int], AclCreation]] = {
            "topic": lambda operation: rule(user, TOPIC, job.topic, operation),
            "ids": lambda operation: rule(user, TRANSACTIONAL_ID, job.prefix, operation, pattern=PREFIXED),
            "state": lambda operation: rule(user, TOPIC, f"{job.prefix}-state", operation),
        }
        async with as_user(self._secured, "admin") as admin:
            await grant(admin, *(rules[resource](operation) for resource, operation in permissions))

    async def committed(self) -> list[bytes | None]:
        async with Client(
            bootstrap_servers=self._secured.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_username="admin",
            sasl_password=USERS["admin"],
        ) as client:
            return await self.job.committed(client)


@pytest.fixture
async def granted(secured: Secured, worker: Worker, topic: str, user: str) -> AsyncIterator[Granted]:
    async with as_user(secured, "admin") as admin:
        await create(admin, topic)
        try:
            yield Granted(secured, worker, topic, user)
        finally:
            await revoke(admin, user)


@pytest.mark.parametrize("two_phase", [False, True])
async def test_the_listed_permissions_are_enough(granted: Granted, two_phase: bool) -> None:
    if two_phase:
        granted.job.options["kafka.transaction.two.phase.commit.enable"] = "true"
    await granted.grant([*LISTED, ("ids", TWO_PHASE_COMMIT)] if two_phase else LISTED)
    given = batches(2)
    await granted.job.run(given)
    assert await granted.committed() == values(given)


@pytest.mark.parametrize("missing", [one for one in LISTED if one not in NOT_NEEDED])
async def test_each_of_them_is_needed(granted: Granted, missing: Permission) -> None:
    await granted.grant([one for one in LISTED if one != missing])
    # The state topic is read and checked from the second batch on.
    with pytest.raises(KafkaError, match="AUTHORIZATION_FAILED"):
        await granted.job.run(batches(2))


async def test_without_describe_configs_there_is_a_warning(granted: Granted, caplog: pytest.LogCaptureFixture) -> None:
    await granted.grant([one for one in LISTED if one not in NOT_NEEDED])
    given = batches(2)
    await granted.job.run(given)
    assert await granted.committed() == values(given)
    assert "cleanup.policy, which must be compact, could not be checked" in caplog.text

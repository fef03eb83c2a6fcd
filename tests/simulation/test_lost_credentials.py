"""The logs of clients in virtual time whose credentials cannot be read any more, or are rejected."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokproto import Consumer, Producer, ShareConsumer
from aiokproto.broker import Cluster, Security
from aiokproto.cluster import ClusterClient, CoordinatorKind
from aiokproto.config import ClusterConfig
from aiokproto.errors import AuthenticationError, DeadlineError
from aiokproto.simulation import Simulation

SECURITY = Security("SASL_PLAINTEXT", users={"alice": "secret"})
REASON = "sasl_password cannot be read: OSError (its text is left out, as it may have a secret)"


class Vault:
    """Provides the password of each new connection."""

    def __init__(self) -> None:
        self.sealed = False
        self.password = "secret"

    def __call__(self) -> str:
        if self.sealed:
            raise OSError("the vault is sealed")
        return self.password

    def options(self, cluster: Cluster) -> dict[str, Any]:
        return {
            "bootstrap_servers": cluster.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_username": "alice",
            "sasl_password": self,
        }


async def restart(cluster: Cluster) -> None:
    """End all connections."""
    await cluster.stop_broker(0)
    await cluster.start_broker(0)


def messages(caplog: pytest.LogCaptureFixture, level: int, text: str = "") -> list[str]:
    found = [record for record in caplog.records if record.levelno == level and record.name != "aiokproto.broker"]
    return [record.getMessage() for record in found if text in record.getMessage()]


def test_a_failed_commit_says_that_the_credentials_cannot_be_read(caplog: pytest.LogCaptureFixture) -> None:
    """The commit's deadline comes before the deadline of the search for the coordinator, which knows the reason."""
    vault = Vault()

    async def main() -> None:
        async with Cluster(1, security=SECURITY) as cluster:
            await cluster.create_topic("t")
            async with Producer(**vault.options(cluster)) as producer:
                await producer.send_many("t", [b"a", b"b"])
            async with Consumer(
                "t",
                **vault.options(cluster),
                group_id="g",
                auto_offset_reset="earliest",
                auto_commit_interval_ms=1000,
                session_timeout_ms=300_000,
            ) as consumer:
                async for record in consumer:
                    if record.offset == 1:
                        break
                vault.sealed = True
                await restart(cluster)
                await asyncio.sleep(30)
                warned = messages(caplog, logging.WARNING, "commit, will be repeated")
                assert len(warned) > 2
                assert all(REASON in text for text in warned), warned
                vault.sealed = False

    with caplog.at_level(logging.WARNING, "aiokproto"):
        Simulation(1).run(main())


def test_the_deadline_of_a_lookup_says_that_the_credentials_cannot_be_read() -> None:
    vault = Vault()

    async def main() -> None:
        async with Cluster(1, security=SECURITY) as cluster:
            client = ClusterClient(ClusterConfig.parse(vault.options(cluster)))
            await client.start()
            vault.sealed = True
            await restart(cluster)
            with pytest.raises(DeadlineError, match=f"was not found in 5 s; last failure: .*{re.escape(REASON)}"):
                await client.coordinator(CoordinatorKind.GROUP, "g", 5.0)
            await client.close()

    Simulation(1).run(main())


async def consume(options: dict[str, Any]) -> None:
    async with Consumer("t", **options, group_id="g", auto_offset_reset="earliest") as consumer:
        async for _ in consumer:
            pass


async def share(options: dict[str, Any]) -> None:
    async with ShareConsumer("t", **options, group_id="s") as consumer:
        async for _ in consumer:
            pass


async def produce(options: dict[str, Any]) -> None:
    async with Producer(**options) as producer:
        while True:
            await producer.send("t", b"value")
            await asyncio.sleep(1)


@pytest.mark.parametrize("work", [consume, share, produce])
def test_a_password_that_is_rejected_is_one_entry_of_the_log(
    work: Callable[[dict[str, Any]], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    """Other parts of the client may end with it: consumers and producers have parts that fail with the same error."""
    vault = Vault()

    async def main() -> None:
        async with Cluster(1, security=SECURITY) as cluster:
            await cluster.create_topic("t")
            works = asyncio.ensure_future(work(vault.options(cluster)))
            await asyncio.sleep(10)
            vault.password = "wrong"
            await restart(cluster)
            with pytest.raises(AuthenticationError, match="rejected the credentials of 'alice'"):
                await works
            await asyncio.sleep(60)

    with caplog.at_level(logging.WARNING, "aiokproto"):
        Simulation(1).run(main())
    (text,) = messages(caplog, logging.ERROR)
    assert text.startswith("the client has failed: ")
    assert "rejected the credentials of 'alice'" in text


class ClosedVault(Vault):
    """Says in the client's own terms that there is no password any more. The cause has the vault's token."""

    def __call__(self) -> str:
        try:
            return super().__call__()
        except OSError:
            raise AuthenticationError("the vault is closed") from ValueError("hvs.zq-token-zq")


@pytest.mark.parametrize("work", [consume, share, produce])
def test_the_log_has_the_text_of_an_error_of_the_application_and_not_its_causes_text(
    work: Callable[[dict[str, Any]], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    vault = ClosedVault()

    async def main() -> None:
        async with Cluster(1, security=SECURITY) as cluster:
            await cluster.create_topic("t")
            works = asyncio.ensure_future(work(vault.options(cluster)))
            await asyncio.sleep(10)
            vault.sealed = True
            await restart(cluster)
            with pytest.raises(AuthenticationError, match="the vault is closed"):
                await works

    with caplog.at_level(logging.DEBUG):
        Simulation(1).run(main())
    (text,) = messages(caplog, logging.ERROR)
    assert text.endswith("the vault is closed")
    assert "zq-token-zq" not in caplog.text

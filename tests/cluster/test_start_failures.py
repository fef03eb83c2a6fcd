"""A failed ``start()`` raises the same error from every kind of client: each address with its cause, and a remedy."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from aiokproto.broker import Broker, Security
from aiokproto.client import Client
from aiokproto.consumer import Consumer
from aiokproto.errors import BootstrapError, ConfigurationError
from aiokproto.producer import Producer


def closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.mark.parametrize("kind", [Client, Consumer, Producer])
async def test_start_names_the_addresses_and_the_cause(kind: Any) -> None:
    ports = closed_port(), closed_port()
    servers = [f"127.0.0.1:{port}" for port in ports]
    client = kind(bootstrap_servers=servers, bootstrap_resolve_timeout_ms=0)
    with pytest.raises(BootstrapError) as caught:
        await client.start()
    text = str(caught.value)
    assert text.startswith("no bootstrap address could be used: ")
    assert all(server in text for server in servers)
    assert "connection refused" in text
    assert text.endswith("; check bootstrap_servers and security_protocol")
    await client.close()


async def test_a_password_file_that_is_missing_is_the_only_thing_to_check(tmp_path: Path) -> None:
    async with Broker(security=Security("SASL_PLAINTEXT", users={"me": "secret"})) as broker:
        client = Client(
            bootstrap_servers=broker.bootstrap_servers,
            bootstrap_resolve_timeout_ms=0,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_username="me",
            sasl_password=tmp_path / "missing.txt",
        )
        with pytest.raises(BootstrapError, match=r"sasl_password cannot be read: FileNotFoundError.*missing\.txt'$"):
            await client.start()


@pytest.mark.parametrize("topics", ["flights", b"flights", [b"flights"]])
async def test_topics_that_are_not_a_list_of_names_are_an_error(topics: Any) -> None:
    async with Broker() as broker, Client(bootstrap_servers=broker.bootstrap_servers) as client:
        with pytest.raises(ConfigurationError, match="expected a list of topic names"):
            await client.metadata(topics)

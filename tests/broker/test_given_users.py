"""Users in the broker's configuration have the password that the configuration says, with every mechanism."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from aiokproto import Client
from aiokproto.broker import Broker, Security
from aiokproto.codec.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import AuthenticationError
from tests.broker.secure import USERS, logged_in

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
OLD, NEW = USERS["alice"], "another"


def upsertion(user: str, mechanism: int = 1) -> ScramCredentialUpsertion:
    salted = hashlib.pbkdf2_hmac(("sha256", "sha512")[mechanism - 1], NEW.encode(), b"salt", 4096)
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=4096, salt=b"salt", salted_password=salted
    )


def broker(data_dir: Path, users: dict[str, str]) -> Broker:
    return Broker(security=Security("SASL_PLAINTEXT", users=users), data_dir=data_dir)


async def alter(cluster: Broker, *changes: Any) -> AlterUserScramCredentialsResponse:
    """Change credentials as ``admin``."""
    deletions = [change for change in changes if isinstance(change, ScramCredentialDeletion)]
    upsertions = [change for change in changes if isinstance(change, ScramCredentialUpsertion)]
    async with logged_in(cluster, "admin") as admin:
        return await admin.ask(AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions))


async def accepted(cluster: Broker, user: str, password: str) -> list[str]:
    """Return the mechanisms with which a user can log in."""
    found = []
    for mechanism in MECHANISMS:
        login: dict[str, Any] = {"sasl_mechanism": mechanism, "sasl_username": user, "sasl_password": password}
        servers = cluster.bootstrap_servers
        try:
            async with Client(bootstrap_servers=servers, security_protocol="SASL_PLAINTEXT", **login):
                found.append(mechanism)
        except AuthenticationError:
            continue
    return found


@pytest.mark.parametrize(
    "change", [upsertion("alice"), upsertion("alice", 2), ScramCredentialDeletion(name="alice", mechanism=1)]
)
async def test_requests_do_not_change_given_users(change: Any, tmp_path: Path) -> None:
    async with broker(tmp_path, USERS) as cluster:
        answer = await alter(cluster, change, upsertion("bob"))
        results = {result.user: (result.error_code, result.error_message) for result in answer.results}
        refused = (
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "The user and its password are in the configuration of the broker: change them there",
        )
        assert results == {"alice": refused, "bob": (0, None)}
        assert await accepted(cluster, "alice", NEW) == []
    async with broker(tmp_path, USERS) as cluster:
        assert await accepted(cluster, "alice", OLD) == list(MECHANISMS)
        assert await accepted(cluster, "bob", NEW) == ["SCRAM-SHA-256"]


async def test_the_given_password_replaces_a_stored_credential(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker(tmp_path, {"admin": USERS["admin"]}) as cluster:
        answer = await alter(cluster, upsertion("alice"), upsertion("bob"))
        assert [result.error_code for result in answer.results] == [0, 0]
    with caplog.at_level(logging.WARNING, "aiokproto.broker"):
        async with broker(tmp_path, USERS) as cluster:
            (line,) = [record.getMessage() for record in caplog.records]
            assert await accepted(cluster, "alice", NEW) == []
            assert await accepted(cluster, "alice", OLD) == list(MECHANISMS)
            await alter(cluster, upsertion("carol"))
    assert line == "users: the password of 'alice' replaces the SCRAM-SHA-256 credential in data_dir"
    stored = json.loads((tmp_path / "security.json").read_text())["scram_credentials"]
    assert sorted(entry["user"] for entry in stored) == ["bob", "carol"]

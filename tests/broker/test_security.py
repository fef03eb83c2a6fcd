"""Listeners: TLS principals, limits of connections, idle time, and state that survives a restart."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path
from typing import Any

import pytest

from aiokproto.broker import Broker, Cluster, Security, VirtualClock
from aiokproto.codec.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from aiokproto.codec.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.messages.sasl_authenticate import SaslAuthenticateRequest
from aiokproto.codec.messages.sasl_handshake import SaslHandshakeRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import ConfigurationError
from tests.broker.secure import (
    ANY_ACL,
    AUTHORIZER,
    DESCRIBE,
    READ,
    TOPIC,
    USERS,
    WRITE,
    Certificates,
    acl,
    authenticate,
    grant,
    guarded,
    logged_in,
    plain,
)
from tests.broker.wire import Wire, batch, connect, connect_to, fetch_request, produce_request
from tests.timeouts import LONG_TIMEOUT


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


# ---- TLS


async def test_a_client_certificate_is_the_principal(certificates: Certificates) -> None:
    config = certificates.options(**{"ssl.client.auth": "requested", "authorizer.class.name": AUTHORIZER})
    alice = f"User:{certificates.client_name}"
    async with Broker(security=Security("SSL"), config={**config, "super.users": alice}) as broker:
        await broker.create_topic("t")
        for with_client, expected in ((True, 0), (False, ErrorCode.TOPIC_AUTHORIZATION_FAILED)):
            async with connect_to(broker.bootstrap_servers, certificates.context(with_client=with_client)) as wire:
                answer = await wire.ask(produce_request("t", batch([b"x"])), 9)
                assert answer.responses[0].partition_responses[0].error_code == expected


async def test_a_client_without_a_certificate_that_is_required(certificates: Certificates) -> None:
    config = certificates.options(**{"ssl.client.auth": "required"})
    async with Broker(security=Security("SSL"), config=config) as broker:
        with pytest.raises((ConnectionError, ssl.SSLError, asyncio.IncompleteReadError)):
            async with connect_to(broker.bootstrap_servers, certificates.context()) as wire:
                await wire.ask(MetadataRequest(topics=[]), 9)


async def test_a_context_instead_of_files(certificates: Certificates) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.keystore)
    async with (
        Broker(security=Security("SSL", ssl_context=context)) as broker,
        connect_to(broker.bootstrap_servers, certificates.context()) as wire,
    ):
        assert (await wire.ask(MetadataRequest(topics=[]), 9)).brokers


async def test_a_client_without_tls_gets_an_alert_and_is_disconnected(certificates: Certificates) -> None:
    async with Broker(security=Security("SSL"), config=certificates.options()) as broker, connect(broker) as wire:
        wire.send(MetadataRequest(topics=[]), 9)
        # A record with a fatal alert.
        alert = await asyncio.wait_for(wire.reader.readexactly(7), LONG_TIMEOUT)
        assert alert[:2] == b"\x15\x03"
        assert alert[5] == 2
        wire.send(MetadataRequest(topics=[]), 9)
        assert await wire.closed()


# ---- invalid options


@pytest.mark.parametrize(
    ("security", "config", "text"),
    [
        (Security("SSL"), {}, "ssl.keystore.location"),
        (Security("SASL_SSL", users=USERS), {"ssl.keystore.location": "nowhere.pem"}, "nowhere.pem"),
        (None, {"authorizer.class.name": AUTHORIZER, "super.users": "alice"}, "super.users: "),
        (Security("SASL_PLAINTEXT"), {"sasl.enabled.mechanisms": "GSSAPI"}, "sasl.enabled.mechanisms: "),
        (None, {"ssl.client.auth": "perhaps"}, "ssl.client.auth"),
        (None, {"authorizer.class.name": "com.example.Mine"}, "authorizer.class.name"),
    ],
)
async def test_invalid_listener_options_are_refused(
    security: Security | None, config: dict[str, str], text: str
) -> None:
    with pytest.raises(ConfigurationError, match=text):
        async with Broker(security=security, config=config):
            pass


async def test_client_certificates_need_an_authority(certificates: Certificates) -> None:
    config = {"ssl.keystore.location": certificates.keystore, "ssl.client.auth": "required"}
    with pytest.raises(ConfigurationError, match=r"ssl\.truststore\.location"):
        async with Broker(security=Security("SSL"), config=config):
            pass


def test_an_unknown_protocol() -> None:
    protocol: Any = "TLS"
    with pytest.raises(ConfigurationError, match="TLS"):
        Security(protocol)


def test_passwords_are_not_shown() -> None:
    assert "secret" not in repr(Security("SASL_SSL", users={"alice": "secret"}))


# ---- limits on connections


async def test_connections_from_one_address_are_limited() -> None:
    async with Broker(config={"max.connections.per.ip": 2}) as broker:
        async with connect(broker) as first, connect(broker) as second:
            for wire in (first, second):
                await wire.ask(MetadataRequest(topics=[]), 9)
            async with connect(broker) as third:
                assert await third.closed()
        # Closed connections no longer count.
        while True:
            async with connect(broker) as wire:
                wire.send(MetadataRequest(topics=[]), 9)
                try:
                    await wire.frame()
                except (asyncio.IncompleteReadError, ConnectionError):
                    continue
                return


async def test_with_all_connections_taken_the_next_one_waits() -> None:
    async with Broker(config={"max.connections": 1}) as broker, connect(broker) as first, connect(broker) as second:
        answers = {}
        for wire in (first, second):
            wire.send(MetadataRequest(topics=[]), 9)
            answers[wire] = asyncio.ensure_future(wire.frame())
        await asyncio.wait(answers.values(), return_when=asyncio.FIRST_COMPLETED)
        served, waiting = (first, second) if answers[first].done() else (second, first)
        assert not answers[waiting].done()
        served.writer.close()
        await answers[waiting]


async def test_idle_connections_are_closed() -> None:
    async with Broker(config={"connections.max.idle.ms": 50}) as broker:
        while True:
            async with connect(broker) as wire:
                try:
                    await wire.ask(MetadataRequest(topics=[]), 9)
                except (asyncio.IncompleteReadError, ConnectionError):
                    # The test itself was too slow.
                    continue
                assert await wire.closed()
                return


async def test_frames_are_small_before_authentication() -> None:
    async with guarded(**{"sasl.server.max.receive.size": 1000}) as broker, connect(broker) as wire:
        assert (await wire.ask(SaslHandshakeRequest(mechanism="PLAIN"))).error_code == 0
        wire.send(SaslAuthenticateRequest(auth_bytes=bytes(1000)))
        assert await wire.closed()
        async with logged_in(broker, "admin") as admin:
            await broker.create_topic("t")
            answer = await admin.ask(produce_request("t", batch([bytes(5000)])), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0


async def test_an_expired_session_is_closed_at_the_next_request() -> None:
    clock = VirtualClock()
    security = Security("SASL_PLAINTEXT", users={"alice": "alice-secret"})
    config = {"connections.max.reauth.ms": 10_000}
    async with Broker(clock=clock, security=security, config=config) as broker, connect(broker) as wire:
        assert (await authenticate(wire, "PLAIN", plain("alice"))).session_lifetime_ms == 10_000
        await clock.advance(9)
        assert (await authenticate(wire, "PLAIN", plain("alice"))).session_lifetime_ms == 10_000
        await clock.advance(9)
        assert (await wire.ask(MetadataRequest(topics=[]), 9)).brokers
        await clock.advance(2)
        wire.send(MetadataRequest(topics=[]), 9)
        assert await wire.closed()


async def test_a_disabled_mechanism_is_refused() -> None:
    security = Security("SASL_PLAINTEXT", users={"alice": "alice-secret"})
    config = {"sasl.enabled.mechanisms": "SCRAM-SHA-512"}
    async with Broker(security=security, config=config) as broker, connect(broker) as wire:
        answer = await wire.ask(SaslHandshakeRequest(mechanism="PLAIN"))
        assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["SCRAM-SHA-512"])
        assert await wire.closed()


async def test_without_sasl_a_handshake_is_refused(wire: Wire) -> None:
    assert (await wire.ask(SaslHandshakeRequest(mechanism="PLAIN"))).error_code == ErrorCode.ILLEGAL_SASL_STATE
    answer = await wire.ask(SaslAuthenticateRequest(auth_bytes=b""))
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE


async def test_without_an_authorizer_acl_requests_are_refused(wire: Wire) -> None:
    answer = await wire.ask(ANY_ACL)
    assert answer.error_code == ErrorCode.SECURITY_DISABLED


# ---- restarts


async def test_acls_and_credentials_survive_a_restart(tmp_path: Path) -> None:
    security = Security("SASL_PLAINTEXT", users={"admin": "admin-secret"})
    config = {"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"}
    new = ScramCredentialUpsertion(name="carol", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"x")
    guarded_again: Any = {"data_dir": tmp_path, "security": security, "config": config}
    async with Broker(**guarded_again) as broker, logged_in(broker, "admin") as admin:
        await grant(admin, acl(TOPIC, "t", READ), acl(TOPIC, "u", DESCRIBE))
        made = await admin.ask(AlterUserScramCredentialsRequest(deletions=[], upsertions=[new]))
        assert made.results[0].error_code == 0
    # A restart without an authorizer in between forgets nothing.
    async with Broker(data_dir=tmp_path, security=security) as broker, logged_in(broker, "admin") as admin:
        assert (await admin.ask(ANY_ACL)).error_code == ErrorCode.SECURITY_DISABLED
        await admin.ask(AlterUserScramCredentialsRequest(deletions=[], upsertions=[new]))
    async with Broker(**guarded_again) as broker, logged_in(broker, "admin") as admin:
        found = await admin.ask(ANY_ACL)
        assert {each.resource_name for each in found.resources} == {"t", "u"}
        known = await admin.ask(DescribeUserScramCredentialsRequest(users=None))
        assert {each.user for each in known.results} == {"admin", "carol"}


async def test_only_the_user_can_read_the_credentials_even_while_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A broker that was killed before the rename leaves this file.
    left = tmp_path / "security.tmp"
    left.touch(0o666)
    left.chmod(0o666)
    modes: list[int] = []
    opened = os.open

    def spy(path: str, flags: int, mode: int = 0o777) -> int:
        descriptor = opened(path, flags, mode)
        if Path(path) == left:
            modes.append(os.fstat(descriptor).st_mode & 0o777)
        return descriptor

    monkeypatch.setattr(os, "open", spy)
    security = Security("SASL_PLAINTEXT", users={"admin": "admin-secret"})
    async with Broker(data_dir=tmp_path, security=security) as broker, logged_in(broker, "admin") as admin:
        new = ScramCredentialUpsertion(name="carol", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p" * 32)
        made = await admin.ask(AlterUserScramCredentialsRequest(deletions=[], upsertions=[new]))
        assert made.results[0].error_code == 0
    assert set(modes) == {0o600}
    assert (tmp_path / "security.json").stat().st_mode & 0o777 == 0o600
    assert not left.exists()


async def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "security.json").write_text('{"version": 2}')
    with pytest.raises(ConfigurationError, match=r"security\.json"):
        async with Broker(data_dir=tmp_path):
            pass


async def test_all_nodes_share_the_security_state() -> None:
    security = Security("SASL_PLAINTEXT", users={"admin": "admin-secret", "alice": "alice-secret"})
    config = {"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"}
    async with Cluster(2, security=security, config=config) as cluster:
        await cluster.create_topic("t", 2)
        async with connect(cluster, 0) as admin, connect(cluster, 1) as alice:
            assert (await authenticate(admin, "PLAIN", plain("admin"))).error_code == 0
            assert (await authenticate(alice, "PLAIN", plain("alice"))).error_code == 0
            led = next(index for index in range(2) if cluster.leader("t", index) == 1)
            refused = await alice.ask(produce_request("t", batch([b"x"]), partition=led), 9)
            assert refused.responses[0].partition_responses[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            await grant(admin, acl(TOPIC, "t", WRITE))
            served = await alice.ask(produce_request("t", batch([b"x"]), partition=led), 9)
            assert served.responses[0].partition_responses[0].error_code == 0


async def test_a_removed_permission_applies_to_an_existing_fetch_session() -> None:
    async with guarded() as broker, logged_in(broker, "admin") as admin, logged_in(broker, "alice") as alice:
        await broker.create_topic("t")
        await grant(admin, acl(TOPIC, "t", READ))
        full = await alice.ask(fetch_request("t", session_epoch=0), 12)
        assert full.responses[0].partitions[0].error_code == 0
        await grant(admin, acl(TOPIC, "t", READ, permission=2))
        following = fetch_request("t", session_id=full.session_id, session_epoch=1)
        following.topics = []
        answer = await alice.ask(following, 12)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_an_unauthorized_produce_with_acks_0_closes_the_connection() -> None:
    async with guarded() as broker, logged_in(broker, "alice") as alice:
        await broker.create_topic("t")
        alice.send(produce_request("t", batch([b"x"]), acks=0), 9)
        assert await alice.closed()

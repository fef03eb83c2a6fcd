"""Revocation lists of brokers, clients and authorities in between, and lists that are rewritten."""

from __future__ import annotations

import datetime
import itertools
import logging
import os
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.hashes import SHA256

from aiokproto import Client
from aiokproto.broker import Broker, Security
from aiokproto.config import ClusterConfig
from aiokproto.errors import AuthenticationError, BrokerConnectionError, ConfigurationError, KafkaError
from tests.net.peer import peer
from tests.net.test_tls import ANSWERS
from tests.net.test_tls_failures import connect

NOW = datetime.datetime.now(datetime.timezone.utc)
DAY = datetime.timedelta(days=1)
_minutes = itertools.count(1)


def revocations(authority: trustme.CA, *revoked: bytes) -> bytes:
    """A list that an authority signs, each later than the one before."""
    signer: Any = serialization.load_pem_private_key(authority.private_key_pem.bytes(), None)
    issuer = x509.load_pem_x509_certificate(authority.cert_pem.bytes()).subject
    begins = NOW - DAY + datetime.timedelta(minutes=next(_minutes))
    builder = x509.CertificateRevocationListBuilder().issuer_name(issuer).last_update(begins).next_update(NOW + DAY)
    for pem in revoked:
        number = x509.load_pem_x509_certificate(pem).serial_number
        entry = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(begins).build()
        builder = builder.add_revoked_certificate(entry)
    return builder.sign(signer, SHA256()).public_bytes(serialization.Encoding.PEM)


class Authorities:
    """A root, an authority in between, and certificates of a broker and of a client that this one has signed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = trustme.CA()
        self.between = self.root.create_child_ca()
        self.broker = self.between.issue_cert("127.0.0.1", "localhost")
        self.client = self.between.issue_cert("client@example.org", common_name="alice")
        self.root.cert_pem.write_to_path(str(folder / "root.pem"))
        for name, issued in (("broker", self.broker), ("client", self.client)):
            issued.private_key_and_cert_chain_pem.write_to_path(str(folder / f"{name}.pem"))

    def file(self, *lists: bytes) -> Path:
        path = self.folder / "lists.pem"
        path.write_bytes(b"".join(lists))
        # A file system's clock may be coarse.
        os.utime(path, ns=(1, next(_minutes)))
        return path

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "broker.pem")
        return context

    def options(self) -> dict[str, Any]:
        """The embedded broker reads the lists."""
        return {
            "ssl.keystore.location": str(self.folder / "broker.pem"),
            "ssl.keystore.type": "PEM",
            "ssl.truststore.location": str(self.folder / "root.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.client.auth": "required",
        }

    async def log_in(self, servers: str) -> None:
        options: dict[str, Any] = {"security_protocol": "SSL", "bootstrap_resolve_timeout_ms": 0}
        options |= {"ssl_cafile": self.folder / "root.pem", "ssl_certfile": self.folder / "client.pem"}
        async with Client(bootstrap_servers=servers, **options) as client:
            await client.metadata()


@pytest.fixture
def authorities(tmp_path: Path) -> Authorities:
    return Authorities(tmp_path)


async def test_a_revoked_authority_in_between_is_rejected_if_the_chain_is_checked(authorities: Authorities) -> None:
    lists = authorities.file(
        revocations(authorities.root, authorities.between.cert_pem.bytes()), revocations(authorities.between)
    )
    given: dict[str, Any] = {"ssl_cafile": authorities.folder / "root.pem", "ssl_crlfile": lists}
    async with peer(ANSWERS, ssl_context=authorities.server()) as broker:
        await connect(broker.port, **given)
        with pytest.raises(
            AuthenticationError, match="was rejected: certificate revoked: it was revoked, or one of its"
        ):
            await connect(broker.port, **given, ssl_crl_check_chain=True)
        authorities.file(revocations(authorities.root), revocations(authorities.between))
        await connect(broker.port, **given, ssl_crl_check_chain=True)
        authorities.file(revocations(authorities.between))
        with pytest.raises(AuthenticationError, match="ssl_crlfile has no revocation list"):
            await connect(broker.port, **given, ssl_crl_check_chain=True)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"ssl_crl_check_chain": True}, "ssl_crl_check_chain is given without ssl_crlfile"),
        ({"ssl_crl_check_chain": "yes", "ssl_crlfile": "a"}, "ssl_crl_check_chain='yes': expected True or False"),
    ],
)
def test_what_the_option_of_the_chain_needs(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        ClusterConfig.parse({"bootstrap_servers": "a:1", "security_protocol": "SSL", **options})


async def test_a_broker_rejects_revoked_clients_also_by_lists_that_are_written_later(
    authorities: Authorities, caplog: pytest.LogCaptureFixture
) -> None:
    lists = authorities.file(revocations(authorities.between))
    security = Security("SSL", ssl_crlfile=lists)
    async with Broker(security=security, config=authorities.options()) as broker:
        await authorities.log_in(broker.bootstrap_servers)
        authorities.file(revocations(authorities.between, authorities.client.cert_chain_pems[0].bytes()))
        with pytest.raises(KafkaError, match=r"revoked|certificate|alert"):
            await authorities.log_in(broker.bootstrap_servers)
        # A file that is being written changes nothing.
        authorities.file(b"half")
        with caplog.at_level(logging.WARNING), pytest.raises(KafkaError, match=r"revoked|certificate|alert"):
            await authorities.log_in(broker.bootstrap_servers)
        assert sum("the earlier ones" in record.message for record in caplog.records) == 1
        authorities.file(revocations(authorities.between))
        await authorities.log_in(broker.bootstrap_servers)


@pytest.mark.parametrize("chain", [False, True])
async def test_a_broker_checks_the_chain_of_clients_if_it_is_configured_to(
    authorities: Authorities, chain: bool
) -> None:
    revoked = revocations(authorities.root, authorities.between.cert_pem.bytes())
    lists = authorities.file(revoked, revocations(authorities.between))
    security = Security("SSL", ssl_crlfile=lists, ssl_crl_check_chain=chain)
    async with Broker(security=security, config=authorities.options()) as broker:
        if chain:
            with pytest.raises((AuthenticationError, BrokerConnectionError)):
                await authorities.log_in(broker.bootstrap_servers)
        else:
            await authorities.log_in(broker.bootstrap_servers)


async def test_lists_that_a_broker_cannot_use(authorities: Authorities) -> None:
    for lists, text in (
        (authorities.folder / "absent.pem", "ssl_crlfile='.*absent.pem' cannot be read: no such file"),
        (authorities.folder / "root.pem", "ssl_crlfile='.*root.pem': it has no X509 CRL"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            async with Broker(security=Security("SSL", ssl_crlfile=lists), config=authorities.options()):
                raise AssertionError
    options = {name: value for name, value in authorities.options().items() if "keystore" in name}
    with pytest.raises(ConfigurationError, match=r"ssl_crlfile has no effect: ssl\.client\.auth is none"):
        async with Broker(security=Security("SSL", ssl_crlfile=authorities.file(b"")), config=options):
            raise AssertionError


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"protocol": "PLAINTEXT", "ssl_crlfile": "a"},
            "ssl_crlfile has no effect: the security protocol is PLAINTEXT",
        ),
        ({"protocol": "SSL", "ssl_crl_check_chain": True}, "ssl_crl_check_chain has no effect without ssl_crlfile"),
        (
            {"protocol": "SSL", "ssl_crlfile": "a", "ssl_context": ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)},
            "ssl_crlfile has no effect: ssl_context is given",
        ),
    ],
)
def test_lists_without_effect_are_an_error(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Security(**arguments)

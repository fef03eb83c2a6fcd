"""A client's principal, as in ACLs, in errors and in the commands of kafka-acls.sh that they have."""

from __future__ import annotations

import base64
import datetime
import json
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from aiokproto import Producer
from aiokproto.broker import Broker, Security
from aiokproto.config import ClusterConfig
from aiokproto.errors import AuthorizationError
from aiokproto.security import OAuthBearer, UnsecuredToken
from aiokproto.security.tls.subject import subject_of
from tests.security.certificates import Files, make

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SERVERS = {"bootstrap_servers": "a:1"}


@pytest.fixture
def files(tmp_path: Any) -> Files:
    return make(tmp_path)


def certificate(*parts: list[x509.NameAttribute[str]]) -> bytes:
    """A certificate in DER whose subject has these parts, from the highest level down."""
    key, begin = ec.generate_private_key(ec.SECP256R1()), datetime.datetime(2026, 1, 1)
    authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "not the subject")])
    builder = x509.CertificateBuilder().subject_name(x509.Name(map(x509.RelativeDistinguishedName, parts)))
    builder = builder.issuer_name(authority).public_key(key.public_key()).serial_number(1)
    builder = builder.not_valid_before(begin).not_valid_after(begin + datetime.timedelta(days=1))
    return builder.sign(key, SHA256()).public_bytes(Encoding.DER)


def attribute(name: str, value: str, kind: _ASN1Type | None = None) -> x509.NameAttribute[str]:
    return x509.NameAttribute(getattr(NameOID, name), value, kind)


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ([], ""),
        (
            [
                [attribute("COUNTRY_NAME", "DE")],
                [attribute("ORGANIZATION_NAME", "Ä, <B>")],
                [attribute("COMMON_NAME", "a")],
            ],
            r"CN=a,O=Ä\, \<B\>,C=DE",
        ),
        ([[attribute("COMMON_NAME", ' lead=a#b;"q"+\\ ')]], r"CN=\ lead\=a\#b\;\"q\"\+\\\ "),
        ([[attribute("LOCALITY_NAME", "  two  ")], [attribute("STREET_ADDRESS", "#1")]], r"STREET=\#1,L=\ \ two\ \ "),
        ([[attribute("COMMON_NAME", "   ")]], r"CN=\ \ \ "),
        ([[attribute("DOMAIN_COMPONENT", "x"), attribute("STATE_OR_PROVINCE_NAME", "y")]], "ST=y+DC=x"),
        (
            [[attribute("EMAIL_ADDRESS", "a@b.c")], [attribute("USER_ID", "u")], [attribute("SERIAL_NUMBER", "12")]],
            "2.5.4.5=#13023132,UID=u,1.2.840.113549.1.9.1=#16056140622e63",
        ),
        ([[attribute("COMMON_NAME", "ab", _ASN1Type.BMPString)]], r"CN=\00a\00b"),
        ([[attribute("COMMON_NAME", "u", _ASN1Type.UniversalString)]], "CN=#1c0400000075"),
    ],
)
def test_the_subject_of_a_certificate_is_named_as_by_java(
    parts: list[list[x509.NameAttribute[str]]], name: str
) -> None:
    """By X500Principal.getName(), from which Kafka makes the principal."""
    assert subject_of(certificate(*parts)) == name


@pytest.mark.parametrize("damaged", [b"", b"\x30", b"\x30\x84\xff\xff\xff\xff", b"\x30\x02\x30\x00"])
def test_a_damaged_certificate_has_no_subject(damaged: bytes) -> None:
    with pytest.raises(ValueError, match="certificate"):
        subject_of(damaged)


async def test_a_certificate_names_the_client_as_the_broker_does(files: Files) -> None:
    config = {
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files["broker.both.pem"]),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files["ca.pem"]),
        "authorizer.class.name": AUTHORIZER,
    }
    options = files.options("one file", max_block_ms=5000)
    async with Broker(security=Security("SSL"), config=config) as broker:
        with pytest.raises(AuthorizationError) as refused:
            async with Producer(bootstrap_servers=broker.bootstrap_servers, **options) as producer:
                await producer.send("t", b"x")
    name = refused.value.principal
    assert name.startswith("User:CN=alice,")
    async with (
        Broker(security=Security("SSL"), config={**config, "super.users": name}) as broker,
        Producer(bootstrap_servers=broker.bootstrap_servers, **options) as producer,
    ):
        await producer.send("t", b"x")


@pytest.mark.parametrize(
    ("options", "principal"),
    [
        ({}, "User:ANONYMOUS"),
        ({"security_protocol": "SSL"}, "User:ANONYMOUS"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "a"}, "User:a"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": lambda: "later"}, ""),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token": lambda: "later"}, ""),
    ],
)
async def test_a_client_without_a_certificate(files: Files, options: dict[str, Any], principal: str) -> None:
    secret = {"sasl_password": "x"} if "sasl_username" in options else {}
    authorities = {"ssl_cafile": files["ca.pem"]} if options else {}
    config = ClusterConfig.parse(SERVERS | authorities | options | secret)
    if config.tls is not None:
        await config.tls.context()
    assert config.principal == principal


async def test_a_context_of_the_user_does_not_tell_its_certificate(files: Files) -> None:
    config = ClusterConfig.parse({**SERVERS, "security_protocol": "SSL", "ssl_context": files.server()})
    assert config.principal == ""


async def test_a_token_names_the_client_once_it_was_sent() -> None:
    def part(content: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    for mechanism, principal in (
        (OAuthBearer(UnsecuredToken("bob")), "User:bob"),
        (OAuthBearer(lambda: f"{part({'alg': 'RS256'})}.{part({'sub': 'carol'})}.c2lnbmVk"), "User:carol"),
        (OAuthBearer("opaque"), ""),
    ):
        options = {"security_protocol": "SASL_SSL", "sasl_mechanism": mechanism}
        config = ClusterConfig.parse({**SERVERS, **options})
        assert config.principal == ""
        await mechanism.exchange("broker").start()
        assert config.principal == principal

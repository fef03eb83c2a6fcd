"""Java's sasl.jaas.config: its grammar, and the mechanisms of its login modules."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.config import ClusterConfig
from aiokproto.errors import ConfigurationError
from aiokproto.security import SaslMechanism
from aiokproto.security.jaas import parse_jaas
from aiokproto.security.login_modules import login_of
from tests.security.oidc import oidc

PACKAGE = "org.apache.kafka.common.security"
PLAIN = f"{PACKAGE}.plain.PlainLoginModule"
SCRAM = f"{PACKAGE}.scram.ScramLoginModule"
OAUTH = f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
IAM = "software.amazon.msk.auth.iam.IAMLoginModule"


def mechanism(jaas: str, **options: Any) -> SaslMechanism:
    config = ClusterConfig.parse(
        {"bootstrap_servers": "a", "security_protocol": "SASL_SSL", "sasl_jaas_config": jaas, **options}
    )
    assert config.sasl is not None
    return config.sasl


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("Module required;", {}),
        ("a.b.Module REQUISITE a=b c='d' e=\"f\" ;", {"a": "b", "c": "d", "e": "f"}),
        ('Module\trequired\n  a="b // /* c"\n  d=5;\n', {"a": "b // /* c", "d": "5"}),
        ("/* one\ntwo */ Module required // three\n a=b; // four", {"a": "b"}),
        (r'Module required a="q\"\\\'\n\t\101\7x";', {"a": "q\"\\'\n\tA\x07x"}),
        ("Module optional a='it\"s' b=\"it's\";", {"a": 'it"s', "b": "it's"}),
        ('Module sufficient a="";', {"a": ""}),
        ('Module required ssl.truststore.location="/a" my-name=b;', {"ssl.truststore.location": "/a", "my-name": "b"}),
    ],
)
def test_what_java_reads(text: str, options: dict[str, str]) -> None:
    entry = parse_jaas(text)
    assert (entry.module, entry.options) == ("Module", options)
    assert repr(entry) == "JaasEntry('Module')"


@given(
    st.dictionaries(st.from_regex(r"[A-Za-z_]+", fullmatch=True), st.text(st.characters(codec="utf-8"), max_size=20))
)
def test_any_value_in_quotes(options: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'

    text = " ".join(["Module required", *(f"{name}={quoted(value)}" for name, value in options.items())])
    assert parse_jaas(f"{text};").options == options


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (5, "expected text, got int"),
        ("", "does not begin with the name of a login module"),
        ('"s3cret" required;', "does not begin with the name of a login module"),
        ("s3cret! required;", "does not begin with the name of a login module"),
        (PLAIN, "after the login module, expected 'required' or"),
        (f"KafkaClient {{ {PLAIN} required; }};", "expected the login module alone, without the braces"),
        (f"KafkaClient {{{PLAIN} required; }};", "expected the login module alone, without the braces"),
        (f"{PLAIN} s3cret;", "after the login module, expected 'required' or"),
        (f'{PLAIN} required username="a" password=s3cret', "does not end with a semicolon"),
        (f'{PLAIN} required username="a" s3cret;', "its option number 2 is no name"),
        (f'{PLAIN} required username="a" s3cret', "its option number 2 is no name"),
        (f'{PLAIN} required username="a" password=;', "its option number 2 is no name"),
        (f'{PLAIN} required username="a" password=', "its option number 2 is no name"),
        (f'{PLAIN} required ="s3cret";', "its option number 1 is no name"),
        (f'{PLAIN} required username="a" password="s3cret;', "a quote or a comment does not end"),
        (f'{PLAIN} required username="a" password="s3\ncret";', "a quote or a comment does not end"),
        (f"{PLAIN} required username=a password=s3/cret;", "a value needs quotes"),
        (f"{PLAIN} required; {PLAIN} required;", "something follows the semicolon: expected one login module"),
    ],
)
def test_what_java_does_not_read(text: Any, error: str) -> None:
    with pytest.raises(ConfigurationError, match=error) as raised:
        parse_jaas(text)
    assert str(raised.value).startswith("sasl_jaas_config: ")
    assert "s3" not in str(raised.value)


LOGIN = 'username="alice" password="s3cret"'


async def first(parsed: SaslMechanism) -> bytes:
    return await parsed.exchange("b-1.x.kafka.eu-west-1.amazonaws.com").start()


@pytest.mark.parametrize("options", [{}, {"sasl_mechanism": "plain"}])
async def test_plain(options: dict[str, Any]) -> None:
    parsed = mechanism(f"{PLAIN} required {LOGIN};", **options)
    assert await first(parsed) == b"\0alice\0s3cret"
    assert "s3cret" not in repr(parsed)


@pytest.mark.parametrize(("token", "ending"), [("", False), ("tokenauth=true", True), ('tokenauth="false"', False)])
async def test_scram(token: str, ending: bool) -> None:
    parsed = mechanism(f"{SCRAM} required {LOGIN} {token};", sasl_mechanism="SCRAM-SHA-512")
    message = await first(parsed)
    assert message.startswith(b"n,,n=alice,r=")
    assert (parsed.name, message.endswith(b",tokenauth=true")) == ("SCRAM-SHA-512", ending)


async def test_other_options_come_over_it() -> None:
    parsed = mechanism(f"{PLAIN} required {LOGIN};", sasl_password=lambda: "other")
    assert await first(parsed) == b"\0alice\0other"


async def test_client_credentials() -> None:
    async with oidc() as provider:
        parsed = mechanism(
            f'{OAUTH} required clientId="id" clientSecret="s3cret" scope="read" extension_pool="a b";',
            sasl_mechanism="OAUTHBEARER",
            sasl_oauthbearer_token_endpoint_url=provider.url,
        )
        assert (await first(parsed)).endswith(b"\x01pool=a b\x01\x01")
    (asked,) = provider.asked
    assert asked.headers["authorization"] == f"Basic {base64.b64encode(b'id:s3cret').decode()}"
    assert asked.form["scope"] == "read"


def claims_of(message: bytes) -> dict[str, Any]:
    part = message.split(b".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4)))
    return found


async def test_an_unsecured_token() -> None:
    parsed = mechanism(
        f'{OAUTH} required unsecuredLoginStringClaim_user="bob" unsecuredLoginPrincipalClaimName=user'
        ' unsecuredLoginLifetimeSeconds="60" unsecuredLoginNumberClaim_level="5" unsecuredLoginListClaim_scope="|a|b c"'
        ' unsecuredLoginExtension_pool="a";'
    )
    message = await first(parsed)
    claims = claims_of(message)
    assert {name: claims[name] for name in ("user", "level", "scope")} == {
        "user": "bob",
        "level": 5,
        "scope": ["a", "b c"],
    }
    assert claims["exp"] - claims["iat"] == pytest.approx(60)
    assert message.endswith(b"\x01pool=a\x01\x01")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("", {}),
        ("useTicketCache=true renewTGT=true", {}),
        (
            'useKeyTab=true storeKey=true keyTab="/etc/flights.keytab" principal="flights@EXAMPLE.ORG"',
            {"sasl_kerberos_keytab": "/etc/flights.keytab", "sasl_kerberos_principal": "flights@EXAMPLE.ORG"},
        ),
        ('useTicketCache=true ticketCache="/tmp/cc"', {"sasl_kerberos_ccache": "/tmp/cc"}),
        ('keyTab="/unused" ticketCache="/unused" serviceName=broker', {"sasl_kerberos_service_name": "broker"}),
    ],
)
def test_kerberos(written: str, read: dict[str, str]) -> None:
    assert login_of(parse_jaas(f"{KERBEROS} required {written};"), None) == ("GSSAPI", read)


def test_msk_with_a_profile() -> None:
    parsed = mechanism(f'{IAM} required awsProfileName="prod" awsDebugCreds="true";')
    assert parsed.name == "AWS_MSK_IAM"


@pytest.mark.parametrize(
    ("jaas", "options", "text"),
    [
        (f"{PLAIN} required username=a;", {}, r"password is missing \(PlainLoginModule\)"),
        (f"{PLAIN} required {LOGIN} s3=b;", {}, "option number 3 is none of PlainLoginModule: expected username"),
        (f"{PLAIN} required {LOGIN} tokenauth=true;", {}, "option number 3 is none of PlainLoginModule"),
        (f"{SCRAM} required {LOGIN};", {}, "sasl_mechanism=None: ScramLoginModule of sasl_jaas_config needs 'SCRAM"),
        (f"{SCRAM} required {LOGIN};", {"sasl_mechanism": "PLAIN"}, "sasl_mechanism='PLAIN': ScramLoginModule of"),
        (f"{OAUTH} required s3=b;", {}, "option number 1 is none of OAuthBearerLoginModule: expected clientId"),
        (f"{OAUTH} required;", {}, "OAUTHBEARER needs sasl_oauth_token"),
        (f"{OAUTH} required ssl.truststore.location=s3;", {}, "use sasl_oauth_ssl_context"),
        (f"{OAUTH} required unsecuredLoginLifetimeSeconds=60;", {}, "unsecuredLoginStringClaim_sub is missing"),
        (
            f"{OAUTH} required unsecuredLoginStringClaim_sub=a unsecuredLoginNumberClaim_a=s3;",
            {},
            "a value of unsecuredLogin… is not a number",
        ),
        (f"{OAUTH} required unsecuredLoginStringClaim_sub=a clientId=b;", {}, "option number 2 is none of"),
        (f"{IAM} required s3=b;", {}, "option number 1 is none of IAMLoginModule"),
        (f"{KERBEROS} required useKeyTab=true;", {}, "keyTab is missing"),
        (f"{KERBEROS} required s3=b;", {}, "option number 1 is none of Krb5LoginModule"),
        ("s3cret required;", {}, "expected the login module PlainLoginModule or"),
        (f"{PLAIN} required {LOGIN};", {"sasl_oauthbearer_scope": "a"}, "is no option of sasl_mechanism='PLAIN'"),
        (f"{PLAIN} required {LOGIN};", {"security_protocol": "SSL"}, "sasl_jaas_config is given, but security_prot"),
    ],
)
def test_login_modules_that_do_not_fit(jaas: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text) as raised:
        mechanism(jaas, **options)
    assert "s3" not in str(raised.value)

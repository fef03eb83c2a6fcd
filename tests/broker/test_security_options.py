"""Every security option and argument, with every protocol and in every way it can be given, is honoured or refused."""

from __future__ import annotations

import dataclasses
import json
import re
import ssl
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from aiokproto.broker import Broker, Security
from aiokproto.broker.config.options import BROKER, BrokerOptions, Value, as_text
from aiokproto.cli.main import main
from aiokproto.codec.messages.alter_configs import AlterableConfig as OldConfig
from aiokproto.codec.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    IncrementalAlterConfigsRequest,
)
from aiokproto.codec.messages.incremental_alter_configs import AlterConfigsResource as Resource
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import ConfigurationError
from tests.broker.secure import AUTHORIZER, USERS, Certificates
from tests.broker.wire import connect
from tests.security.certificates import KEY_PASSWORD, PASSWORD, Files, make
from tests.security.oidc import Issuer, oidc

PAGE = Path(__file__).parents[2] / "docs" / "broker.md"

PREFIXES = (
    "allow.",
    "authorizer",
    "connections.max.reauth",
    "delegation.",
    "sasl.",
    "ssl.",
    "super.users",
)
"""How the names of security options start."""

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TLS = ("SSL", "SASL_SSL")
SASL = ("SASL_PLAINTEXT", "SASL_SSL")

JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
AUDIENCE = {"sasl.oauthbearer.expected.audience": "kafka"}
ISSUER = {"sasl.oauthbearer.expected.issuer": "https://issuer.example.org"}
STORE = {"ssl.keystore.location": "broker.both.pem"}
STORE_P12 = {"ssl.keystore.location": "broker.p12", "ssl.keystore.password": PASSWORD}
KEY = {"ssl.keystore.key": "text:broker.encrypted.key", "ssl.keystore.certificate.chain": "text:broker.pem"}
ASKED = {"ssl.client.auth": "required"}
TRUST = {"ssl.truststore.location": "ca.pem"}
TOKEN_KEY = {"delegation.token.secret.key": "a secret of the brokers"}
NO_RETRY = {"sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": 1}
KEYS = {JWKS_URL: "keys.json", **AUDIENCE, **ISSUER}


def validate(token: str) -> Any:
    """Validate a token."""
    raise ValueError(token)


@dataclass(frozen=True)
class Case:
    """A value of an option, and where it has an effect.

    Attributes:
        value: The value. A file name stands for its path; with ``text:`` before it, for its content.
        protocols: The protocols with which the option has an effect.
        beside: The other options that it needs.
        users: Whether users are given, with SASL.
    """

    value: Value
    protocols: tuple[str, ...] = PROTOCOLS
    beside: Mapping[str, Value] = field(default_factory=dict[str, Value])
    users: bool = True


def tokens(value: Value, **beside: Value) -> Case:
    """Return a case for an option about signed tokens."""
    return Case(value, SASL, {**KEYS, **beside}, users=False)


AUTHORIZED = {"authorizer.class.name": AUTHORIZER}

OPTIONS: dict[str, Case] = {
    "allow.everyone.if.no.acl.found": Case(True, beside=AUTHORIZED),
    "authorizer.class.name": Case(AUTHORIZER),
    "connections.max.reauth.ms": Case(60_000, SASL),
    "delegation.token.expiry.check.interval.ms": Case(1000, SASL, TOKEN_KEY),
    "delegation.token.expiry.time.ms": Case(1000, SASL, TOKEN_KEY),
    "delegation.token.max.lifetime.ms": Case(1000, SASL, TOKEN_KEY),
    "delegation.token.secret.key": Case("a secret of the brokers", SASL),
    "sasl.enabled.mechanisms": Case("SCRAM-SHA-512", SASL),
    "sasl.oauthbearer.allow.unverified.audience": Case(True, SASL, {JWKS_URL: "keys.json", **ISSUER}, users=False),
    "sasl.oauthbearer.allow.unverified.issuer": Case(True, SASL, {JWKS_URL: "keys.json", **AUDIENCE}, users=False),
    "sasl.oauthbearer.clock.skew.seconds": tokens(5),
    "sasl.oauthbearer.expected.audience": Case("kafka", SASL, {JWKS_URL: "keys.json", **ISSUER}, users=False),
    "sasl.oauthbearer.expected.issuer": Case(
        "https://a.example.org", SASL, {JWKS_URL: "keys.json", **AUDIENCE}, users=False
    ),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": tokens(60_000),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": tokens(1, **{JWKS_URL: "http://127.0.0.1:1/keys"}),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": tokens(20_000, **{JWKS_URL: "http://127.0.0.1:1/keys"}),
    "sasl.oauthbearer.jwks.endpoint.url": Case("keys.json", SASL, {**AUDIENCE, **ISSUER}, users=False),
    "sasl.oauthbearer.scope.claim.name": tokens("scp"),
    "sasl.oauthbearer.sub.claim.name": tokens("name"),
    "sasl.server.max.receive.size": Case(10_000, SASL),
    "ssl.cipher.suites": Case("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", TLS, STORE),
    "ssl.client.auth": Case("requested", TLS, {**STORE, **TRUST}),
    "ssl.enabled.protocols": Case("TLSv1.3", TLS, STORE),
    "ssl.key.password": Case(KEY_PASSWORD, TLS, KEY),
    "ssl.keystore.certificate.chain": Case("text:broker.pem", TLS, {"ssl.key.password": KEY_PASSWORD, **KEY}),
    "ssl.keystore.key": Case("text:broker.encrypted.key", TLS, {"ssl.key.password": KEY_PASSWORD, **KEY}),
    "ssl.keystore.location": Case("broker.both.pem", TLS),
    "ssl.keystore.password": Case(PASSWORD, TLS, STORE_P12),
    "ssl.keystore.type": Case("PKCS12", TLS, STORE_P12),
    "ssl.truststore.certificates": Case("text:ca.pem", TLS, {**STORE, **ASKED}),
    "ssl.truststore.location": Case("ca.pem", TLS, {**STORE, **ASKED}),
    "ssl.truststore.password": Case(PASSWORD, TLS, {**STORE, **ASKED, "ssl.truststore.location": "trusted.p12"}),
    "ssl.truststore.type": Case("PEM", TLS, {**STORE, **ASKED, **TRUST}),
    "super.users": Case("User:ANONYMOUS", beside=AUTHORIZED),
}
"""Every security option. The first test refuses a new one until it is listed here."""

ARGUMENTS: dict[str, tuple[Any, tuple[str, ...], Mapping[str, Value]]] = {
    "users": ({"alice": "s3cret"}, SASL, {}),
    "ssl_context": (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), TLS, {}),
    "ssl_crlfile": ("revoked.pem", TLS, {**ASKED, **TRUST}),
    "ssl_crl_check_chain": (True, TLS, {**ASKED, **TRUST}),
    "token_validator": (validate, SASL, {}),
    "aws_access_keys": ({"AKIA1": "s3cret"}, SASL, {}),
    "unsecured_tokens": (True, SASL, {"sasl.enabled.mechanisms": "OAUTHBEARER"}),
    "sasl_oauth_allow_http": (True, SASL, {**AUDIENCE, **ISSUER, JWKS_URL: "http://127.0.0.1:1/keys", **NO_RETRY}),
}
"""Every argument of ``Security`` except the protocol: a value, the protocols with which it has an effect, and
options."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    made = make(tmp_path_factory.mktemp("tls"))
    made["keys.json"].write_text(json.dumps(Issuer().keys()))
    return made


def filled(files: Files, config: Mapping[str, Value]) -> dict[str, Value]:
    """Return a configuration with paths and contents in place of file names."""

    def fill(name: str, value: Value) -> Value:
        text = str(value)
        if text.startswith("text:"):
            return files.text(text.removeprefix("text:"))
        if name == JWKS_URL and text == "keys.json":
            return files[text].as_uri()
        return str(files[text]) if (files.folder / text).is_file() else value

    return {name: fill(name, value) for name, value in config.items()}


def complete(name: str, protocol: str, files: Files) -> tuple[Security, dict[str, Value]]:
    """Return what a broker with an option needs besides the option."""
    case = OPTIONS[name]
    config = dict(case.beside)
    if protocol in TLS and not any(each.startswith("ssl.keystore.") for each in (name, *config)):
        config |= STORE
    config.pop(name, None)
    security = Security(protocol, users=USERS if case.users and protocol in SASL else {})  # type: ignore[arg-type]
    return security, filled(files, config)


EVERYWHERE = [(name, protocol) for name in OPTIONS for protocol in PROTOCOLS]


def test_every_security_option_is_known_here() -> None:
    assert set(OPTIONS) == {name for name in BROKER if name.startswith(PREFIXES)}


def test_the_documentation_has_every_security_option_and_argument_with_its_default() -> None:
    section = PAGE.read_text().split("### What is open\n")[1].split("\n### ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]*) \| ([^|]+) \|$", section, re.MULTILINE)
    named = {f"Security({each.name})": each for each in dataclasses.fields(Security)}
    expected = {name: as_text(BROKER[name].default) or "none" for name in OPTIONS}
    for name, each in named.items():
        # The default of a secret is an empty mapping, or None.
        given = each.default not in (dataclasses.MISSING, None)
        expected[name] = str(each.default) if given else "none"
    assert {name: default for name, default, _ in rows} == expected
    assert len(rows) == len(expected)


def test_every_security_argument_is_known_here() -> None:
    assert {"protocol", *ARGUMENTS} == {each.name for each in dataclasses.fields(Security)}


@pytest.mark.parametrize(("name", "protocol"), EVERYWHERE)
async def test_an_option_is_read_or_refused(
    name: str, protocol: str, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = filled(files, {name: OPTIONS[name].value})
    if protocol not in OPTIONS[name].protocols:
        security = Security(protocol, users=USERS if protocol in SASL else {})  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match=f"^{name} has no effect"):
            Broker(security=security, config=value)
        return
    security, beside = complete(name, protocol, files)
    broker = Broker(security=security, config={**beside, **value})
    read = recorded(monkeypatch)
    # No server listens at the address of the keys, and these two options say how often to retry.
    unloaded = pytest.raises(ConfigurationError, match="the keys cannot be loaded")
    with unloaded if "retry.backoff" in name else nullcontext():
        async with broker:
            pass
    assert name in read


def recorded(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Record the options that are read from now on."""
    read = set[str]()
    value: Callable[[BrokerOptions, str], Value] = BrokerOptions.value

    def record(self: BrokerOptions, name: str) -> Value:
        read.add(name)
        return value(self, name)

    monkeypatch.setattr(BrokerOptions, "value", record)
    return read


@pytest.mark.parametrize(
    ("name", "missing"),
    [(name, missing) for name, case in OPTIONS.items() for missing in case.beside if missing != name],
)
async def test_what_an_option_needs_is_asked_for(name: str, missing: str, files: Files) -> None:
    protocol = OPTIONS[name].protocols[-1]
    security, beside = complete(name, protocol, files)
    del beside[missing]
    with pytest.raises(ConfigurationError):
        async with Broker(security=security, config={**beside, **filled(files, {name: OPTIONS[name].value})}):
            raise AssertionError


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", ARGUMENTS)
async def test_an_argument_is_honoured_or_refused(name: str, protocol: Any, files: Files) -> None:
    value, protocols, config = ARGUMENTS[name]
    if protocol not in protocols:
        with pytest.raises(ConfigurationError, match=f"^{name} has no effect") as raised:
            Security(protocol, **{name: value})
        assert "s3cret" not in str(raised.value)
        return
    given: dict[str, Any] = {name: files[value] if name == "ssl_crlfile" else value}
    if name == "ssl_crl_check_chain":
        given["ssl_crlfile"] = files["revoked.pem"]
    if name.startswith("ssl_") and protocol in SASL:
        given["users"] = USERS
    store = STORE if protocol in TLS and name != "ssl_context" else {}
    security = Security(protocol, **given)
    # No server listens at the address of the keys.
    unloaded = pytest.raises(ConfigurationError, match="the keys cannot be loaded")
    with unloaded if name == "sasl_oauth_allow_http" else nullcontext():
        async with Broker(security=security, config=filled(files, {**config, **store})):
            pass


@pytest.mark.parametrize("by", ["--config", "--config-file"])
@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "authorizer.class.name"])
def test_the_command_refuses_an_option_without_effect(
    name: str, by: str, tmp_path: Path, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"{name}={str(filled(files, {name: OPTIONS[name].value})[name]).splitlines()[0]}"
    given = line
    if by == "--config-file":
        file = tmp_path / "server.properties"
        file.write_text(line)
        file.chmod(0o600)
        given = str(file)
    assert main(["broker", by, given]) == 2
    assert capsys.readouterr().err.startswith(f"error: {name} has no effect")


@pytest.mark.parametrize("broker_id", ["", "0"])
@pytest.mark.parametrize("name", OPTIONS)
async def test_no_security_option_changes_at_run_time(name: str, broker_id: str, files: Files) -> None:
    value = str(filled(files, {name: OPTIONS[name].value})[name])
    async with Broker() as broker, connect(broker) as wire:
        config = AlterableConfig(name=name, config_operation=0, value=value)
        resource = Resource(resource_type=4, resource_name=broker_id, configs=[config])
        (answer,) = (await wire.ask(IncrementalAlterConfigsRequest(resources=[resource]))).responses
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        old = AlterConfigsResource(
            resource_type=4, resource_name=broker_id, configs=[OldConfig(name=name, value=value)]
        )
        (answer_to_old,) = (await wire.ask(AlterConfigsRequest(resources=[old]))).responses
        assert answer_to_old.error_code == ErrorCode.INVALID_REQUEST
        assert broker._options.value(name) == BROKER[name].default


@pytest.mark.parametrize(
    ("arguments", "config", "text"),
    [
        ({}, {**AUTHORIZED, "super.users": "user:ANONYMOUS"}, "super.users: no client is 'user:ANONYMOUS': the type"),
        ({}, {**AUTHORIZED, "super.users": "alice"}, "super.users: expected a principal as type:name, got 'alice'"),
        ({}, {**AUTHORIZED, "super.users": "User:alice"}, "super.users: no client can log in as 'User:alice'"),
        (
            {"protocol": "SASL_PLAINTEXT", "users": USERS},
            {**AUTHORIZED, "super.users": "User:admin;User:nobody", "sasl.enabled.mechanisms": "PLAIN"},
            "super.users: no client can log in as 'User:nobody'",
        ),
        (
            {"protocol": "SASL_PLAINTEXT", "aws_access_keys": {"AKIA1": "s3cret"}},
            {**AUTHORIZED, "super.users": "User:AKIA2"},
            "super.users: no client can log in as 'User:AKIA2'",
        ),
        (
            {},
            {"authorizer.class.name": "", "super.users": "User:ANONYMOUS"},
            "super.users has no effect without",
        ),
        (
            {"protocol": "SASL_PLAINTEXT", "token_validator": validate},
            TOKEN_KEY,
            "delegation.token.secret.key has no effect: tokens log in with SCRAM-SHA-256 or SCRAM-SHA-512, and neither",
        ),
        (
            {"protocol": "SASL_PLAINTEXT"},
            {**KEYS, "sasl.oauthbearer.allow.unverified.issuer": True, JWKS_URL: "file:///keys.json"},
            "sasl.oauthbearer.allow.unverified.issuer has no effect: sasl.oauthbearer.expected.issuer is given",
        ),
        (
            {"protocol": "SASL_PLAINTEXT", "token_validator": validate},
            AUDIENCE,
            f"sasl.oauthbearer.expected.audience has no effect without {JWKS_URL}",
        ),
        (
            {"protocol": "SASL_PLAINTEXT", "sasl_oauth_allow_http": True},
            {**KEYS, JWKS_URL: "https://issuer.example.org/keys"},
            f"sasl_oauth_allow_http has no effect: {JWKS_URL} has no key set by http",
        ),
    ],
)
def test_security_that_does_not_fit_together_is_refused(arguments: Any, config: dict[str, Value], text: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Broker(security=Security(**arguments), config=config)
    assert str(raised.value).startswith(text)


@pytest.mark.parametrize(
    ("users", "text"),
    [
        ("User:*", "super.users: 'User:*' is not everybody"),
        ("User:alice;User:*", "super.users: 'User:*' is not everybody"),
        ("User:alice,User:bob", "super.users: 'User:alice,User:bob': users are separated by semicolons"),
        ("User:alice, User:bob", "super.users: 'User:alice, User:bob': users are separated by semicolons"),
        ("User: alice", "super.users: 'User: alice' has white space"),
    ],
)
@pytest.mark.parametrize("mechanisms", ["PLAIN", "SCRAM-SHA-256"])
def test_super_users_that_are_written_in_another_way_are_refused(users: str, text: str, mechanisms: str) -> None:
    """This holds even if any name is possible: another user may get that name."""
    config: dict[str, Value] = {**AUTHORIZED, "super.users": users, "sasl.enabled.mechanisms": mechanisms}
    with pytest.raises(ConfigurationError) as raised:
        Broker(security=Security("SASL_PLAINTEXT", users={"alice": "s3cret", "bob": "s3cret"}), config=config)
    assert str(raised.value).startswith(text)


def test_subjects_of_certificates_have_commas(tmp_path: Path) -> None:
    config = {"ssl.client.auth": "required", **AUTHORIZED, "super.users": "User:CN=a,O=Wonder\\, Land;User:CN=b"}
    Broker(security=Security("SSL"), config=Certificates(tmp_path).options(**config))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"users": {"alice": ""}}, "users: the password of 'alice' is empty"),
        ({"users": {"": "s3cret"}}, "users: a user has no name"),
        ({"users": {"alice": None}}, "users: the password of 'alice' is no text"),
        ({"users": ["alice"]}, "users: expected a password for each name"),
        ({"users": {"alice": "s3cret\0"}}, "users: no login can carry the password of 'alice'"),
        ({"users": {"alice": "s3cret\ud800"}}, "users: no login can carry the password of 'alice'"),
        ({"users": {"al\0ice": "s3cret"}}, "users: no login can carry 'al\\x00ice'"),
        ({"aws_access_keys": {"\ud800": "s3cret"}}, "aws_access_keys: no login can carry '\\ud800'"),
        ({"aws_access_keys": {"AKIA1": ""}}, "aws_access_keys: the secret of 'AKIA1' is empty"),
        ({"aws_access_keys": {"": "s3cret"}}, "aws_access_keys: a key has no id"),
        ({"token_validator": "validate"}, "token_validator='validate': expected a function"),
        ({"ssl_context": "broker.pem", "protocol": "SSL"}, "ssl_context='broker.pem': expected an ssl.SSLContext"),
        ({"unsecured_tokens": "false"}, "unsecured_tokens='false': expected True or False"),
        ({"sasl_oauth_allow_http": "no"}, "sasl_oauth_allow_http='no': expected True or False"),
    ],
)
def test_secrets_that_everybody_knows_are_refused(arguments: Any, text: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Security(**{"protocol": "SASL_PLAINTEXT", **arguments})
    assert str(raised.value).startswith(text)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (
            "http://issuer.example.org/keys",
            "http://issuer.example.org/keys is not encrypted: use https, or allow",
        ),
        ("http://127.0.0.1:1/keys", "the keys cannot be loaded: "),
        ("http://localhost:1/keys", "the keys cannot be loaded: "),
        ("http://[::1]:1/keys", "the keys cannot be loaded: "),
    ],
)
async def test_keys_come_by_http_only_from_this_machine(url: str, text: str) -> None:
    config: dict[str, Value] = {**AUDIENCE, **ISSUER, JWKS_URL: url, **NO_RETRY}
    with pytest.raises(ConfigurationError) as raised:
        await Broker(security=Security("SASL_PLAINTEXT"), config=config).start()
    assert str(raised.value).startswith(f"{JWKS_URL}: {text}")
    if "allow" in text:
        assert str(raised.value).endswith(" sasl_oauth_allow_http=True")


async def test_keys_come_by_http_from_another_machine_with_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiokproto.security.http_request.is_loopback", lambda host: False)
    async with oidc() as provider:
        config = {**AUDIENCE, **ISSUER, JWKS_URL: provider.keys_url}
        with pytest.raises(ConfigurationError, match="is not encrypted"):
            await Broker(security=Security("SASL_PLAINTEXT"), config=config).start()
        assert provider.asked == []
        async with Broker(security=Security("SASL_PLAINTEXT", sasl_oauth_allow_http=True), config=config):
            assert len(provider.asked) == 1

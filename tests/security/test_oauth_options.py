"""The options of OAUTHBEARER, by Kafka's names."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from typing import Any

import pytest

from aiokproto.config import ClusterConfig
from aiokproto.errors import ConfigurationError
from aiokproto.security import OAuthBearer, SaslMechanism
from tests.security.oidc import Issuer, oidc, verified

URL = "https://issuer/token"
ID, SECRET = "sasl_oauthbearer_client_credentials_client_id", "sasl_oauthbearer_client_credentials_client_secret"
KEY = "sasl_oauthbearer_assertion_private_key_file"
ENDPOINT = "sasl_oauthbearer_token_endpoint_url"
RETRIEVER = "sasl_oauthbearer_jwt_retriever_class"


def mechanism(**options: Any) -> SaslMechanism:
    config = ClusterConfig.parse(
        {
            "bootstrap_servers": "a",
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "OAUTHBEARER",
            **{name: value for name, value in options.items() if value is not ...},
        }
    )
    assert isinstance(config.sasl, OAuthBearer)
    return config.sasl


async def first(parsed: SaslMechanism) -> bytes:
    return await parsed.exchange("broker").start()


async def test_a_function_and_extensions() -> None:
    parsed = mechanism(sasl_oauth_token=lambda: "t", sasl_oauthbearer_extensions={"a": "b"})
    assert await first(parsed) == b"n,,\x01auth=Bearer t\x01a=b\x01\x01"


@pytest.mark.parametrize("retriever", [..., "FileJwtRetriever", "DefaultJwtRetriever"])
async def test_a_file_by_its_url(tmp_path: Path, retriever: Any) -> None:
    file = tmp_path / "a token"
    file.write_text("t")
    parsed = mechanism(**{ENDPOINT: file.as_uri(), RETRIEVER: retriever})
    assert await first(parsed) == b"n,,\x01auth=Bearer t\x01\x01"


@pytest.mark.parametrize(
    "retriever", [..., "org.apache.kafka.common.security.oauthbearer.ClientCredentialsJwtRetriever"]
)
async def test_client_credentials(retriever: Any) -> None:
    async with oidc() as provider:
        options = {
            ENDPOINT: provider.url,
            ID: "a b",
            SECRET: lambda: "c",
            RETRIEVER: retriever,
            "sasl_oauthbearer_scope": "read",
            "sasl_oauthbearer_header_urlencode": True,
            "sasl_login_connect_timeout_ms": 10_000,
            "sasl_login_retry_backoff_ms": 5,
        }
        assert b"auth=Bearer ey" in await first(mechanism(**options))
    (asked,) = provider.asked
    assert asked.form == {"grant_type": "client_credentials", "scope": "read"}
    assert asked.headers["authorization"] == f"Basic {base64.b64encode(b'a+b:c').decode()}"


@pytest.mark.parametrize("grant", ["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"])
async def test_signed_assertions(tmp_path: Path, grant: str) -> None:
    issuer = Issuer()
    file = tmp_path / "key.pem"
    file.write_bytes(issuer.pem())
    template = tmp_path / "template.json"
    template.write_text('{"header": {"kid": "5"}}')
    async with oidc() as provider:
        assertion = "sasl_oauthbearer_assertion"
        options = {
            ENDPOINT: provider.url,
            KEY: str(file),
            f"{assertion}_template_file": template,
            f"{assertion}_algorithm": "rs256",
            f"{assertion}_claim_aud": "a",
            f"{assertion}_claim_iss": "b",
            f"{assertion}_claim_sub": "c",
            f"{assertion}_claim_exp_seconds": 100,
            f"{assertion}_claim_nbf_seconds": 10,
            f"{assertion}_claim_jti_include": True,
            RETRIEVER: ... if grant == "client_credentials" else "JwtBearerJwtRetriever",
        }
        await first(mechanism(**options))
    form = provider.asked[0].form
    assert form["grant_type"] == grant
    header, claims = verified(form.get("client_assertion") or form["assertion"], issuer.key.public_key())
    assert header["kid"] == "5"
    assert (claims["aud"], claims["iss"], claims["sub"], claims["exp"] - claims["nbf"]) == ("a", "b", "c", 110)
    assert claims["jti"]


async def test_an_assertion_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "assertion"
    file.write_text("a.b.c")
    async with oidc() as provider:
        options = {ENDPOINT: provider.url, ID: "id", "sasl_oauthbearer_assertion_file": str(file)}
        await first(mechanism(**options))
    form = provider.asked[0].form
    assert (form["client_assertion"], form["client_id"]) == ("a.b.c", "id")


CREDENTIALS = {ENDPOINT: URL, ID: "id", SECRET: "s3cret"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "OAUTHBEARER needs sasl_oauth_token"),
        ({"sasl_oauth_token": 5}, "sasl_oauth_token: expected a function"),
        ({"sasl_oauth_token": lambda: "t", **CREDENTIALS}, "client_id has no effect: sasl_oauth_token is given"),
        ({"sasl_username": "a", **CREDENTIALS}, "sasl_username is no option of sasl_mechanism='OAUTHBEARER'"),
        ({**CREDENTIALS, SECRET: ...}, f"{SECRET} is missing"),
        ({**CREDENTIALS, ID: ...}, f"{ID} is missing"),
        ({**CREDENTIALS, SECRET: b"s3cret"}, f"{SECRET}: expected text"),
        ({**CREDENTIALS, ENDPOINT: "http://issuer"}, "is not encrypted"),
        ({**CREDENTIALS, ENDPOINT: 5}, f"{ENDPOINT}: expected text"),
        ({**CREDENTIALS, RETRIEVER: "com.example.Mine"}, f"{RETRIEVER}='com.example.Mine': expected ClientCred"),
        ({**CREDENTIALS, RETRIEVER: "JwtBearerJwtRetriever"}, "JwtBearerJwtRetriever needs sasl_oauthbearer_assertion"),
        ({**CREDENTIALS, RETRIEVER: "FileJwtRetriever"}, "client_id has no effect: .* is a file"),
        ({ENDPOINT: URL, RETRIEVER: "FileJwtRetriever"}, "expected the URL of a file"),
        ({ENDPOINT: "file://host/token"}, "expected the URL of a file"),
        ({ENDPOINT: "file:///t", RETRIEVER: "ClientCredentialsJwtRetriever", ID: "a"}, "needs an https URL"),
        ({**CREDENTIALS, KEY: "/key"}, "need a client secret or an assertion, and not both"),
        ({**CREDENTIALS, "sasl_oauthbearer_assertion_claim_iss": "a"}, f"{KEY} is missing: .*_iss is given"),
        (
            {ENDPOINT: URL, KEY: "/key", "sasl_oauthbearer_assertion_file": "/a"},
            f"{KEY} has no effect: .*_file is given",
        ),
        ({ENDPOINT: URL, KEY: "-----BEGIN s3cret"}, f"{KEY}: expected the path of a file$"),
        ({ENDPOINT: URL, "sasl_oauthbearer_assertion_file": "eyJs3cret.x.y"}, "expected the path of a file$"),
        ({ENDPOINT: URL, KEY: "/key", "sasl_oauthbearer_assertion_algorithm": "PS256"}, "expected 'RS256' or 'ES256'"),
        ({ENDPOINT: URL, KEY: "/key", "sasl_oauthbearer_assertion_claim_exp_seconds": 86_401}, "at most 86400"),
        ({ENDPOINT: URL, KEY: "/key", "sasl_oauthbearer_assertion_claim_jti_include": "yes"}, "expected True or False"),
        ({ENDPOINT: URL, KEY: "/key", SECRET: ..., "sasl_oauthbearer_header_urlencode": 1}, "expected True or False"),
        ({**CREDENTIALS, "sasl_oauth_ssl_context": "x"}, "expected an ssl.SSLContext"),
        ({**CREDENTIALS, "sasl_oauthbearer_extensions": "a=b"}, "expected a mapping"),
        ({**CREDENTIALS, "sasl_oauthbearer_extensions": {"auth": "b"}}, "the extension 'auth'"),
        ({**CREDENTIALS, "sasl_login_refresh_window_factor": 0.4}, "at least 0.5 and at most 1"),
        ({**CREDENTIALS, "sasl_login_refresh_window_jitter": 0.3}, "at most 0.25"),
        ({**CREDENTIALS, "sasl_login_refresh_min_period_seconds": 901}, "at most 900"),
        ({**CREDENTIALS, "sasl_login_refresh_buffer_seconds": True}, "at most 3600"),
        ({**CREDENTIALS, "sasl_login_read_timeout_ms": 0}, "sasl_login_read_timeout_ms=0: expected a number"),
    ],
)
def test_options_that_contradict_each_other(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text) as raised:
        mechanism(**options)
    assert "s3cret" not in str(raised.value)


def test_options_for_the_endpoint_reach_it() -> None:
    parsed = mechanism(
        **{**CREDENTIALS, ENDPOINT: URL},
        sasl_oauth_ssl_context=ssl.create_default_context(),
        sasl_oauth_allow_http=False,
        sasl_login_refresh_window_factor=1.0,
    )
    assert repr(parsed) == "OAuthBearer()"

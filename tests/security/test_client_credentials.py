"""Grants: what is sent to the token endpoint, with secrets and with assertions."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from aiokproto.errors import AuthenticationError, BrokerConnectionError, ConfigurationError
from aiokproto.security import Assertion, ClientCredentials, JwtBearer
from tests.security.oidc import oidc, refusing, verified

RSA = rsa.generate_private_key(65537, 2048)
P256 = ec.generate_private_key(ec.SECP256R1())


def pem(key: Any, passphrase: str | None = None) -> str:
    encryption = (
        serialization.BestAvailableEncryption(passphrase.encode()) if passphrase else serialization.NoEncryption()
    )
    data: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    return data.decode()


@pytest.mark.parametrize(("urlencode", "pair"), [(False, "my id:s3+/:cret%"), (True, "my+id:s3%2B%2F%3Acret%25")])
async def test_client_id_and_secret(tmp_path: Path, urlencode: bool, pair: str) -> None:
    file = tmp_path / "secret"
    file.write_text("s3+/:cret%\n")
    async with oidc() as provider:
        source = ClientCredentials(
            provider.url,
            lambda: "my id",
            file,
            scope=" read write ",
            parameters={"audience": "a&b"},
            header_urlencode=urlencode,
        )
        assert (await source()).value
    (asked,) = provider.asked
    assert asked.form == {"grant_type": "client_credentials", "scope": "read write", "audience": "a&b"}
    assert asked.headers["authorization"] == f"Basic {base64.b64encode(pair.encode()).decode()}"


async def test_no_scope_is_not_sent() -> None:
    async with oidc() as provider:
        await ClientCredentials(provider.url, "id", "secret", scope=" ")()
    assert provider.asked[0].form == {"grant_type": "client_credentials"}


@pytest.mark.parametrize("client_id", ["id", None])
async def test_a_client_assertion(client_id: str | None) -> None:
    async with oidc() as provider:
        await ClientCredentials(provider.url, client_id, assertion=lambda: "a.b.c", scope="read")()
    form = {
        "grant_type": "client_credentials",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": "a.b.c",
        "scope": "read",
    }
    assert provider.asked[0].form == (form if client_id is None else {**form, "client_id": client_id})
    assert "authorization" not in provider.asked[0].headers


async def test_the_jwt_bearer_grant(tmp_path: Path) -> None:
    file = tmp_path / "assertion"
    file.write_text("a.b.c\n")
    async with oidc() as provider:
        await JwtBearer(provider.url, file, scope="read", parameters={"resource": "x"})()
    grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert provider.asked[0].form == {"grant_type": grant, "assertion": "a.b.c", "scope": "read", "resource": "x"}


async def test_no_error_shows_what_was_sent() -> None:
    async with oidc() as provider:
        provider.answer = lambda asked: refusing(text=f"{asked.form} {asked.headers.get('authorization')}")(asked)
        for source in (
            ClientCredentials(provider.url, "id", "s3cret s3cret"),
            ClientCredentials(provider.url, "id", assertion="s3cret"),
            JwtBearer(provider.url, "s3cret"),
        ):
            with pytest.raises(AuthenticationError, match="…") as raised:
                await source()
            assert "s3cret" not in str(raised.value)
            assert base64.b64encode(b"id:s3cret s3cret").decode() not in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"client_id": "a"}, "need a client secret or an assertion"),
        ({"client_id": "a", "client_secret": "b", "assertion": "c"}, "and not both"),
        ({"client_secret": "b"}, "need a client id"),
        ({"client_id": "", "client_secret": "b"}, "sasl_oauthbearer_client_credentials_client_id is empty"),
        ({"client_id": "a", "client_secret": 5}, "sasl_oauthbearer_client_credentials_client_secret: expected text"),
    ],
)
def test_arguments_that_are_no_credentials(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        ClientCredentials("https://issuer", **arguments)


@pytest.mark.parametrize(("algorithm", "key"), [("RS256", RSA), ("es256", P256)])
@pytest.mark.parametrize("passphrase", [None, "of the key"])
async def test_an_assertion_is_signed(tmp_path: Path, algorithm: str, key: Any, passphrase: str | None) -> None:
    file = tmp_path / "key.pem"
    file.write_text(pem(key, passphrase))
    make = Assertion(
        file,
        algorithm=algorithm,
        passphrase=passphrase,
        audience="https://issuer/token",
        issuer="client",
        subject="client",
        lifetime=60,
        not_before=5,
        jti=True,
    )
    header, claims = verified(await make(), key.public_key())
    now = time.time()
    assert header == {"alg": algorithm.upper(), "typ": "JWT"}
    assert abs(claims["iat"] - now) < 30
    assert (claims["exp"] - claims["iat"], claims["iat"] - claims["nbf"]) == (60, 5)
    assert {name: claims[name] for name in ("aud", "iss", "sub")} == {
        "aud": "https://issuer/token",
        "iss": "client",
        "sub": "client",
    }
    assert claims["jti"] != verified(await make(), key.public_key())[1]["jti"]


@pytest.mark.parametrize("in_file", [True, False])
async def test_a_template_comes_over_claims_and_under_times(tmp_path: Path, in_file: bool) -> None:
    template = {
        "header": {"kid": "5", "alg": "none"},
        "payload": {"sub": "other", "exp": 5, "list": [1, {"a": None}]},
    }
    file = tmp_path / "template.json"
    file.write_text(json.dumps(template))
    make = Assertion(pem(RSA), subject="client", issuer="me", template=file if in_file else template)
    header, claims = verified(await make(), RSA.public_key())
    assert header == {"kid": "5", "alg": "RS256", "typ": "JWT"}
    assert (claims["sub"], claims["iss"], claims["list"]) == ("other", "me", [1, {"a": None}])
    assert claims["exp"] == claims["iat"] + 300
    assert "jti" not in claims
    file.write_text("{}")
    assert ("list" in verified(await make(), RSA.public_key())[1]) == (not in_file)


@pytest.mark.parametrize(
    ("key", "arguments", "text"),
    [
        ("s3cret", {}, "not a private key in PEM"),
        (pem(RSA, "right"), {"passphrase": "wr0ng"}, "the passphrase is missing, not needed, or wrong"),
        (pem(RSA, "right"), {}, "the passphrase is missing, not needed, or wrong"),
        (pem(RSA), {"passphrase": "wr0ng"}, "the passphrase is missing, not needed, or wrong"),
        (pem(P256), {}, "RS256 needs an RSA key of at least 2048 bits"),
        (pem(rsa.generate_private_key(65537, 1024)), {}, "RS256 needs an RSA key of at least 2048 bits"),
        (pem(RSA), {"algorithm": "ES256"}, "ES256 needs a key of the curve P-256"),
        (pem(ec.generate_private_key(ec.SECP384R1())), {"algorithm": "ES256"}, "ES256 needs a key of the curve P-256"),
        (lambda: 1 / 0, {}, "cannot be read: ZeroDivisionError"),
    ],
)
async def test_keys_that_cannot_sign(key: Any, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(BrokerConnectionError, match=text) as raised:
        await Assertion(key, **arguments)()
    assert raised.value.args[0].startswith("sasl_oauthbearer_assertion_private_key_file")
    assert not any(word in str(raised.value) for word in ("s3cret", "wr0ng", "right", "BEGIN"))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"header": 5}', '{"payload": []}', "[" * 100_000])
async def test_files_that_are_no_template(tmp_path: Path, text: str) -> None:
    file = tmp_path / "template.json"
    file.write_text(text)
    with pytest.raises(BrokerConnectionError, match="sasl_oauthbearer_assertion_template_file"):
        await Assertion(pem(RSA), template=file)()


def test_arguments_that_make_no_assertion() -> None:
    with pytest.raises(ConfigurationError, match="sasl_oauthbearer_assertion_algorithm='HS256': expected 'RS256' or"):
        Assertion("key", algorithm="HS256")
    with pytest.raises(ConfigurationError, match="the template of an assertion is no object"):
        Assertion("key", template={"header": 5})


async def test_the_package_that_signs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(ConfigurationError, match=r"pip install aiokproto\[oauth\]"):
        await Assertion(pem(RSA))()


async def test_an_assertion_of_ones_own_key_gets_a_token() -> None:
    """Over HTTP, in both grants."""
    make = Assertion(pem(RSA), issuer="client")
    async with oidc() as provider:
        await ClientCredentials(provider.url, "client", assertion=make)()
        await JwtBearer(provider.url, make)()
    sent = provider.asked[0].form["client_assertion"], provider.asked[1].form["assertion"]
    assert [verified(each, RSA.public_key())[1]["iss"] for each in sent] == ["client", "client"]

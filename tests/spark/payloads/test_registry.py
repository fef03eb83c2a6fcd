"""The client of schema registries."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from aiokproto.errors import ConfigurationError
from aiokproto.spark.payloads import registry as module
from aiokproto.spark.payloads.options import PAYLOAD_OPTIONS, RegistryOptions, parse_payloads
from aiokproto.spark.payloads.registry import AvroSchema, Registry, RegistryError, UnknownSchemaError
from tests.broker.secure import Certificates
from tests.spark.payloads.registry_server import SchemaRegistry

INNER = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}
MIDDLE = {"type": "record", "name": "Middle", "fields": [{"name": "i", "type": "In"}]}
OUTER = {"type": "record", "name": "Out", "fields": [{"name": "m", "type": "Middle"}, {"name": "i", "type": "In"}]}


@pytest.fixture
def server() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF", 0.0)
    # Another test's registry may have had the same port.
    monkeypatch.setattr(module, "_found", {})


def client(server: SchemaRegistry, **options: str) -> Registry:
    return Registry(RegistryOptions(server.url, **options))  # type: ignore[arg-type]


async def test_schemas_come_with_those_that_they_refer_to_in_order(server: SchemaRegistry) -> None:
    inner = {"name": "In", "subject": "in/er", "version": 1}
    server.register("in/er", INNER)
    server.register("middle", MIDDLE, [inner])
    number = server.register("outer", OUTER, [{"name": "Middle", "subject": "middle", "version": 1}, inner])
    expected = AvroSchema(json.dumps(OUTER), (json.dumps(INNER), json.dumps(MIDDLE)), number)
    assert await client(server).by_id(number) == expected
    assert await client(server).of_subject("outer", "latest") == expected
    assert await client(server).of_subject("outer", "1") == expected


async def test_what_never_changes_is_requested_once(server: SchemaRegistry) -> None:
    number = server.register("s", "int")
    for _ in range(3):
        await client(server).by_id(number)
        await client(server).of_subject("s", "1")
        await client(server).of_subject("s", "latest")
    assert sorted(server.requests) == [
        "GET /schemas/ids/1",
        "GET /subjects/s/versions/1",
        *["GET /subjects/s/versions/latest"] * 3,
    ]


async def test_what_is_not_there_is_an_error_of_its_own(server: SchemaRegistry) -> None:
    with pytest.raises(UnknownSchemaError, match=r"GET http://127.0.0.1:\d+/schemas/ids/5: Schema 5 not found"):
        await client(server).by_id(5)
    with pytest.raises(UnknownSchemaError, match="Subject 'absent' not found"):
        await client(server).of_subject("absent", "latest")
    server.schemas.append({"schema": "x", "schemaType": "PROTOBUF"})
    with pytest.raises(UnknownSchemaError, match=r"schema 1 of the registry .* is PROTOBUF, not Avro"):
        await client(server).by_id(1)


@pytest.mark.parametrize("subject", ["..", ".", "../../admin", "a/../../b", "..;", "..\\admin", "%2e%2e"])
async def test_a_subject_is_no_way_to_other_paths_of_the_server(server: SchemaRegistry, subject: str) -> None:
    """An option and a schema's reference can name the subject; an administrator allows a URL and what is below it."""
    number = server.register("s", "int", [{"name": "N", "subject": subject, "version": 1}])
    registry = client(server)
    for call in (
        lambda: registry.of_subject(subject, "latest"),
        lambda: registry.id_of(subject, AvroSchema('"int"'), register=True),
        lambda: registry.by_id(number),
    ):
        with pytest.raises(RegistryError, match=r"the subject '.*' would be another path of the registry"):
            await call()
    assert server.requests == [f"GET /schemas/ids/{number}"]


async def test_a_registry_that_fails_is_tried_again(server: SchemaRegistry) -> None:
    server.register("s", "int")
    server.failures = module.ATTEMPTS - 1
    await client(server).of_subject("s", "latest")
    server.failures = module.ATTEMPTS
    with pytest.raises(RegistryError, match=r"does not respond: HTTP status 503 \(GET /subjects/s/versions/latest\)"):
        await client(server).of_subject("s", "latest")


async def test_another_url_is_used_if_one_is_down(server: SchemaRegistry) -> None:
    server.register("s", "int")
    down = "http://127.0.0.1:1"
    await Registry(RegistryOptions(f"{down}, {server.url}/")).of_subject("s", "latest")
    with pytest.raises(RegistryError, match="does not respond: ConnectionRefusedError"):
        await Registry(RegistryOptions(down)).of_subject("s", "latest")


async def test_passwords_and_tokens(server: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    number = server.register("s", "int")
    server.authorization = "Basic " + base64.b64encode(b"etl:bread").decode()
    monkeypatch.setenv("REGISTRY_USER", "etl:bread")
    assert (await client(server, user_info="${env:REGISTRY_USER}").of_subject("s", "latest")).id == number
    with pytest.raises(RegistryError, match="HTTP status 401 User cannot access") as caught:
        await client(server, user_info="etl:butter").of_subject("s", "latest")
    assert "butter" not in str(caught.value)
    server.authorization = "Bearer jam"
    assert (await client(server, token="jam").of_subject("s", "latest")).id == number


async def test_tls(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates.authority)
    context.load_cert_chain(certificates.keystore)
    context.verify_mode = ssl.CERT_REQUIRED
    with SchemaRegistry(context) as server:
        server.register("s", "int")
        files = {"cafile": certificates.authority, "certfile": certificates.client}
        assert (await client(server, **files).of_subject("s", "latest")).schema == '"int"'


async def test_a_registry_on_ipv6() -> None:
    with pytest.raises(RegistryError, match=r"the schema registry http://\[::1\]:1 does not respond: \w*Error"):
        await Registry(RegistryOptions("http://[::1]:1")).by_id(1)


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        ({}, "has no schema"),
        ({"schema": None}, "has no schema"),
        ({"schema": {"type": "int"}}, "has no schema"),
        ({"schema": '"int"', "references": 5}, "its references are malformed"),
        ({"schema": '"int"', "references": {"subject": "s", "version": 1}}, "its references are malformed"),
        ({"schema": '"int"', "references": ["s"]}, "its references are malformed"),
        ({"schema": '"int"', "references": [{"version": 1}]}, "its references are malformed"),
        ({"schema": '"int"', "references": [{"subject": "s"}]}, "its references are malformed"),
        ({"schema": '"int"', "references": [{"subject": "s", "version": "x"}]}, "its references are malformed"),
        ({"schema": '"int"', "references": [{"subject": "s", "version": True}]}, "its references are malformed"),
        ({"schema": '"int"', "references": [{"subject": "\ud800", "version": 1}]}, "its references are malformed"),
        ([], "is not that of a schema registry"),
    ],
)
async def test_a_response_of_another_shape_is_an_error_and_not_kept(
    server: SchemaRegistry, response: Any, problem: str
) -> None:
    server.schemas.append(response)
    with pytest.raises(RegistryError, match=rf"GET http://127.0.0.1:\d+/schemas/ids/1: .*{problem}"):
        await client(server).by_id(1)
    server.schemas[0] = {"schema": '"int"', "schemaType": None, "references": None}
    assert (await client(server).by_id(1)).schema == '"int"'


@pytest.mark.parametrize("number", [None, True, "5", -1, 1 << 32])
async def test_an_id_must_fit_the_framing(server: SchemaRegistry, monkeypatch: pytest.MonkeyPatch, number: Any) -> None:
    monkeypatch.setattr(server, "answer", lambda *_: (200, {"id": number, "schema": '"int"'}))
    with pytest.raises(RegistryError, match="has no id"):
        await client(server).of_subject("s", "latest")
    with pytest.raises(RegistryError, match="has no id"):
        await client(server).id_of("s", AvroSchema('"int"'), register=False)


async def test_a_schema_that_refers_to_itself_is_an_error(server: SchemaRegistry) -> None:
    server.register("a", INNER, [{"name": "B", "subject": "b", "version": 1}])
    number = server.register("b", MIDDLE, [{"name": "A", "subject": "a", "version": 1}])
    with pytest.raises(RegistryError, match=r"version 1 of subject 'a' of http://127.0.0.1:\d+ refers to itself"):
        await client(server).by_id(number)
    assert len(server.requests) == 3


async def test_a_chain_of_references_has_a_limit(server: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(method: str, path: str, *_: Any) -> tuple[int, Any]:
        own = int(path.split("/")[-1])
        return 200, {"schema": '"int"', "references": [{"name": "N", "subject": "s", "version": own + 1}]}

    monkeypatch.setattr(server, "answer", answer)
    monkeypatch.setattr(module, "MAX_REFERENCES", 3)
    with pytest.raises(RegistryError, match="refers to more than 3 others"):
        await client(server).by_id(1)
    assert len(server.requests) == 4


async def test_the_cache_has_a_limit(server: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 2)
    for name in ("int", "long", "string"):
        await client(server).by_id(server.register(name, name))
    await client(server).by_id(3)
    assert len(server.requests) == 3
    await client(server).by_id(1)
    assert len(server.requests) == 4


async def test_an_id_that_is_registered_later_is_found(server: SchemaRegistry) -> None:
    with pytest.raises(UnknownSchemaError):
        await client(server).by_id(1)
    server.register("s", "int")
    assert (await client(server).by_id(1)).schema == '"int"'


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"<html>please log in</html>", "the response is not that of a schema registry"),
        (b"[" * 200_000, "the response is not that of a schema registry"),
        (b"\xff\xfe\xff", "the response is not that of a schema registry"),
        (b"x" * ((1 << 20) + 1), "the response has more than 1048576 bytes"),
    ],
)
async def test_a_body_that_is_no_json(server: SchemaRegistry, body: bytes, problem: str) -> None:
    server.register("s", "int")
    server.body = body
    with pytest.raises(RegistryError, match=problem):
        await client(server).by_id(1)


async def test_the_timeout_is_for_connecting_and_the_response_together(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(module, "request", never)
    with pytest.raises(RegistryError, match=r"does not respond: no complete response in 0\.01 s"):
        await Registry(RegistryOptions("http://127.0.0.1:1", timeout=0.01)).by_id(1)


async def test_a_redirect_is_not_followed(server: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "answer", lambda *_: (302, {}))
    with pytest.raises(RegistryError, match="HTTP status 302"):
        await client(server, token="jam").by_id(1)
    assert len(server.requests) == 1


async def test_no_error_shows_a_secret_that_the_registry_repeats(
    server: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for status in (401, 404, 422):

        def answer(_: str, __: str, authorization: str, body: bytes, status: int = status) -> tuple[int, Any]:
            return status, {"error_code": 1, "message": f"\x1b[2J\nno: {authorization} etl:bread bread"}

        monkeypatch.setattr(server, "answer", answer)
        for login in ({"user_info": "etl:bread"}, {"token": "bread"}):
            with pytest.raises(RegistryError, match="no: ") as caught:
                await client(server, **login).by_id(1)
            shown = str(caught.value)
            assert "bread" not in shown
            assert base64.b64encode(b"etl:bread").decode() not in shown
            assert shown.isprintable()


async def test_a_url_with_a_password_is_in_no_repr() -> None:
    given = {"value.format": "avro", "schema.registry.url": "https://etl:bread@registry"}
    options = {name: PAYLOAD_OPTIONS[name].parse(text) for name, text in given.items()}
    assert "bread" not in repr(parse_payloads(options, ["t"]))


def test_a_reference_to_nothing_is_not_a_missing_option(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    empty = f"${{file:{tmp_path}/empty}}"
    for name in ("user_info", "token", "cafile", "certfile"):
        with pytest.raises(ConfigurationError, match=rf"schema\.registry\.\S+ is empty: {re.escape(empty)} "):
            Registry(RegistryOptions("https://registry", **{name: empty}))  # type: ignore[arg-type]
    for url in (empty, " , "):
        with pytest.raises(ConfigurationError, match=r"schema\.registry\.url is empty"):
            Registry(RegistryOptions(url))


def test_a_login_that_is_no_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_USER", "etl:bread\udcff")
    for name in ("user_info", "token"):
        with pytest.raises(ConfigurationError, match=r"has characters that HTTP cannot send") as caught:
            Registry(RegistryOptions("https://registry", **{name: "${env:REGISTRY_USER}"}))  # type: ignore[arg-type]
        assert "bread" not in repr(caught.value)


def test_files_of_tls_that_cannot_be_used(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    (tmp_path / "text").write_text("no certificate")
    key = ec.generate_private_key(ec.SECP256R1())
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"jam"))
    (tmp_path / "encrypted").write_bytes(encrypted)
    text = str(tmp_path / "text")
    for files, problem in (
        ({"cafile": "/absent"}, r"ssl\.cafile=/absent cannot be used: .*No such file"),
        ({"cafile": text}, rf"ssl\.cafile={text} cannot be used"),
        ({"certfile": text}, rf"ssl\.certfile={text} cannot be used"),
        ({"certfile": "/a\0b"}, r"ssl\.certfile=.* cannot be used"),
        # OpenSSL would ask for its password on the terminal.
        (
            {"certfile": certificates.client, "keyfile": str(tmp_path / "encrypted")},
            r"ssl\.certfile=.*, schema\.registry\.ssl\.keyfile=.* cannot be used",
        ),
    ):
        with pytest.raises(ConfigurationError, match=f"schema.registry.{problem}"):
            Registry(RegistryOptions("https://registry", **files))  # type: ignore[arg-type]


def test_options_that_cannot_be() -> None:
    for url, problem in (
        ("https://registry/path?tenant=bread", "https://registry/path has a query"),
        ("http://etl:bread@registry", "user and password do not belong into the URL"),
        ("ftp://registry", "expected an absolute URL"),
    ):
        with pytest.raises(ConfigurationError, match=problem) as caught:
            Registry(RegistryOptions(url))
        assert "bread" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="http://registry is not encrypted: use https"):
        Registry(RegistryOptions("http://registry", user_info="etl:bread"))
    with pytest.raises(ConfigurationError, match="has characters that HTTP cannot send"):
        Registry(RegistryOptions("https://registry", token="a\r\nHost: x"))
    with pytest.raises(ConfigurationError, match="cannot be resolved"):
        Registry(RegistryOptions("https://registry", token="${file:/absent}"))

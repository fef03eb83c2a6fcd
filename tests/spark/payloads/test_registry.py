"""The client of schema registries."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiokproto.errors import ConfigurationError
from aiokproto.spark.payloads import registry as module
from aiokproto.spark.payloads.options import RegistryOptions
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
    with pytest.raises(RegistryError, match=r"schema 1 of the registry .* is PROTOBUF, not Avro"):
        await client(server).by_id(1)


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


def test_options_that_cannot_be() -> None:
    for url, problem in (
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
    with pytest.raises(ConfigurationError, match="a file cannot be read"):
        Registry(RegistryOptions("https://registry", cafile="/absent"))
    with pytest.raises(ConfigurationError, match="cannot be resolved"):
        Registry(RegistryOptions("https://registry", token="${file:/absent}"))

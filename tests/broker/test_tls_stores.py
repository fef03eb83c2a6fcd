"""The broker's own keystores, in every format that Kafka's broker accepts. Java's clients connect with theirs."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from aiokproto import Producer
from aiokproto.broker import Broker, Security
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.errors import ConfigurationError
from tests.broker.wire import connect_to
from tests.java import compiler
from tests.security.certificates import KEY_PASSWORD, PASSWORD, Files, add_java_stores, make
from tests.timeouts import LONG_TIMEOUT
from tools.setup.system import find_java

BROKER_RESOURCE = 4


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    made = make(tmp_path_factory.mktemp("tls"))
    if find_java() is not None:
        add_java_stores(made, "broker", "client")
    return made


def options(files: Files, kind: str) -> dict[str, Any]:
    """Return a listener's options, by the format of its stores."""
    if kind == "PEM text":
        given = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": files.text("broker.encrypted.key"),
            "ssl.keystore.certificate.chain": files.text("broker.pem"),
            "ssl.key.password": KEY_PASSWORD,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": files.text("ca.pem"),
        }
    elif kind == "PEM":
        given = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(files["broker.both.pem"]),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(files["ca.pem"]),
        }
    else:
        suffix = {"PKCS12": "p12"}.get(kind, kind.lower())
        given = {
            "ssl.keystore.type": kind,
            "ssl.keystore.location": str(files[f"broker.{suffix}"]),
            "ssl.keystore.password": PASSWORD,
            "ssl.truststore.type": kind,
            "ssl.truststore.location": str(files[f"trusted.{suffix}"]),
            "ssl.truststore.password": PASSWORD,
        }
        if kind == "JKS":
            given["ssl.key.password"] = KEY_PASSWORD
    return {**given, "ssl.client.auth": "required"}


KINDS = ("PEM", "PEM text", "PKCS12", "JKS", "JCEKS")


@pytest.mark.parametrize("kind", KINDS)
async def test_stores_of_every_format(files: Files, kind: str) -> None:
    if kind.startswith("J") and find_java() is None:
        pytest.skip("keytool writes these stores")
    async with Broker(security=Security("SSL"), config=options(files, kind)) as broker:
        await broker.create_topic("t")
        async with Producer(bootstrap_servers=broker.bootstrap_servers, **files.options("files")) as producer:
            await producer.send("t", b"value")


async def test_passwords_and_keys_are_not_described(files: Files) -> None:
    config = options(files, "PEM text")
    async with (
        Broker(security=Security("SSL"), config=config) as broker,
        connect_to(broker.bootstrap_servers, files_context(files)) as wire,
    ):
        asked = DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name="0", configuration_keys=None)
        (result,) = (await wire.ask(DescribeConfigsRequest(resources=[asked]))).results
        found = {entry.name: (entry.value, entry.is_sensitive) for entry in result.configs}
        for name in ("ssl.keystore.key", "ssl.key.password", "ssl.truststore.certificates"):
            assert found[name] == (None, True)
        assert found["ssl.keystore.type"] == ("PEM", False)


def files_context(files: Files) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files["ca.pem"])
    context.load_cert_chain(files["client.both.pem"])
    return context


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (
            {"ssl.keystore.password": "wrong-one"},
            r"ssl\.keystore\.location='.*': its password is wrong",
        ),
        ({"ssl.keystore.type": "PEM"}, r"ssl\.keystore\.location='.*': it is no PEM but PKCS#12"),
        ({"ssl.keystore.location": ""}, r"ssl\.keystore\.password is given without ssl\.keystore\.location"),
        ({"ssl.truststore.location": "nowhere"}, r"ssl\.truststore\.location='nowhere' cannot be read"),
        ({"ssl.enabled.protocols": "SSLv3"}, r"ssl\.enabled\.protocols: 'SSLv3': expected"),
        ({"ssl.cipher.suites": "TLS_X"}, r"ssl\.cipher\.suites: 'TLS_X' is no cipher suite"),
    ],
)
async def test_stores_that_cannot_be_used(files: Files, changes: dict[str, str], error: str) -> None:
    with pytest.raises(ConfigurationError, match=error) as raised:
        async with Broker(security=Security("SSL"), config={**options(files, "PKCS12"), **changes}):
            pass
    assert "wrong-one" not in str(raised.value)


@pytest.fixture
async def brokers(files: Files) -> AsyncIterator[dict[str, Broker]]:
    """Start one broker for each format."""
    async with AsyncExitStack() as stack:
        made = {
            kind: await stack.enter_async_context(Broker(security=Security("SSL"), config=options(files, kind)))
            for kind in KINDS
        }
        for broker in made.values():
            await broker.create_topic("t")
        yield made


@pytest.mark.java
async def test_javas_clients_with_stores_of_every_format(
    files: Files, brokers: dict[str, Broker], tmp_path: Path
) -> None:
    properties = []
    for kind, broker in brokers.items():
        stores = {
            name: value.replace("\n", "\\n").replace("broker", "client")
            for name, value in options(files, kind).items()
            if name != "ssl.client.auth"
        }
        if kind == "PEM text":
            # Encrypted keys (PBES2) need a newer Java than 17.
            del stores["ssl.key.password"]
            stores["ssl.keystore.key"] = files.text("client.pkcs8.key").replace("\n", "\\n")
            stores["ssl.keystore.certificate.chain"] = files.text("client.pem").replace("\n", "\\n")
        stores |= {"bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SSL"}
        path = tmp_path / f"{kind.replace(' ', '-')}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in stores.items()))
        properties.append(str(path))
    process = await asyncio.create_subprocess_exec(
        *compiler.command(compiler.PROGRAMS / "tls" / "RoundTrip.java", "RoundTrip", compiler.SILENT),
        *properties,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(), 2 * LONG_TIMEOUT)
    assert output.decode().split() == properties, errors.decode()[-3000:]

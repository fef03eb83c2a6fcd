"""Certificates that are renewed on disk take effect with the next connection, and broken ones never do."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import ssl
from pathlib import Path
from typing import Any

import pytest

from aiokproto import Producer
from aiokproto.broker import Broker, Security
from aiokproto.config import ClusterConfig
from aiokproto.errors import AuthenticationError
from aiokproto.security.tls.contexts import TlsContexts
from tests.security.certificates import KEY_PASSWORD, Files, make
from tests.timeouts import LONG_TIMEOUT


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return make(tmp_path)


def contexts(**options: Any) -> TlsContexts:
    config = ClusterConfig.parse({"bootstrap_servers": "a:1", "security_protocol": "SSL", **options})
    assert config.tls is not None
    return config.tls


def replace(target: Path, source: Path) -> None:
    """Replace the file with another one of the same name, as secret stores do."""
    new = target.with_suffix(".new")
    shutil.copy(source, new)
    new.replace(target)


def authorities(context: ssl.SSLContext) -> list[bytes]:
    return context.get_ca_certs(binary_form=True)


async def test_files_are_read_once_while_they_do_not_change(files: Files) -> None:
    tls = contexts(ssl_cafile=files["ca.pem"], ssl_certfile=files["client.both.pem"])
    first = await tls.context()
    assert {id(context) for context in await asyncio.gather(*(tls.context() for _ in range(5)))} == {id(first)}


async def test_a_replaced_file_is_read(files: Files) -> None:
    tls = contexts(ssl_cafile=files["ca.pem"])
    first = await tls.context()
    replace(files["ca.pem"], files["other-ca.pem"])
    second = await tls.context()
    assert authorities(first) != authorities(second)
    assert await tls.context() is second


async def test_a_file_that_was_written_in_place_is_read(files: Files) -> None:
    tls = contexts(ssl_cafile=files["ca.pem"])
    first = await tls.context()
    size = files["ca.pem"].stat().st_size
    other = files["other-ca.pem"].read_bytes()
    files["ca.pem"].write_bytes(other + b"\n" * max(size - len(other), 0))
    # A file system's clock may be coarse.
    os.utime(files["ca.pem"], ns=(1, files["ca.pem"].stat().st_mtime_ns + 1))
    assert authorities(await tls.context()) != authorities(first)


async def test_a_link_that_leads_elsewhere_is_followed(files: Files) -> None:
    """Kubernetes replaces mounted secrets like this."""
    link = files["current.pem"]
    link.symlink_to(files["ca.pem"])
    tls = contexts(ssl_cafile=link)
    first = await tls.context()
    files["next"].symlink_to(files["other-ca.pem"])
    files["next"].replace(link)
    assert authorities(await tls.context()) != authorities(first)


async def test_a_function_that_returns_another_certificate_counts(files: Files) -> None:
    name = "ca.pem"
    tls = contexts(ssl_truststore_certificates=lambda: files.text(name))
    first = await tls.context()
    assert await tls.context() is first
    name = "other-ca.pem"
    assert authorities(await tls.context()) != authorities(first)


async def test_a_broken_file_keeps_what_works_and_is_reported_once(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aiokproto.net")
    tls = contexts(ssl_cafile=files["ca.pem"], ssl_certfile=files["client.pem"], ssl_keyfile=files["client.key"])
    first = await tls.context()
    whole = files["stranger.pem"].read_bytes()
    files["client.pem"].write_bytes(whole[: len(whole) // 2])
    for _ in range(3):
        assert await tls.context() is first
    # The certificate is new and the key is still the old one.
    files["client.pem"].write_bytes(whole)
    for _ in range(3):
        assert await tls.context() is first
    files["client.pem"].unlink()
    assert await tls.context() is first
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [text.split(": ", 1)[0] for text in warnings] == [
        "new TLS certificates cannot be used, new connections use the earlier ones"
    ] * 3
    for text, cause in zip(warnings, ("it is incomplete", "not that of the first", "cannot be read"), strict=True):
        assert cause in text
    files["client.pem"].write_bytes(whole)
    replace(files["client.key"], files["stranger.key"])
    second = await tls.context()
    assert second is not first
    assert caplog.records[-1].getMessage() == "TLS certificates were renewed: new connections use them"


async def test_a_password_that_cannot_be_read_keeps_what_works(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    password = [KEY_PASSWORD]
    tls = contexts(
        ssl_certfile=files["client.pem"], ssl_keyfile=files["client.encrypted.key"], ssl_password=lambda: password[0]
    )
    first = await tls.context()
    password.clear()
    assert await tls.context() is first
    assert "ssl_password cannot be read" in caplog.text
    password.append("wrong-one")
    assert await tls.context() is first
    assert "wrong-one" not in caplog.text


async def test_a_secret_store_that_does_not_respond_keeps_what_works(
    files: Files, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections don't wait for it one after the other, and it's called again later."""
    monkeypatch.setattr("aiokproto.security.tls.contexts.RENEWAL_LIMIT", 0.01)
    name, asked, sealed = "ca.pem", 0, asyncio.Event()
    sealed.set()

    async def vault() -> str:
        nonlocal asked
        asked += 1
        await sealed.wait()
        return files.text(name)

    tls = contexts(ssl_truststore_certificates=vault)
    first = await tls.context()
    sealed.clear()
    assert {id(context) for context in await asyncio.gather(*(tls.context() for _ in range(50)))} == {id(first)}
    assert asked == 2
    assert "earlier ones: reading them took longer than 0.01 s" in caplog.text
    monkeypatch.setattr(tls, "_pause_until", 0.0)
    monkeypatch.setattr("aiokproto.security.tls.contexts.RENEWAL_LIMIT", LONG_TIMEOUT)
    name = "other-ca.pem"
    sealed.set()
    assert authorities(await tls.context()) != authorities(first)


async def test_a_connection_that_is_given_up_leaves_the_others_theirs(files: Files) -> None:
    tls = contexts(ssl_cafile=files["ca.pem"])
    first, second = (asyncio.ensure_future(tls.context()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert authorities(await second)
    assert first.cancelled() or first.done()


async def test_a_producer_continues_with_the_renewed_certificate(files: Files) -> None:
    """The brokers' authorities are exchanged while it runs. Without the new files it couldn't connect again."""
    replace(files["used-ca.pem"], files["ca.pem"])
    replace(files["used.pem"], files["client.both.pem"])

    def broker(name: str, authority: str, port: int) -> Broker:
        config = {
            "ssl.keystore.location": str(files[f"{name}.both.pem"]),
            "ssl.truststore.location": str(files[authority]),
            "ssl.client.auth": "required",
        }
        return Broker(security=Security("SSL"), config=config, port=port, data_dir=files["data"])

    options: dict[str, Any] = {
        "security_protocol": "SSL",
        "ssl_cafile": files["used-ca.pem"],
        "ssl_certfile": files["used.pem"],
    }
    async with broker("broker", "ca.pem", 0) as first:
        await first.create_topic("t")
        servers = first.bootstrap_servers
        producer = Producer(bootstrap_servers=servers, **options)
        await producer.start()
        await producer.send("t", b"1")
    try:
        replace(files["used-ca.pem"], files["other-ca.pem"])
        replace(files["used.pem"], files["stranger.both.pem"])
        async with broker("foreign", "other-ca.pem", int(servers.split(":")[1])):
            assert (await producer.send("t", b"2")).offset == 1
    finally:
        await producer.close()


async def test_a_client_with_the_wrong_certificate_ends(files: Files) -> None:
    config = {
        "ssl.keystore.location": str(files["broker.both.pem"]),
        "ssl.truststore.location": str(files["ca.pem"]),
        "ssl.client.auth": "required",
    }
    async with Broker(security=Security("SSL"), config=config) as broker:
        producer = Producer(
            bootstrap_servers=broker.bootstrap_servers,
            security_protocol="SSL",
            ssl_cafile=files["ca.pem"],
            ssl_certfile=files["stranger.both.pem"],
        )
        with pytest.raises(AuthenticationError, match="broker's truststore"):
            await producer.start()

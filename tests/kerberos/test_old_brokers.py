"""GSSAPI with brokers before 1.0, which know no SaslAuthenticate, and before 0.10, which know no SaslHandshake."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aiokproto.codec.frames import decode_request_header, encode_response
from aiokproto.codec.messages.heartbeat import HeartbeatResponse
from aiokproto.codec.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from aiokproto.codec.schema import Response
from aiokproto.security import Gssapi
from tests.kafka.kdc import REALM, Kdc
from tests.kerberos.acceptor import NO_LAYER, Acceptor
from tests.net.authenticating import beat
from tests.net.bare import bare, framed
from tests.net.peer import connected, raw_peer, serves
from tests.timeouts import LONG_TIMEOUT

pytestmark = pytest.mark.kerberos


async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, service: Acceptor, token: bytes) -> None:
    """Accept tokens in frames of their own; don't answer the last one; then answer a heartbeat."""
    while (challenge := service.accept(token)) is not None:
        writer.write(framed(challenge))
        token = await bare(reader)
    request = decode_request_header(await bare(reader))
    writer.write(encode_response(HeartbeatResponse(error_code=3), request.api_version, request.correlation_id))
    await reader.read()


@pytest.mark.parametrize("handshake", [True, False])
async def test_tokens_without_requests(realm: Kdc, user: str, keytab: Path, handshake: bool) -> None:
    services: list[Acceptor] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await bare(reader)
        # A GSSAPI token starts with 0x60 (RFC 2743 §3.1), and a request starts with its ApiKey.
        if first[0] != 0x60:
            if not handshake:
                raise ConnectionResetError
            versions = decode_request_header(first)
            listed = serves(SaslHandshake=(0, 0), Heartbeat=(0, 1), ApiVersions=(0, 0))(None, 0)
            assert isinstance(listed, Response)
            writer.write(encode_response(listed, versions.api_version, versions.correlation_id))
            request = decode_request_header(await bare(reader))
            assert (request.api_key, request.api_version) == (SaslHandshakeRequest.api_key, 0)
            writer.write(encode_response(SaslHandshakeResponse(), 0, request.correlation_id))
            first = await bare(reader)
        services.append(Acceptor(realm.krb5_conf.with_name("service.keytab")))
        await accept(reader, writer, services[0], first)

    mechanism = Gssapi(keytab=keytab)
    async with raw_peer(serve) as port, connected(port, sasl=mechanism) as line:
        assert bool(line.versions.assumed) != handshake
        assert (await line.send(beat(), timeout=LONG_TIMEOUT)).error_code == 3
    assert [service.client for service in services] == [f"{user}@{REALM}"]
    assert services[0].selection == NO_LAYER + f"{user}@{REALM}".encode()

"""A server between clients and a broker without SASL, which pretends to be a broker with SCRAM."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokproto.codec.frames import RequestFrame, decode_request_header, decode_response, encode_response
from aiokproto.codec.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from aiokproto.codec.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from aiokproto.codec.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode
from tests.security.hostile_scram import ScramServer

LIFETIME_MS = 10_000
"""The lifetime of sessions, which makes clients authenticate again and again."""

DOWNGRADES = (
    "only PLAIN is offered",
    "PLAIN is offered, and nothing refused",
    "SaslAuthenticate is hidden",
    "no proof is wanted",
    "the first message without end",
)


class HostileLogin:
    """The connections to one broker.

    Attributes:
        attack: What the server does in logins that start from now on; empty if it is honest.
        logins: The number of logins that have started since the attack began.
        tokens: The tokens that clients have sent in those logins.
    """

    def __init__(self, broker: tuple[str, int], digest: str) -> None:
        self.attack = ""
        self.logins = 0
        self.tokens: list[bytes] = []
        self._broker = broker
        self._digest = digest
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._broker)
            try:
                await _Conversation(self, reader, writer, far_reader, far_writer).run()
            finally:
                far_writer.close()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def begin(self) -> ScramServer:
        self.logins += bool(self.attack)
        return ScramServer(self._digest, self.attack)


class _Conversation:
    """One connection. Responses have the order of the requests, whether the server or the broker answers."""

    def __init__(
        self,
        gate: HostileLogin,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
    ) -> None:
        self._gate = gate
        self._reader = reader
        self._writer = writer
        self._far_reader = far_reader
        self._far_writer = far_writer
        self._server: ScramServer | None = None
        self._bare = False
        self._due: asyncio.Queue[bytes | RequestFrame] = asyncio.Queue()

    async def run(self) -> None:
        back = asyncio.ensure_future(self._back())
        try:
            while True:
                frame = await _frame(self._reader)
                if self._bare:
                    self._due.put_nowait(_framed(bytes(self._token(frame).auth_bytes)))
                    # This is the last token of the exchange. Requests follow.
                    self._bare = not frame.startswith(b"c=")
                    continue
                header = decode_request_header(frame)
                response = self._answer(header)
                if response is None:
                    self._far_writer.write(_framed(frame))
                    self._due.put_nowait(header)
                else:
                    self._due.put_nowait(bytes(encode_response(response, header.api_version, header.correlation_id)))
        finally:
            back.cancel()
            await asyncio.gather(back, return_exceptions=True)

    async def _back(self) -> None:
        while True:
            due = await self._due.get()
            self._writer.write(due if isinstance(due, bytes) else self._passed_on(due, await _frame(self._far_reader)))

    def _passed_on(self, header: RequestFrame, frame: bytes) -> bytes:
        if header.api_key != ApiVersionsRequest.api_key or self._gate.attack != "SaslAuthenticate is hidden":
            return _framed(frame)
        listed = decode_response(frame, ApiVersionsResponse, header.api_version)
        listed.api_keys = [each for each in listed.api_keys if each.api_key != SaslAuthenticateRequest.api_key]
        return bytes(encode_response(listed, header.api_version, header.correlation_id))

    def _answer(self, header: RequestFrame) -> Response | None:
        if header.api_key == SaslHandshakeRequest.api_key:
            return self._handshake(SaslHandshakeRequest.decode(header.body, header.api_version), header.api_version)
        if header.api_key == SaslAuthenticateRequest.api_key:
            request = SaslAuthenticateRequest.decode(header.body, header.api_version)
            return self._token(bytes(request.auth_bytes))
        return None

    def _handshake(self, request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse:
        self._server = self._gate.begin()
        if self._server.attack == "only PLAIN is offered":
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["PLAIN"])
        self._bare = version == 0
        offered = "PLAIN" if self._server.attack.startswith("PLAIN") else request.mechanism
        return SaslHandshakeResponse(mechanisms=[offered])

    def _token(self, token: bytes) -> SaslAuthenticateResponse:
        server = self._server
        assert server is not None, "the handshake comes first"
        if server.attack:
            self._gate.tokens.append(token)
        if server.attack in ("no proof is wanted", "PLAIN is offered, and nothing refused"):
            return SaslAuthenticateResponse(error_message=None, session_lifetime_ms=LIFETIME_MS)
        if server.attack == "the first message without end" and token.startswith(b"c="):
            token = self._gate.tokens[-2]
        answer = server.answer(token)
        return SaslAuthenticateResponse(error_message=None, auth_bytes=answer, session_lifetime_ms=LIFETIME_MS)


@asynccontextmanager
async def hostile_login(bootstrap: str, digest: str) -> AsyncIterator[tuple[HostileLogin, int]]:
    """Yield the server and its port."""
    host, _, port = bootstrap.rpartition(":")
    hostile = HostileLogin((host, int(port)), digest)
    server = await asyncio.start_server(hostile.serve, "127.0.0.1", 0)
    try:
        yield hostile, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await hostile.close()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def _framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame

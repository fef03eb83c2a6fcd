"""Connections through a proxy: SOCKS5 (RFC 1928, RFC 1929) and HTTP CONNECT (RFC 9110, section 9.3.6).

:class:`Handshake` is the connection's first protocol. :func:`negotiate` makes the proxy connect to the broker. Then
:meth:`Handshake.hand_over` passes the connection to the client's own protocol, with or without TLS to the broker. If
the proxy itself is reached over TLS (``https``), the broker's TLS runs inside the proxy's.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from base64 import b64encode
from contextlib import suppress
from typing import cast

from aiokproto.config.proxy import Proxy
from aiokproto.errors import AuthenticationError, BrokerConnectionError, NotKafkaError
from aiokproto.net.foreign_protocols import PROXY_REMEDIES, describe_bytes
from aiokproto.net.tls_errors import PROXY, refusal
from aiokproto.texts import address

TLS_HANDSHAKE = 24 * 3600.0
"""The timeout (s) for TLS handshakes that is passed to event loops, high enough that the connection's own deadline
comes first. If their default of a minute expired, it would look as if the peer had closed the connection."""

MAX_RESPONSE_SIZE = 16 * 1024
"""Maximum length of a proxy's response in bytes; the limits of curl and Go are similar."""

_HTTP = b"HTTP/1."
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?!\d)([^\r\n]*)")
_CHALLENGE = re.compile(rb"^proxy-authenticate:[ \t]*([a-z0-9-]{1,20})", re.IGNORECASE | re.MULTILINE)
# Some proxies end lines with just LF (RFC 9112, section 2.2).
_END = re.compile(rb"\r?\n\r?\n")
_NO_CREDENTIALS = "user:password@ before the host in proxy_url"

_VERSION = 5
_NO_AUTHENTICATION, _PASSWORD, _NONE_ACCEPTABLE = 0, 2, 0xFF
_IPV4, _NAME, _IPV6 = 1, 3, 4
_REPLIES = {
    1: "general failure",
    2: "its rules do not allow the connection",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "the time to live has expired",
    7: "it does not support CONNECT",
    8: "it does not support this type of address",
}


class Handshake(asyncio.Protocol):
    """The connection to a proxy, until the proxy has connected to the broker."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self.lost: Exception | None = None
        """The error that ended the connection."""

    # --- Callbacks of asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        # Bytes after the proxy's response are the broker's. They are read once the connection has a protocol for the
        # broker.
        if len(self._received) > MAX_RESPONSE_SIZE and self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self._ended = True
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended, self.lost = True, exc
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- Called by the exchange ---

    @property
    def seen(self) -> bytes:
        """Bytes that were received but not read yet."""
        return bytes(self._received)

    def write(self, data: bytes) -> None:
        """Write part of the exchange."""
        assert self._transport is not None
        self._transport.write(data)

    async def read(self, size: int) -> bytes:
        """Read this many bytes.

        Raises:
            EOFError: The proxy closed the connection first.
        """
        while len(self._received) < size:
            await self.more()
        data = bytes(self._received[:size])
        del self._received[:size]
        return data

    async def more(self) -> None:
        """Wait for more bytes. Raises the same errors as :meth:`read`."""
        if self._ended:
            raise EOFError
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    async def hand_over(
        self, protocol: asyncio.BaseProtocol, tls: ssl.SSLContext | None, server_hostname: str | None
    ) -> asyncio.BaseTransport:
        """Pass the connection to ``protocol``, after a TLS handshake with the broker if there is a context.

        Returns:
            The protocol's transport.
        """
        transport = self._transport
        assert transport is not None
        if tls is not None:
            loop = asyncio.get_running_loop()
            upgraded = await loop.start_tls(
                transport, protocol, tls, server_hostname=server_hostname, ssl_handshake_timeout=TLS_HANDSHAKE
            )
            if upgraded is None:
                raise ConnectionResetError("the connection is lost")
            protocol.connection_made(upgraded)
            return upgraded
        # Don't read from the transport while changing its protocol.
        transport.pause_reading()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        deliver(protocol, self._received)
        if self._ended:
            protocol.connection_lost(None)
        else:
            transport.resume_reading()
        return transport

    def abort(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()


def deliver(protocol: asyncio.BaseProtocol, data: bytes | bytearray) -> None:
    """Deliver bytes to a protocol, as a transport does."""
    if not isinstance(protocol, asyncio.BufferedProtocol):
        if data:
            cast("asyncio.Protocol", protocol).data_received(bytes(data))
        return
    while data:
        room = memoryview(protocol.get_buffer(len(data)))
        size = min(len(room), len(data))
        room[:size] = data[:size]
        room.release()
        protocol.buffer_updated(size)
        data = data[size:]


async def negotiate(line: Handshake, proxy: Proxy, host: str, port: int) -> None:
    """Make the proxy connect to a host, which is a name or an address.

    Raises:
        AuthenticationError: The proxy rejects the credentials, or requires some.
        NotKafkaError: The peer isn't a proxy of this kind.
        BrokerConnectionError: The proxy refuses, cannot reach the host, or closed the connection.
    """
    # Some names come from brokers. A space or line break in one would inject text into the request.
    if not host.isascii():
        with suppress(UnicodeError):
            host = host.encode("idna").decode()
    if not host.isascii() or not host.isprintable() or " " in host or len(host) > 255:
        raise BrokerConnectionError(f"proxy {proxy}: {host!r} is no host name")
    try:
        if proxy.scheme.startswith("socks5"):
            await _socks5(line, proxy, host, port)
        else:
            await _connect(line, proxy, host, port)
    except EOFError:
        if line.seen:
            raise _no_proxy(proxy, line.seen) from None
        # With TLS 1.3, a proxy rejects a certificate after the handshake.
        refused = refusal(f"proxy {proxy}", line.lost, PROXY)
        if refused is not None:
            raise refused from line.lost
        raise BrokerConnectionError(f"proxy {proxy} closed the connection in its handshake") from None


def _no_proxy(proxy: Proxy, seen: bytes) -> NotKafkaError:
    kind = "SOCKS5" if proxy.scheme.startswith("socks5") else "HTTP"
    return NotKafkaError(f"proxy {proxy} is no {kind} proxy: {describe_bytes(seen, PROXY_REMEDIES)}")


def _rejected(proxy: Proxy, why: str) -> AuthenticationError:
    if proxy.username is None:
        return AuthenticationError(f"proxy {proxy} requires authentication ({why}): {_NO_CREDENTIALS}")
    return AuthenticationError(f"proxy {proxy} rejected the credentials ({why}): check proxy_url")


async def _socks5(line: Handshake, proxy: Proxy, host: str, port: int) -> None:
    methods = [_NO_AUTHENTICATION] if proxy.username is None else [_NO_AUTHENTICATION, _PASSWORD]
    line.write(bytes((_VERSION, len(methods), *methods)))
    version, method = first = await line.read(2)
    if version != _VERSION:
        raise _no_proxy(proxy, first + line.seen)
    if method == _NONE_ACCEPTABLE or method not in methods:
        raise _rejected(proxy, "no authentication method in common")
    if method == _PASSWORD:
        await _password(line, proxy)
    line.write(bytes((_VERSION, 1, 0)) + _address(host) + port.to_bytes(2, "big"))
    version, reply = first = await line.read(2)
    if version != _VERSION:
        raise _no_proxy(proxy, first + line.seen)
    # Check the reply before reading the rest, which some proxies leave out.
    if reply:
        why = _REPLIES.get(reply, f"reply {reply}")
        raise BrokerConnectionError(f"proxy {proxy} cannot connect to {address(host, port)}: {why}")
    _, kind = second = await line.read(2)
    if kind not in (_IPV4, _NAME, _IPV6):
        raise _no_proxy(proxy, second + line.seen)
    # This is the proxy's own address. Only its length matters.
    size = {_IPV4: 4, _IPV6: 16}.get(kind)
    await line.read((size if size is not None else (await line.read(1))[0]) + 2)


async def _password(line: Handshake, proxy: Proxy) -> None:
    username, password = (proxy.username or "").encode(), proxy.password.encode()
    line.write(bytes((1, len(username))) + username + bytes((len(password),)) + password)
    _, status = await line.read(2)
    if status:
        raise _rejected(proxy, f"status {status}")


def _address(host: str) -> bytes:
    for kind, family in ((_IPV4, socket.AF_INET), (_IPV6, socket.AF_INET6)):
        with suppress(OSError):
            return bytes((kind,)) + socket.inet_pton(family, host.partition("%")[0])
    name = host.encode()
    return bytes((_NAME, len(name))) + name


async def _connect(line: Handshake, proxy: Proxy, host: str, port: int) -> None:
    target = address(host, port)
    head = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.username is not None:
        credentials = b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
        head.append(f"Proxy-Authorization: Basic {credentials}")
    line.write("\r\n".join([*head, "", ""]).encode("ascii"))
    code, text, response = await _response(line, proxy)
    # There can be interim responses to any request (RFC 9110, section 15.2), but 101 is a final one.
    while 100 <= code < 200 and code != 101:
        code, text, response = await _response(line, proxy)
    if code == 407:
        schemes = [each.decode().title() for each in _CHALLENGE.findall(response)]
        wants = f"; it wants {', '.join(schemes)}, and this client has Basic alone" if schemes else ""
        raise _rejected(proxy, text if "Basic" in schemes else text + wants)
    if not 200 <= code < 300:
        raise BrokerConnectionError(f"proxy {proxy} does not connect to {target}: {text}")


async def _response(line: Handshake, proxy: Proxy) -> tuple[int, str, bytes]:
    """Read the head of a response. Return its status code, the code with the proxy's reason phrase, and the head."""
    while (end := _END.search(line.seen)) is None:
        begin = line.seen[: len(_HTTP)]
        if not _HTTP.startswith(begin) or len(line.seen) > MAX_RESPONSE_SIZE:
            raise _no_proxy(proxy, line.seen)
        await line.more()
    response = await line.read(end.end())
    status = _STATUS.match(response)
    if status is None:
        raise _no_proxy(proxy, response)
    # The phrase becomes part of an error, and so of logs. It must not contain control characters.
    words = "".join(each if each.isprintable() else "?" for each in status[2][:80].decode("latin-1"))
    return int(status[1]), f"{status[1].decode()}{words}", response

"""One HTTP/1.1 request, for tokens and the keys that verify them. After the response the connection is closed.

Redirects aren't followed, because they would carry credentials to an address that the user hasn't given. Everything
that the server sends has a limit. Proxies aren't used.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from aiokproto.errors import ConfigurationError
from aiokproto.runtime.timeouts import timeout
from aiokproto.security.tls.defaults import default_context, is_anonymous

MAX_LINE = 16 * 1024
"""Maximum length of a line in a response's head, in bytes."""
MAX_HEADERS = 100
MAX_BODY = 1 << 20
"""Maximum length of a response's body, in bytes."""


class HttpError(Exception):
    """The request failed without a response, or the response isn't HTTP."""


class HttpResponse(NamedTuple):
    """A response.

    Attributes:
        status: The status code.
        headers: The last value of each header, by name in lower case.
        body: The body.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class Url(NamedTuple):
    """A validated ``http`` or ``https`` URL.

    Attributes:
        tls: Whether it's ``https``.
        host: The host. An IPv6 address has no brackets.
        port: The port.
        target: Path and query, as the request line has them.
        shown: The URL for errors, without the query, which may have secrets.
    """

    tls: bool
    host: str
    port: int
    target: str
    shown: str

    def __repr__(self) -> str:
        return f"<{self.shown}>"

    @property
    def authority(self) -> str:
        """The value of the header ``Host``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


def parse_url(option: str, text: object, *, allow_http: bool) -> Url:
    """Parse a URL of the schemes ``https`` and ``http``.

    Args:
        option: The option's name, for errors.
        text: The URL.
        allow_http: Accept ``http`` for hosts other than this machine.

    Raises:
        ConfigurationError: It isn't a URL, or ``http`` isn't allowed. The text never has user, password or query.
    """
    if not isinstance(text, str) or not text:
        raise ConfigurationError(f"{option}: expected a URL as text, 'https://…'")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ConfigurationError(f"{option}: the URL is malformed") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not _is_sendable(text):
        raise ConfigurationError(f"{option}: expected an absolute URL, 'https://host/path', in ASCII")
    if "@" in parts.netloc:
        raise ConfigurationError(f"{option}: user and password do not belong into the URL: use client id and secret")
    if parts.fragment:
        raise ConfigurationError(f"{option}: the URL has a fragment (#…), which is never sent")
    tls, shown = parts.scheme == "https", f"{parts.scheme}://{parts.netloc}{parts.path}"
    if not tls and not allow_http and not is_loopback(parts.hostname):
        raise ConfigurationError(
            f"{option}: {shown} is not encrypted: use https, or allow it with sasl_oauth_allow_http=True"
        )
    target = _target(parts)
    return Url(tls, parts.hostname, port or (443 if tls else 80), target, shown)


def _is_sendable(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _target(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, judging by its name or address alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def request(
    method: str,
    url: Url,
    headers: Mapping[str, str],
    body: bytes,
    *,
    ssl_context: ssl.SSLContext | None,
    connect_timeout: float,
    read_timeout: float,
) -> HttpResponse:
    """Send a request, and return the response. Cancelling closes the connection.

    Args:
        method: ``GET`` or ``POST``.
        url: The URL.
        headers: Headers besides ``Host``, ``Connection`` and ``Content-Length``.
        body: The body.
        ssl_context: For ``https``. None makes the default context, with the system's certificate authorities.
        connect_timeout: Longest time to connect, including TLS (s).
        read_timeout: Longest time from then to the end of the response (s).

    Raises:
        HttpError: The server can't be reached, took too long, or didn't send a valid response.
    """
    context = (ssl_context or default_context()) if url.tls else None
    step = f"could not connect in {connect_timeout:g} s"
    try:
        async with timeout(connect_timeout):
            reader, writer = await asyncio.open_connection(url.host, url.port, ssl=context, limit=MAX_LINE)
        try:
            if is_anonymous(writer.get_extra_info("ssl_object")):
                raise HttpError("the server has no certificate: ssl_context permits ciphers without authentication")
            step = f"no complete response in {read_timeout:g} s"
            async with timeout(read_timeout):
                writer.write(_head(method, url, headers, body) + body)
                await writer.drain()
                return await _response(reader)
        finally:
            # Don't use close(), because a TLS server that doesn't answer would keep the socket open.
            writer.transport.abort()
    except asyncio.TimeoutError:
        raise HttpError(step) from None
    except asyncio.IncompleteReadError:
        raise HttpError("the connection was closed before the response was complete") from None
    except (OSError, UnicodeError) as error:
        # UnicodeError means that the host has a label that is empty or too long.
        raise HttpError(f"{type(error).__name__}: {error}") from error


def _head(method: str, url: Url, headers: Mapping[str, str], body: bytes) -> bytes:
    headers = {**headers, "Content-Length": str(len(body))} if method == "POST" else headers
    lines = [f"{method} {url.target} HTTP/1.1", f"Host: {url.authority}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _response(reader: asyncio.StreamReader) -> HttpResponse:
    while True:
        version, _, rest = (await _line(reader)).partition(" ")
        code = rest[:3]
        if not version.startswith("HTTP/1.") or not (code.isascii() and code.isdigit() and len(code) == 3):
            raise HttpError("the response is not HTTP/1.1")
        headers = await _headers(reader)
        # Interim responses (RFC 9110 §15.2) have no body.
        if int(code) >= 200:
            return HttpResponse(int(code), headers, await _body(reader, int(code), headers))


async def _headers(reader: asyncio.StreamReader) -> dict[str, str]:
    headers: dict[str, str] = {}
    for _ in range(MAX_HEADERS):
        line = await _line(reader)
        if not line:
            return headers
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    raise HttpError(f"the response has more than {MAX_HEADERS} headers")


async def _body(reader: asyncio.StreamReader, status: int, headers: Mapping[str, str]) -> bytes:
    if status in (204, 304):
        return b""
    if "transfer-encoding" in headers:
        if headers["transfer-encoding"].lower() != "chunked":
            raise HttpError("the response has a transfer coding other than 'chunked'")
        return await _chunks(reader)
    if "content-length" in headers:
        return await reader.readexactly(_size(headers["content-length"], 10))
    data = bytearray()
    while part := await reader.read(1 << 16):
        data += part
        _check_size(len(data))
    return bytes(data)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    data = bytearray()
    while size := _size((await _line(reader)).partition(";")[0].strip(), 16):
        _check_size(len(data) + size)
        data += await reader.readexactly(size)
        if await _line(reader):
            raise HttpError("a chunk of the response does not end where it should")
    # Ignore the trailers, since the connection is closed next.
    return bytes(data)


async def _line(reader: asyncio.StreamReader) -> str:
    try:
        line = await reader.readline()
    except ValueError:
        raise HttpError(f"the response has a line of more than {MAX_LINE} bytes") from None
    if not line.endswith(b"\n"):
        raise asyncio.IncompleteReadError(line, None)
    return line.decode("latin-1").rstrip("\r\n")


def _size(text: str, base: int) -> int:
    digits = "0123456789abcdef"[:base]
    if not text or len(text) > 16 or not set(text.lower()) <= set(digits):
        raise HttpError("the response has an invalid length")
    return _check_size(int(text, base))


def _check_size(size: int) -> int:
    if size > MAX_BODY:
        raise HttpError(f"the response has more than {MAX_BODY} bytes")
    return size

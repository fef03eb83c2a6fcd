"""A minimal HTTP/1.1 client, for requesting tokens and the keys that verify them. Each request uses a new connection.

It doesn't follow redirects: these would send credentials to an address that the user hasn't configured. The size of
everything that the server sends is limited. Requests go through the environment's proxy (``https_proxy``,
``http_proxy``, ``all_proxy``, ``no_proxy``), as with curl and Java's ``java.net.useSystemProxies``, except requests to
this machine.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

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
        target: Path and query, as in the request line.
        shown: The URL for errors, without the query, which may contain secrets.
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
    """Parse an ``https`` or ``http`` URL.

    Args:
        option: The option's name, for errors.
        text: The URL.
        allow_http: Accept ``http`` for hosts other than this machine.

    Raises:
        ConfigurationError: It isn't a URL, or ``http`` isn't allowed. The message never includes user, password or
            query.
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
    """Return whether a host is this machine, judging only by its name or address."""
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
        headers: Headers, except ``Host``, ``Connection`` and ``Content-Length``.
        body: The body.
        ssl_context: For ``https``. None for the default context, with the system's certificate authorities.
        connect_timeout: Maximum time to connect, including TLS (s).
        read_timeout: Maximum time from then to the end of the response (s).

    Raises:
        HttpError: The server can't be reached, took too long, or didn't send a valid response.
    """
    context = (ssl_context or default_context()) if url.tls else None
    proxy = _proxy_for(url)
    step = f"could not connect in {connect_timeout:g} s"
    try:
        async with timeout(connect_timeout):
            if proxy is None or context is None:
                host, port = (url.host, url.port) if proxy is None else (proxy.host, proxy.port)
                reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=MAX_LINE)
            else:
                reader, writer = await _open_tunnel(url, context, proxy)
        try:
            if is_anonymous(writer.get_extra_info("ssl_object")):
                raise HttpError("the server has no certificate: ssl_context permits ciphers without authentication")
            step = f"no complete response in {read_timeout:g} s"
            async with timeout(read_timeout):
                writer.write(_head(method, url, headers, body, proxy) + body)
                await writer.drain()
                return await _response(reader)
        finally:
            # Don't use close(): with TLS, a server that doesn't answer would keep the socket open.
            writer.transport.abort()
    except asyncio.TimeoutError:
        raise HttpError(step) from None
    except asyncio.IncompleteReadError:
        raise HttpError("the connection was closed before the response was complete") from None
    except (OSError, UnicodeError) as error:
        # UnicodeError means that a label of the host name is empty or too long.
        raise HttpError(f"{type(error).__name__}: {error}") from error


class _Proxy(NamedTuple):
    """An HTTP proxy.

    Attributes:
        host: Its host.
        port: Its port.
        headers: The headers that authenticate the user to the proxy.
    """

    host: str
    port: int
    headers: list[str]

    def __repr__(self) -> str:
        return f"<proxy {self.host}:{self.port}>"


def _proxy_for(url: Url) -> _Proxy | None:
    """Return the environment's proxy for a URL, or None.

    Raises:
        HttpError: The proxy can't be used. The message doesn't contain credentials.
    """
    proxies = getproxies_environment()
    name = "https" if url.tls else "http"
    text = proxies.get(name) or proxies.get(name := "all")
    if not text or is_loopback(url.host) or proxy_bypass_environment(f"{url.host}:{url.port}", proxies):
        return None
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port or 80
    except ValueError:
        raise HttpError(f"the environment's {name}_proxy is malformed") from None
    if parts.scheme != "http" or not parts.hostname:
        raise HttpError(f"the environment's {name}_proxy is no HTTP proxy: expected 'http://host:port'")
    if parts.username is None:
        return _Proxy(parts.hostname, port, [])
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return _Proxy(parts.hostname, port, [f"Proxy-Authorization: Basic {b64encode(credentials).decode()}"])


async def _open_tunnel(
    url: Url, context: ssl.SSLContext, proxy: _Proxy
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect through a proxy (CONNECT, RFC 9110 §9.3.6), and set up TLS with the server.

    Raises:
        HttpError: The proxy refuses the connection, or doesn't send valid HTTP.
    """
    authority = f"[{url.host}]:{url.port}" if ":" in url.host else f"{url.host}:{url.port}"
    loop = asyncio.get_running_loop()
    reader, protocol = _stream(loop)
    # Don't create a StreamWriter yet: its finalizer would close the connection below TLS.
    transport, _ = await loop.create_connection(lambda: protocol, proxy.host, proxy.port)
    try:
        lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}", *proxy.headers]
        transport.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        status, _ = await _response_head(reader)
        if not 200 <= status < 300:
            raise HttpError(f"the proxy {proxy.host}:{proxy.port} refused the connection: status {status}")
        reader, protocol = _stream(loop)
        encrypted = await loop.start_tls(transport, protocol, context, server_hostname=url.host)
        assert encrypted is not None, "the connection is open"
        protocol.connection_made(encrypted)
        return reader, asyncio.StreamWriter(encrypted, protocol, reader, loop)
    except BaseException:
        transport.abort()
        raise


def _stream(loop: asyncio.AbstractEventLoop) -> tuple[asyncio.StreamReader, asyncio.StreamReaderProtocol]:
    reader = asyncio.StreamReader(MAX_LINE, loop)
    return reader, asyncio.StreamReaderProtocol(reader, loop=loop)


def _head(method: str, url: Url, headers: Mapping[str, str], body: bytes, proxy: _Proxy | None) -> bytes:
    headers = {**headers, "Content-Length": str(len(body))} if method == "POST" else headers
    through = proxy is not None and not url.tls
    # If a request isn't encrypted, a proxy expects its whole URL (RFC 9112 §3.2.2).
    target = f"http://{url.authority}{url.target}" if through else url.target
    lines = [f"{method} {target} HTTP/1.1", f"Host: {url.authority}", "Connection: close"]
    if proxy is not None and through:
        lines += proxy.headers
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _response(reader: asyncio.StreamReader) -> HttpResponse:
    status, headers = await _response_head(reader)
    return HttpResponse(status, headers, await _body(reader, status, headers))


async def _response_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    while True:
        version, _, rest = (await _line(reader)).partition(" ")
        code = rest[:3]
        if not version.startswith("HTTP/1.") or not (code.isascii() and code.isdigit() and len(code) == 3):
            raise HttpError("the response is not HTTP/1.1")
        headers = await _headers(reader)
        # Skip interim responses (RFC 9110 §15.2), which have no body.
        if int(code) >= 200:
            return int(code), headers


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
    # Ignore the trailers: the connection is about to be closed.
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

"""Dial: from a host and port to a connected socket, plain TCP or TLS.

There are three ways to reach a broker: directly, at one of its addresses (:mod:`~aiokproto.net.addresses`); through a
proxy (:mod:`~aiokproto.net.proxy`); and with the application's own ``dialer``. ``address_map`` changes the target of
each. In every case TLS verifies the host that the broker advertises, unless ``ssl_server_hostname`` names another: the
client doesn't trust anything in between.
"""

from __future__ import annotations

import asyncio
import inspect
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from aiokproto.application.calls import failure
from aiokproto.config import MAX_PORT, ClusterConfig
from aiokproto.config.proxy import Proxy
from aiokproto.errors import AuthenticationError, BrokerConnectionError, DeadlineError, KafkaError, NotKafkaError
from aiokproto.net.addresses import Endpoint, connect, reason, resolve
from aiokproto.net.foreign_protocols import describe_bytes
from aiokproto.net.proxy import TLS_HANDSHAKE, Handshake, negotiate
from aiokproto.net.tls_errors import BROKER, PROXY, tls_error
from aiokproto.runtime.timeouts import apart, deadline_at, timeout_at
from aiokproto.security.tls.contexts import TlsContexts
from aiokproto.security.tls.defaults import is_anonymous
from aiokproto.texts import address, repr_of, text_of


class Dialled(asyncio.BaseProtocol):
    """The protocol of a connection. It can close the connection."""

    def abort(self) -> None:
        """Close at once."""
        raise NotImplementedError


P = TypeVar("P", bound=Dialled)

_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Idle seconds before the first probe, seconds between probes, and the number of lost probes that ends the
connection."""

_EXPECTED = {
    "address_map": "a host and a port",
    "dialer": "a connected stream socket without TLS",
    "ssl_server_hostname": "a host name",
}
"""What the application's functions must return, by option."""

_SILENT_IN_HANDSHAKE = "no response to the TLS handshake: the listener is one without TLS, or the service is not Kafka"


async def dial(
    make: Callable[[], P],
    host: str,
    port: int,
    config: ClusterConfig,
    *,
    deadline: float,
    peer: str,
    threads: ThreadPoolExecutor | None = None,
) -> P:
    """Connect the way that the options describe. Cancelling closes the socket.

    Args:
        make: Creates the protocol object.
        host: The host name, as the broker advertises it.
        port: The port.
        config: The options.
        deadline: When to give up (s, the loop's clock).
        peer: Names the broker in errors.
        threads: The executor that resolves the host name; None for the loop's default executor.

    Raises:
        BrokerConnectionError: No address could be connected to. The message lists each address and its error.
        NotKafkaError: The peer does not speak TLS, or the proxy isn't a proxy.
        AuthenticationError: Either side rejected the other's certificate, or the proxy rejected the credentials.
        ConfigurationError: The client's own certificates cannot be used.
    """
    return await _Dial(make, config, host, port, deadline, peer, threads).run()


class _Dial(Generic[P]):
    """A connection that is being set up."""

    def __init__(
        self,
        make: Callable[[], P],
        config: ClusterConfig,
        host: str,
        port: int,
        deadline: float,
        peer: str,
        threads: ThreadPoolExecutor | None,
    ) -> None:
        self._make = make
        self._config = config
        self._host = host
        self._port = port
        self._deadline = deadline
        self._peer = peer
        self._what = f"cannot connect to {peer}"
        self._threads = threads
        self._failures: list[str] = []
        self._context: ssl.SSLContext | None = None
        self._server_hostname: str | None = None

    async def run(self) -> P:
        config, host, port = self._config, self._host, self._port
        if config.tls is not None:
            # Check the options first: errors in them don't depend on the address.
            self._context = await self._certificates(config.tls)
            name = host
            if config.server_hostname is not None:
                name = await self._ask("ssl_server_hostname", config.server_hostname, host, port, _is_name)
            self._server_hostname = self._tls_name(name)
        # Only the connection goes elsewhere; the certificate is still verified against the original host.
        if config.address_map is not None:
            host, port = await self._ask("address_map", config.address_map, host, port, _is_address)
            if (host, port) != (self._host, self._port):
                self._what += f", by address_map at {address(host, port)}"
        if not host or not 0 < port <= MAX_PORT:
            raise BrokerConnectionError(f"{self._what}: {host!r}:{port} is no address")
        if config.dialer is not None:
            opened = await self._ask("dialer", config.dialer, host, port, _is_connected)
            opened.setblocking(False)
            connected = await self._attach(opened, address(host, port))
        elif config.proxy is not None and host not in config.proxy.bypass:
            connected = await self._through(config.proxy, host, port)
        else:
            connected = await self._direct(await self._resolve(host, port))
        if connected is None:
            raise BrokerConnectionError(f"{self._what}: {'; '.join(self._failures)}")
        return connected

    def _tls_name(self, name: str) -> str:
        """Return the name that TLS sends and verifies."""
        # Certificates don't contain a zone, which is local to this machine (RFC 6874), or the trailing dot of a fully
        # qualified name (RFC 6066, section 3).
        host = name.partition("%")[0].removesuffix(".")
        try:
            host.encode("idna")
        except UnicodeError:
            host = ""
        # asyncio treats an empty name as no name, and wouldn't verify it at all.
        if not host or "\0" in host:
            raise BrokerConnectionError(f"{self._what}: {name!r} is no host name that TLS could verify")
        return host

    async def _ask(
        self, option: str, function: Callable[..., Any], host: str, port: int, valid: Callable[[Any], bool]
    ) -> Any:
        """Call a function of the application, which may be async."""
        call = f"{self._what}: {option}({host!r}, {port})"
        try:
            async with deadline_at(self._deadline, lambda: f"{call} took too long"):
                answer = function(host, port)
                if inspect.isawaitable(answer):
                    answer = await apart(answer, call, _close)
        except DeadlineError as error:
            raise BrokerConnectionError(str(error)) from None
        except KafkaError:
            raise
        except BaseException as error:  # noqa: BLE001 - failure() passes on what ends the task
            raised = failure(error, option, awaited=True)
            raise BrokerConnectionError(f"{call} raised {type(raised).__name__}: {text_of(raised)}") from raised
        if not valid(answer):
            raise BrokerConnectionError(f"{call} returned {repr_of(answer)}: not {_EXPECTED[option]}")
        return answer

    async def _certificates(self, tls: TlsContexts) -> ssl.SSLContext:
        try:
            async with timeout_at(self._deadline):
                return await tls.context(self._threads)
        except asyncio.TimeoutError:
            raise BrokerConnectionError(f"{self._what}: reading certificates took too long") from None

    async def _resolve(self, host: str, port: int) -> list[Endpoint]:
        return await resolve(host, port, self._deadline, self._what, self._threads)

    async def _direct(self, endpoints: list[Endpoint]) -> P | None:
        if len(endpoints) == 1 and self._context is None:
            return await self._simple(endpoints[0])
        while (found := await connect(endpoints, self._deadline, self._failures)) is not None:
            connected = await self._attach(*found)
            if connected is not None:
                return connected
        return None

    async def _simple(self, endpoint: Endpoint) -> P | None:
        """Connect with a single call of the event loop, which simulations support, too."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with timeout_at(self._deadline):
                _, protocol = await loop.create_connection(
                    self._make, endpoint.host, endpoint.sockaddr[1], family=endpoint.family
                )
            return protocol
        except asyncio.TimeoutError:
            self._failures.append(f"{endpoint.host}: no connection in {loop.time() - begun:.3g} s")
        except OSError as error:
            self._failures.append(f"{endpoint.host}: {reason(error)}")
        return None

    async def _attach(self, opened: socket.socket, address: str) -> P | None:
        """Turn a connected socket into a connection, after a TLS handshake if TLS is used.

        Return None if that fails.
        """
        loop = asyncio.get_running_loop()
        # Some event loops use different transports for Unix sockets.
        local = opened.family == getattr(socket, "AF_UNIX", None)
        create: Any = loop.create_unix_connection if local else loop.create_connection
        made: list[P] = []
        protocol: P | None = None

        def make() -> P:
            made.append(self._make())
            return made[0]

        try:
            async with timeout_at(self._deadline):
                transport, attached = await create(
                    make,
                    sock=opened,
                    ssl=self._context,
                    server_hostname=self._server_hostname,
                    ssl_handshake_timeout=None if self._context is None else TLS_HANDSHAKE,
                )
            check_certificate(self._peer, transport)
            protocol = attached
        # Another address won't help.
        except AuthenticationError:
            raise
        except ssl.SSLError as error:
            raise tls_error(self._peer, error) from error
        except asyncio.TimeoutError:
            self._failures.append(f"{address}: {_SILENT_IN_HANDSHAKE}")
        except OSError as error:
            hint = BROKER.closed if self._context is not None else ""
            self._failures.append(f"{address}: closed in the TLS handshake: {reason(error)}{hint}")
        finally:
            # This also runs after a cancellation. If that comes when the handshake is complete, the transport is still
            # reading from the socket, and a new socket may get the closed one's file descriptor.
            if protocol is None:
                for begun in made:
                    begun.abort()
                opened.close()
        return protocol

    async def _through(self, proxy: Proxy, host: str, port: int) -> P | None:
        # Give the proxy one address after another: only the proxy can tell which ones it can reach.
        names = [host]
        if proxy.scheme == "socks5":
            try:
                names = [endpoint.host for endpoint in await self._resolve(host, port)]
            except BrokerConnectionError as error:
                raise BrokerConnectionError(f"{error}; with socks5h:// in proxy_url the proxy resolves it") from error
        for name in names:
            try:
                return await self._tunnel(proxy, name, port)
            # Another address won't help.
            except (AuthenticationError, NotKafkaError):
                raise
            except BrokerConnectionError as error:
                self._failures.append(str(error))
        return None

    async def _tunnel(self, proxy: Proxy, host: str, port: int) -> P:
        loop = asyncio.get_running_loop()
        to_proxy: list[str] = []
        what = f"proxy {proxy}"
        endpoints = await resolve(proxy.host, proxy.port, self._deadline, what, self._threads)
        found = await connect(endpoints, self._deadline, to_proxy)
        if found is None:
            raise BrokerConnectionError(f"{what}: {'; '.join(to_proxy)}")
        line, step = Handshake(), "TLS handshake"
        try:
            async with timeout_at(self._deadline):
                name, limit = (None, None) if proxy.ssl_context is None else (proxy.host, TLS_HANDSHAKE)
                transport, _ = await loop.create_connection(
                    lambda: line,
                    sock=found[0],
                    ssl=proxy.ssl_context,
                    server_hostname=name,
                    ssl_handshake_timeout=limit,
                )
                check_certificate(what, transport, "proxy_ssl_context")
                step = "handshake"
                await negotiate(line, proxy, host, port)
                step = "TLS handshake of the broker behind it"
                if self._context is not None and line.seen:
                    raise NotKafkaError(f"{self._peer} does not speak TLS: {describe_bytes(line.seen)}")
                protocol = self._make()
                check_certificate(self._peer, await line.hand_over(protocol, self._context, self._server_hostname))
                return protocol
        # BaseException includes a cancellation, after which no other code knows the socket.
        except BaseException as error:
            found[0].close()
            line.abort()
            peer, remedies = (self._peer, BROKER) if "broker" in step else (what, PROXY)
            if isinstance(error, ssl.SSLError):
                raise tls_error(peer, error, remedies) from error
            if isinstance(error, asyncio.TimeoutError):
                raise BrokerConnectionError(f"{what}: the {step} took too long") from None
            if isinstance(error, OSError) and not isinstance(error, BrokerConnectionError):
                hint = remedies.closed if "TLS" in step else ""
                raise BrokerConnectionError(f"{what}: closed in the {step}: {reason(error)}{hint}") from error
            raise


def _close(answer: Any) -> None:
    if isinstance(answer, socket.socket):
        answer.close()


def _is_address(answer: Any) -> bool:
    return isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], str) and isinstance(answer[1], int)


def _is_name(answer: Any) -> bool:
    return isinstance(answer, str) and answer != ""


def _is_connected(answer: Any) -> bool:
    # Event loops would refuse anything else with less helpful errors, or only on the first write.
    if not isinstance(answer, socket.socket) or isinstance(answer, ssl.SSLSocket):
        return False
    try:
        answer.getpeername()
    except OSError:
        return False
    return answer.type == socket.SOCK_STREAM


def check_certificate(peer: str, transport: asyncio.BaseTransport, option: str = "ssl_context") -> None:
    """Check that TLS has verified the peer's identity, if it has to.

    Raises:
        AuthenticationError: The peer has no certificate.
    """
    if is_anonymous(transport.get_extra_info("ssl_object")):
        raise AuthenticationError(
            f"{peer} has no certificate: the cipher is one without authentication (aNULL), which {option} permits"
        )


def set_socket_options(transport: asyncio.BaseTransport) -> None:
    """Send small requests at once (``TCP_NODELAY``), and keep idle connections alive.

    asyncio sets ``TCP_NODELAY`` only for sockets whose ``proto`` is TCP, which may not be set on a ``dialer``'s socket.
    Keepalive is needed because NAT gateways and firewalls silently drop idle connections. If the operating system lacks
    options for its timing, the system's defaults apply.
    """
    # It is None in a simulation, where transports have no socket. A dialer's socket may be of another family.
    connected = transport.get_extra_info("socket")
    if connected is None or connected.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

"""Open a connection: dial, exchange API versions (ApiVersions; KIP-35, KIP-511), and authenticate (SASL; KIP-43)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from aiokproto.config import ClusterConfig
from aiokproto.errors import BrokerConnectionError, DeadlineError, DecodeError, KafkaError, NotKafkaError
from aiokproto.net.authentication import Authentication
from aiokproto.net.connection import Connection
from aiokproto.net.foreign_protocols import describe_bytes, recognize
from aiokproto.net.timeouts import deadline
from aiokproto.net.transport import dial
from aiokproto.net.versions import ANYONE, BEFORE_0_10, BrokerVersions, Identity, Negotiation
from aiokproto.observe.observers import NodeObserver


async def open_connection(
    host: str,
    port: int,
    peer: str,
    config: ClusterConfig,
    timeout: float,
    threads: ThreadPoolExecutor | None = None,
    observer: NodeObserver | None = None,
    on_rejected: Callable[[KafkaError], None] = lambda error: None,
    identity: Identity = ANYONE,
) -> Connection:
    """Connect to a broker, learn which API versions it supports, and authenticate. Cancelling closes the socket.

    Brokers before 0.10 close the connection when they receive ApiVersions. One that does so twice, the second time
    for ApiVersions v0, counts as such a broker, and its versions are assumed to be
    :data:`~aiokproto.net.versions.BEFORE_0_10`. Once is not enough: a proxy whose broker is starting does the same.

    ``on_rejected`` is called with the error if the broker refuses to extend the session later (KIP-368). ``identity``
    is what the peer should be; brokers since 4.4 check it (KIP-1242).

    Raises:
        BrokerConnectionError: The broker cannot be reached; NotKafkaError, MisroutedConnectionError and
            AuthenticationError for these causes.
        DeadlineError: All of it took longer than ``timeout`` seconds.
        BrokerError: The response to ApiVersions has an error code.
        UnsupportedVersionError: The broker is too old for the SASL mechanism.
    """
    until = asyncio.get_running_loop().time() + timeout

    async def opened(connection: Connection) -> Connection:
        if config.sasl is None:
            connection.opened()
            return connection
        authentication = Authentication(connection, config.sasl, host, timeout, on_rejected)
        try:
            async with deadline(until, lambda: f"SASL authentication with {peer}: not complete in {timeout:.3g} s"):
                await authentication.run()
        # Also a cancellation: nobody else holds the socket yet.
        except BaseException:
            connection.abort()
            raise
        connection.opened(authentication.close)
        return connection

    async def connect() -> Connection:
        return await dial(
            lambda: Connection(peer, config, observer),
            host,
            port,
            config,
            deadline=until,
            peer=peer,
            threads=threads,
        )

    # None is the newest version. A broker of 0.10 or later answers it, if only with UNSUPPORTED_VERSION; only one
    # before 0.10, or a proxy, closes the connection.
    for version in (None, 0):
        connection = await connect()
        try:
            connection.negotiated(await _negotiate(connection, Negotiation(peer, version, identity), until, timeout))
        # Also a cancellation: nobody else holds the socket yet.
        except BaseException as error:
            connection.abort()
            if isinstance(error, BrokerConnectionError) and _closed_on_first_request(connection, error):
                # Next: ApiVersions v0, and after that no ApiVersions at all.
                continue
            raise
        return await opened(connection)
    # A third socket, as the broker has closed both others, and no ApiVersions on it, which is why it closed them.
    connection = await connect()
    connection.versions = BrokerVersions(BEFORE_0_10, peer, assumed=True)
    return await opened(connection)


async def _negotiate(connection: Connection, negotiation: Negotiation, until: float, timeout: float) -> BrokerVersions:
    try:
        async with deadline(until, lambda: f"ApiVersions to {connection.peer}: no response in {timeout:.3g} s"):
            # At most once per version: Negotiation lowers the version with every refusal.
            while True:
                frame = await connection.send_raw(negotiation.request(), negotiation.version, timeout)
                versions = _versions_of(frame, negotiation)
                if versions is not None:
                    return versions
    except DeadlineError as error:
        raise connection.unresponsive(error) from error


def _versions_of(frame: memoryview, negotiation: Negotiation) -> BrokerVersions | None:
    try:
        return negotiation.handle_response(frame)
    except DecodeError as error:
        seen = len(frame).to_bytes(4, "big") + bytes(frame[:256])
        if recognize(seen) is None:
            raise
        raise NotKafkaError(f"{negotiation.peer} does not speak Kafka: {describe_bytes(seen)}") from error


def _closed_on_first_request(connection: Connection, error: BrokerConnectionError) -> bool:
    # Anything it has answered rules out a broker that knows no ApiVersions; bytes of another protocol rule out a
    # broker.
    return not connection.has_responded and not isinstance(error, NotKafkaError)

"""Open a connection: dial, exchange API versions (ApiVersions; KIP-35, KIP-511), and authenticate (SASL; KIP-43)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from aiokproto.codec.messages.list_groups import ListGroupsRequest
from aiokproto.codec.messages.list_offsets import ListOffsetsRequest
from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import Request
from aiokproto.config import ClusterConfig
from aiokproto.errors import (
    AuthenticationError,
    BrokerConnectionError,
    DeadlineError,
    DecodeError,
    KafkaError,
    NotKafkaError,
)
from aiokproto.net.authentication import GSSAPI, Authentication
from aiokproto.net.connection import Connection
from aiokproto.net.foreign_protocols import describe_bytes, recognize
from aiokproto.net.transport import dial
from aiokproto.net.versions import ANYONE, BY_OPTION, BrokerVersions, Identity, Negotiation
from aiokproto.observe.observers import NodeObserver
from aiokproto.runtime.timeouts import deadline_at
from aiokproto.security.tracebacks import hiding_frames

T = TypeVar("T")
Connect = Callable[[], Awaitable[Connection]]

SILENCE = 2.0
"""Seconds to wait for the response to ApiVersions before considering that the broker may be Kafka 0.9. With a short
timeout, the wait is shorter."""

_ANSWERED_SINCE: Mapping[str, Request[Any]] = {
    "0.9": ListGroupsRequest(),
    # The request lists no partitions.
    "0.8.2": ListOffsetsRequest(replica_id=-1, topics=[]),
}
"""By release, newest first: a request that brokers since this release answer, that has no side effects, and that
doesn't need any permission."""

logger = logging.getLogger("aiokproto.net")


@hiding_frames
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
    release: str | None = None,
    answers: bool = False,
) -> Connection:
    """Connect to a broker, learn which API versions it supports, and authenticate. Cancelling closes the socket.

    Brokers before 0.10 close the connection when they receive ApiVersions. So does a proxy while its broker is down, or
    a broker that has reached its connection limit. So a peer that closes the connection twice, the second time on
    ApiVersions v0, is taken for an old broker only if it answers a request that old brokers know (ListGroups, new in
    0.9, or ListOffsets), and then closes that connection on ApiVersions. A peer that doesn't answer either counts as
    unreachable.

    0.9 may ignore ApiVersions instead of closing the connection. So a broker that is silent for :data:`SILENCE` is
    probed on another connection. It is 0.9 if it answers ListGroups there, and ignores ApiVersions again. A broker that
    is just slow doesn't pass that test, or answers the first request in the meantime.

    The option ``broker_version`` names the release, and avoids all of this.

    ``release`` is one of :data:`~aiokproto.net.versions.BEFORE_0_10` if an earlier connection has found that the broker
    is so old; None otherwise.

    ``answers`` says that the broker has answered ApiVersions on an earlier connection. If so, silence means that it is
    slow, and a closed connection that it is starting. It is neither taken for an old broker, nor probed: that would
    double the connections to a broker that may have too many.

    ``on_rejected`` is called with the error if the broker later refuses to extend the session (KIP-368). ``identity``
    is what the peer should be; brokers since 4.4 check it (KIP-1242).

    Raises:
        BrokerConnectionError: The broker cannot be reached. Subclasses for specific causes are NotKafkaError,
            MisroutedConnectionError and AuthenticationError.
        DeadlineError: The whole process took longer than ``timeout`` seconds.
        BrokerError: The response to ApiVersions has an error code.
        UnsupportedVersionError: The broker is too old for the SASL mechanism.
        ConfigurationError: The certificates in the client's own options cannot be used.
    """
    until = asyncio.get_running_loop().time() + timeout

    async def opened(connection: Connection) -> Connection:
        if config.sasl is None:
            connection.opened()
            return connection
        authentication = Authentication(connection, config.sasl, host, timeout, on_rejected)
        try:
            async with deadline_at(until, authentication.overdue):
                await authentication.run()
        # BaseException includes a cancellation. No other code knows the socket yet.
        except BaseException:
            connection.abort()
            raise
        connection.opened(authentication)
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

    if config.broker_version is not None:
        connection = await connect()
        connection.versions = BrokerVersions.assume(config.broker_version, peer, BY_OPTION)
        return await opened(connection)
    if release is not None:
        connection = await connect()
        connection.versions = BrokerVersions.assume(release, peer)
        return await opened(connection)
    # None is the newest version. Brokers since 0.10 answer it, if only with UNSUPPORTED_VERSION. Only a broker before
    # 0.10, or a proxy, closes the connection.
    closed: BrokerConnectionError | None = None
    for version in (None, 0):
        connection = await connect()
        exchange = _negotiate(connection, Negotiation(peer, version, identity), until, timeout)
        if version is None and config.sasl is None and not answers:
            exchange = _unless_ignored(exchange, partial(_ignores_api_versions, connect, until, timeout), peer, timeout)
        negotiated = await _unless_closed(connection, exchange)
        if isinstance(negotiated, BrokerConnectionError):
            closed = closed or negotiated
            continue
        if negotiated.assumed:
            # The ignored ApiVersions request is still in flight on this connection, so use a new one.
            connection.abort()
            connection = await connect()
            connection.versions = negotiated
            return await opened(connection)
        connection.negotiated(negotiated)
        return await opened(connection)
    assert closed is not None, "both requests have closed the connection"
    if answers:
        text = f"{peer} closes each connection on the first request: it is starting, or stopping"
        raise BrokerConnectionError(text) from closed
    if config.sasl is None:
        return await opened(await _connect_to_old_broker(connect, until, timeout, closed))
    # Until a client has authenticated, 0.9 only answers GSSAPI tokens.
    if config.sasl.name != GSSAPI:
        raise BrokerConnectionError(f"{closed}; Kafka before 0.10 has no SASL mechanism {config.sasl.name}")
    connection = await connect()
    connection.versions = BrokerVersions.assume("0.9", peer)
    return await opened(connection)


async def _connect_to_old_broker(
    connect: Connect, until: float, timeout: float, closed: BrokerConnectionError
) -> Connection:
    """Return a connection to a broker that has closed two connections on ApiVersions. Raise ``closed`` if the broker
    doesn't answer any request."""
    for release, request in _ANSWERED_SINCE.items():
        connection = await connect()
        answered = await _unless_closed(connection, _answer_then_versions(connection, request, until, timeout))
        if isinstance(answered, BrokerConnectionError):
            continue
        if answered is None:
            connection = await connect()
            connection.versions = BrokerVersions.assume(release, connection.peer)
        else:
            connection.negotiated(answered)
        return connection
    raise closed


async def _unless_closed(connection: Connection, exchange: Coroutine[Any, Any, T]) -> T | BrokerConnectionError:
    """Return the result of a connection's first exchange, or the error if the broker closes the connection during
    it."""
    try:
        return await exchange
    # BaseException includes a cancellation. No other code knows the socket yet.
    except BaseException as error:
        connection.abort()
        if isinstance(error, BrokerConnectionError) and _closed_on_first_request(connection, error):
            return error
        raise


async def _answer_then_versions(
    connection: Connection, request: Request[Any], until: float, timeout: float
) -> BrokerVersions | None:
    """Send a request that old brokers answer, then ApiVersions.

    Return None if the broker closes the connection on ApiVersions.

    Both are sent over one connection, and so to one broker. Even if the other connections were closed for a different
    reason, this shows that the broker is running and doesn't know ApiVersions.
    """
    await _answer(connection, request, until, timeout)
    try:
        return await _negotiate(connection, Negotiation(connection.peer, 0), until, timeout)
    except BrokerConnectionError:
        return None


async def _unless_ignored(
    exchange: Coroutine[Any, Any, BrokerVersions],
    ignores: Callable[[], Coroutine[Any, Any, bool]],
    peer: str,
    timeout: float,
) -> BrokerVersions:
    """Return the versions that the broker reports, or those of 0.9 if it ignores the request."""
    answer = asyncio.ensure_future(exchange)
    probe: asyncio.Future[bool] | None = None
    try:
        await asyncio.wait((answer,), timeout=min(SILENCE, timeout / 5))
        if not answer.done():
            probe = asyncio.ensure_future(ignores())
            await asyncio.wait((answer, probe), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done() and probe.result():
                logger.warning("%s ignores ApiVersions, as Kafka 0.9 does: broker_version='0.9' spares the wait", peer)
                return BrokerVersions.assume("0.9", peer)
        return await answer
    finally:
        tasks: list[asyncio.Future[Any]] = [task for task in (answer, probe) if task is not None]
        for task in tasks:
            task.cancel()
        # Await both tasks even if one of them failed in the same loop iteration in which this call was cancelled.
        await asyncio.gather(*tasks, return_exceptions=True)


async def _ignores_api_versions(connect: Connect, until: float, timeout: float) -> bool:
    """Return whether a broker, on a new connection, answers ListGroups and then ignores ApiVersions."""
    connection = None
    try:
        connection = await connect()
        await _answer(connection, ListGroupsRequest(), until, timeout)
        silence = min(SILENCE, timeout / 5)
        at = asyncio.get_running_loop().time() + silence
        try:
            await _negotiate(connection, Negotiation(connection.peer, 0), at, silence)
        except DeadlineError:
            return True
    except KafkaError:
        pass
    finally:
        if connection is not None:
            connection.abort()
    return False


async def _answer(connection: Connection, request: Request[Any], until: float, timeout: float) -> None:
    """Send a request in version 0, and wait for the response, whose content doesn't matter."""
    name = api_name(request.api_key)
    async with deadline_at(until, lambda: f"{name} to {connection.peer}: no response in {timeout:.3g} s"):
        await connection.send_raw(request, 0, timeout)


async def _negotiate(connection: Connection, negotiation: Negotiation, until: float, timeout: float) -> BrokerVersions:
    try:
        async with deadline_at(until, lambda: f"ApiVersions to {connection.peer}: no response in {timeout:.3g} s"):
            # This loops at most once per version: every refusal lowers Negotiation's version.
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
    # A broker that doesn't know ApiVersions wouldn't have answered at all. Bytes of another protocol don't come from
    # any broker, and a broker that rejects the client's certificate (TLS 1.3) would do so again.
    return not connection.has_responded and not isinstance(error, NotKafkaError | AuthenticationError)

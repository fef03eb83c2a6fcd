"""From an address to a connection that knows the broker's versions."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from aiokproto.config import ClusterConfig
from aiokproto.errors import BrokerConnectionError, NotKafkaError
from aiokproto.net.connection import Connection
from aiokproto.net.timeouts import deadline
from aiokproto.net.transport import dial
from aiokproto.net.versions import BEFORE_0_10, BrokerVersions, Negotiation


async def open_connection(
    host: str,
    port: int,
    peer: str,
    config: ClusterConfig,
    timeout: float,
    threads: ThreadPoolExecutor | None = None,
) -> Connection:
    """Connect and exchange versions.

    Brokers before 0.10 hang up on ApiVersions. One that hangs up twice, the second time on the plainest form, is taken
    for such a broker, and its versions are assumed; once could be a proxy whose broker is just starting.

    Raises:
        BrokerConnectionError: It cannot be reached; NotKafkaError and AuthenticationError for special causes.
        DeadlineError: Connecting, or the exchange, took longer than ``timeout`` seconds.
        BrokerError: ApiVersions was answered with an error.
    """
    until = asyncio.get_running_loop().time() + timeout

    async def connected() -> Connection:
        return await dial(
            lambda: Connection(peer, config),
            host,
            port,
            ssl_context=config.ssl_context,
            address_map=config.address_map,
            deadline=until,
            peer=peer,
            threads=threads,
        )

    for version in (None, 0):
        connection = await connected()
        try:
            connection.versions = await _negotiate(connection, Negotiation(peer, version), until, timeout)
        except BaseException as error:
            connection.abort()
            if isinstance(error, BrokerConnectionError) and _hung_up(connection, error):
                continue
            raise
        return connection
    connection = await connected()
    connection.versions = BrokerVersions(BEFORE_0_10, peer, assumed=True)
    return connection


async def _negotiate(connection: Connection, negotiation: Negotiation, until: float, timeout: float) -> BrokerVersions:
    async with deadline(until, lambda: f"{connection.peer} did not answer ApiVersions in {timeout:.3g} s"):
        while True:
            frame = await connection.send_raw(negotiation.question(), negotiation.version, timeout)
            versions = negotiation.answered(frame)
            if versions is not None:
                return versions


def _hung_up(connection: Connection, error: BrokerConnectionError) -> bool:
    return not connection.heard and not isinstance(error, NotKafkaError)

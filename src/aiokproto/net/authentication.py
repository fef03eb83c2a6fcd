"""Authenticate a connection with SASL: SaslHandshake names the mechanism, SaslAuthenticate carries its tokens (KIP-43,
KIP-152).

Brokers before 1.0 don't know SaslAuthenticate: after SaslHandshake v0 each token is a bare frame, and a broker that
rejects a token just closes the connection. Brokers before 0.10 don't know SaslHandshake either: GSSAPI is their only
mechanism, and its tokens are the first frames on the connection.

**Sessions (KIP-368).** A broker may limit how long an authentication is valid. When most of that time has passed, the
client holds back the next request, and all requests after it, until it has authenticated again; requests already in
flight are not affected. An idle connection doesn't have to authenticate again: brokers close a connection only if a
request arrives after the end of the session.

**The application's code.** A mechanism, and the functions that supply its secrets, can raise anything, return anything,
and be cancelled from inside. All of that ends the attempt with an error, and never ends a task of the client. Errors
name mechanism, user and broker. Their tracebacks don't include the frames of the authentication: the local variables
are secrets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from inspect import isawaitable

from aiokproto.application.calls import failure, without_text
from aiokproto.codec.frames import decode_response
from aiokproto.codec.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from aiokproto.codec.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from aiokproto.errors import (
    AuthenticationError,
    BrokerConnectionError,
    ConfigurationError,
    KafkaError,
    UnsupportedVersionError,
    error_for,
)
from aiokproto.failures import Action, Situation, classify
from aiokproto.net.connection import Connection
from aiokproto.runtime import create_task, uniform
from aiokproto.runtime.timeouts import apart, deadline_at
from aiokproto.security.mechanism import (
    ExplainedExchange,
    NamedExchange,
    NoTokenError,
    RenewableExchange,
    SaslExchange,
    SaslMechanism,
)
from aiokproto.security.shown import LONGEST_REASON, shown
from aiokproto.security.tracebacks import without_frames

MAX_CHALLENGES = 64
"""Maximum number of challenges in one exchange. GSSAPI, the longest of the known mechanisms, has three."""

_RENEWED = (0.85, 0.95)
"""A session is renewed after a random fraction of its lifetime between these two, so the connections of many clients
don't renew at the same time (as in Java)."""

GSSAPI = "GSSAPI"
"""The only mechanism of brokers before 0.10."""

logger = logging.getLogger("aiokproto.net")


class Authentication:
    """Authenticates a connection, and does so again before the session ends.

    Args:
        connection: The connection. Its API versions must be known.
        mechanism: The mechanism.
        host: The broker's host, as it advertises it.
        timeout: Maximum time for a renewal (s), and for each response.
        on_rejected: Called with the error if a renewal fails and the connection is closed.
    """

    def __init__(
        self,
        connection: Connection,
        mechanism: SaslMechanism,
        host: str,
        timeout: float,
        on_rejected: Callable[[KafkaError], None],
    ) -> None:
        self._connection = connection
        self._mechanism = mechanism
        self._host = host
        self._timeout = timeout
        self._on_rejected = on_rejected
        self._timer: asyncio.TimerHandle | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._exchange: SaslExchange | None = None
        self._awaits_token = False

    def overdue(self) -> str:
        """Return the error message for an authentication that missed its deadline."""
        text = f"SASL authentication with {self._connection.peer}: not complete in {self._timeout:.3g} s"
        if not self._awaits_token:
            return text
        return (
            f"{text}: the function, file or token endpoint of the credentials ({self._mechanism.name}) does not respond"
        )

    async def run(self) -> None:
        """Authenticate. The caller has to set a deadline.

        Raises:
            AuthenticationError: Either side rejected the other, or the broker does not offer the mechanism.
            BrokerConnectionError: The connection was lost, or the credentials could not be read.
            ConfigurationError: The mechanism returned a token that is not bytes.
            UnsupportedVersionError: The broker is too old for SASL, or for this mechanism.
        """
        try:
            await self._authenticate()
        except KafkaError as error:
            without_frames(error)
            raise error
        except BaseException as error:  # noqa: BLE001 - failure() passes on what ends the task
            # The application's code has failed: a token endpoint is down, or a file is being replaced.
            without_frames(error)
            raised = failure(error, f"the mechanism {self._mechanism.name}", awaited=True)
            raise self._failed(without_text(raised)) from raised

    def close(self) -> None:
        """Stop renewing: the connection has ended."""
        if self._timer is not None:
            self._timer.cancel()
        if self._renewal is not None and self._renewal is not asyncio.current_task():
            self._renewal.cancel()

    async def _authenticate(self) -> None:
        connection, name = self._connection, self._mechanism.name
        exchange = self._exchange = self._next_exchange()
        if connection.versions.assumed:
            if name != GSSAPI:
                release = connection.versions.assumed_release
                raise UnsupportedVersionError(
                    f"SASL mechanism {name} needs Kafka 0.10 or later: {connection.peer} is Kafka {release}"
                    f" {connection.versions.assumed}"
                )
            await self._send_bare_tokens(exchange)
            return
        wrapped = SaslAuthenticateRequest.api_key in connection.versions.ranges
        await self._handshake(None if wrapped else 0)
        if wrapped:
            lifetime = await self._send_tokens(exchange)
            if lifetime > 0:
                self._expire(lifetime)
        else:
            await self._send_bare_tokens(exchange)

    def _next_exchange(self) -> SaslExchange:
        last = self._exchange
        return last.renewed() if isinstance(last, RenewableExchange) else self._mechanism.exchange(self._host)

    async def _handshake(self, max_version: int | None) -> None:
        connection, name = self._connection, self._mechanism.name
        version = connection.versions.pick(SaslHandshakeRequest, max_version)
        frame = await connection.send_raw(SaslHandshakeRequest(mechanism=name), version, self._timeout, past_hold=True)
        response = decode_response(frame, SaslHandshakeResponse, version, exact=False)
        if not response.error_code:
            return
        error = error_for(response.error_code, f"SaslHandshake to {connection.peer}")
        situation = Situation(SaslHandshakeRequest.api_key, renewing=self._renewal is not None)
        if classify(error, situation) is not Action.STOP:
            raise BrokerConnectionError(f"SASL authentication failed: {error}") from error
        if response.mechanisms:
            offered = shown(", ".join(response.mechanisms))
            text = f"does not enable SASL mechanism {name} on this listener (enabled: {offered})"
        else:
            text = (
                "does not expect SASL on this listener: connect to another, or set security_protocol to 'PLAINTEXT' or"
                " 'SSL'"
            )
        raise AuthenticationError(f"{connection.peer} {text}") from error

    async def _send_tokens(self, exchange: SaslExchange) -> float:
        """Exchange tokens in SaslAuthenticate requests. Return the session's lifetime (s), or 0 if it isn't limited."""
        connection = self._connection
        version = connection.versions.pick(SaslAuthenticateRequest)
        token = await self._token(exchange, None)
        lifetime = 0.0
        for _ in range(MAX_CHALLENGES):
            if token is None:
                return lifetime
            frame = await connection.send_raw(
                SaslAuthenticateRequest(auth_bytes=token), version, self._timeout, past_hold=True
            )
            response = decode_response(frame, SaslAuthenticateResponse, version, exact=False)
            if response.error_code:
                raise self._rejected(response, exchange)
            lifetime = response.session_lifetime_ms / 1000
            token = await self._token(exchange, bytes(response.auth_bytes))
        raise self._endless()

    async def _send_bare_tokens(self, exchange: SaslExchange) -> None:
        """Exchange tokens as bare frames."""
        connection = self._connection
        token = await self._token(exchange, None)
        for _ in range(MAX_CHALLENGES):
            if token is None:
                return
            try:
                challenge = await connection.send_token(token, SaslAuthenticateRequest.api_key, self._timeout)
            except BrokerConnectionError as error:
                # This isn't final: it looks the same as a broker that is stopping.
                text = f"{error}; brokers before 1.0 close the connection if they reject the credentials"
                raise BrokerConnectionError(text) from error
            token = await self._token(exchange, bytes(challenge))
            if token is not None and exchange.complete:
                connection.send_last_token(token)
                return
        raise self._endless()

    async def _token(self, exchange: SaslExchange, challenge: bytes | None) -> bytes | None:
        try:
            token: object = exchange.start() if challenge is None else exchange.respond(challenge)
            # An application's own mechanism may have synchronous methods: most have nothing to wait for.
            if isawaitable(token):
                self._awaits_token = True
                token = await apart(token, self._who())
                self._awaits_token = False
        except AuthenticationError as error:
            raise AuthenticationError(f"{self._who()}: {error}") from error
        except BrokerConnectionError as error:
            raise NoTokenError(f"{self._who()}: {error}") from error
        if isinstance(token, bytes) or (token is None and challenge is not None):
            return token
        # Leave the value out of the message: it may be the secret in another form.
        raise ConfigurationError(f"{self._who()}: the mechanism returned {type(token).__name__}: expected bytes")

    def _rejected(self, response: SaslAuthenticateResponse, exchange: SaslExchange) -> KafkaError:
        why = response.error_message
        if isinstance(exchange, ExplainedExchange):
            why = exchange.explain(why)
        why = shown(why, LONGEST_REASON) if why else "without a reason"
        peer, name = self._connection.peer, self._mechanism.name
        error = error_for(response.error_code, f"SaslAuthenticate to {peer}", why)
        if classify(error, Situation(SaslAuthenticateRequest.api_key)) is Action.STOP:
            rejected: KafkaError = AuthenticationError(
                f"{peer} rejected the credentials{self._of_user()} (SASL {name}): {why}"
            )
        else:
            rejected = BrokerConnectionError(f"SASL authentication failed: {error}")
        rejected.__cause__ = error
        return rejected

    def _failed(self, why: str) -> NoTokenError:
        # Leave the user out of the message: looking up the user's name may be what failed.
        return NoTokenError(f"SASL {self._mechanism.name} with {self._connection.peer}: {why}")

    def _endless(self) -> AuthenticationError:
        return AuthenticationError(f"{self._who()}: not complete after {MAX_CHALLENGES} challenges")

    def _who(self) -> str:
        return f"SASL {self._mechanism.name}{self._of_user()} with {self._connection.peer}"

    def _of_user(self) -> str:
        user = self._exchange.user if isinstance(self._exchange, NamedExchange) else None
        return "" if not user else f" of {shown(user)!r}"

    # --- Sessions ---

    def _expire(self, lifetime: float) -> None:
        loop = asyncio.get_running_loop()
        # guard: a session is renewed before it ends
        #     -> loop.call_later(lifetime * 2 * uniform(*_RENEWED), self._connection.hold)
        # guard: requests wait while a session is renewed
        #     -> loop.call_later(lifetime * uniform(*_RENEWED), self.start_renewal)
        self._timer = loop.call_later(lifetime * uniform(*_RENEWED), self._connection.hold)

    def start_renewal(self) -> None:
        """Authenticate again, in a separate task. A request is waiting for it."""
        self._renewal = create_task(self._renew())

    async def _renew(self) -> None:
        # guard: the renewal of a session has a deadline -> self._connection.peer, float("inf")
        peer, until = self._connection.peer, asyncio.get_running_loop().time() + self._timeout
        try:
            async with deadline_at(until, self.overdue):
                await self.run()
        except KafkaError as error:
            logger.debug("%s: the session could not be extended: %s", peer, error)
            lost = error if isinstance(error, BrokerConnectionError) else BrokerConnectionError(str(error))
            # guard: a connection whose session cannot be renewed is closed
            self._connection.close(lost)
            self._on_rejected(lost)
        else:
            # guard: requests continue once a session is renewed
            self._connection.release()

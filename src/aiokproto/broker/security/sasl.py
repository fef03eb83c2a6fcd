"""SASL authentication of one connection: a pure state machine (Kafka's SaslServerAuthenticator).

::

    HANDSHAKE_OR_VERSIONS_REQUEST ── ApiVersions ──> HANDSHAKE_REQUEST
              └──────────── SaslHandshake ─────────────┴──> AUTHENTICATE ── last token ──> COMPLETE ── SaslHandshake ──>
              AUTHENTICATE
    any state ── an unexpected request, a failed exchange, an expired session ──> FAILED

After SaslHandshake v0, tokens are sent as bare frames without headers; after v1, inside SaslAuthenticate requests
(KIP-152). A client whose session expires must re-authenticate with the same mechanism, as the same principal (KIP-368).
Until that's complete, the broker serves nothing but the exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from aiokproto.application.calls import CallbackError, calling, without_text
from aiokproto.broker.clock import Clock
from aiokproto.broker.security.principal import Principal
from aiokproto.broker.security.sasl_server import AuthenticationFailed, LoginError, SaslServer
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from aiokproto.codec.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from aiokproto.codec.registry import api_name
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.security.tracebacks import without_frames

_MIN_REAUTH_SECONDS = 1.0


class _SaslState(Enum):
    """Which request is expected next (Kafka's SaslState)."""

    HANDSHAKE_OR_VERSIONS_REQUEST = 1
    HANDSHAKE_REQUEST = 2
    AUTHENTICATE = 3
    COMPLETE = 4
    FAILED = 5


class SaslAuthenticator:
    """The authentication state of a connection, including re-authentication (KIP-43, KIP-152, KIP-368).

    Attributes:
        principal: The authenticated principal, or None before authentication. It's kept during re-authentication.
        by_token: Whether the client authenticated with a delegation token (KIP-48).
        failure: Why the connection must be closed after the current response, or None if it stays open.
    """

    def __init__(self, mechanisms: Mapping[str, Callable[[], SaslServer]], max_reauth_ms: int, clock: Clock) -> None:
        """Start with an unauthenticated connection.

        Args:
            mechanisms: The enabled mechanisms, each with a function that creates an exchange.
            max_reauth_ms: The maximum session lifetime (``connections.max.reauth.ms``). If 0, only the lifetime of the
                credentials limits it.
            clock: The broker's clock.
        """
        self.principal: Principal | None = None
        self.by_token = False
        self.failure: str | None = None
        self._mechanisms = mechanisms
        self._max_reauth_ms = max_reauth_ms
        self._clock = clock
        self._state = _SaslState.HANDSHAKE_OR_VERSIONS_REQUEST
        self._exchange: SaslServer | None = None
        self._mechanism = ""
        self._wrapped = False
        self._changed_mechanism: str | None = None
        self._ends: float | None = None
        self._reauthenticated_at: float | None = None

    @property
    def raw(self) -> bool:
        """Whether the next frame is a bare token without a header (after SaslHandshake v0)."""
        return self._state is _SaslState.AUTHENTICATE and not self._wrapped

    @property
    def complete(self) -> bool:
        """Whether the client has authenticated, and can send any request."""
        return self._state is _SaslState.COMPLETE

    def check_request(self, api_key: int) -> BrokerError | None:
        """Check that a request is allowed in this state. If not, set :attr:`failure`.

        Returns:
            The error to respond with before closing the connection, or None to close it without a response.
        """
        state = self._state
        if state is _SaslState.COMPLETE:
            # Check the expiry when a request arrives rather than with a timer: an idle connection may stay open and
            # re-authenticate late (KIP-368).
            expired = self._ends is not None and self._clock.time() >= self._ends
            if expired and api_key != SaslHandshakeRequest.api_key:
                self._fail("the session has expired, and the client did not re-authenticate")
            return None
        if state is _SaslState.AUTHENTICATE:
            if api_key == SaslAuthenticateRequest.api_key:
                return None
            self._fail(f"{api_name(api_key)} was received during SASL authentication")
            return BrokerError(ErrorCode.ILLEGAL_SASL_STATE, detail=self.failure)
        # All other requests close the connection without a response, so an unauthenticated client learns nothing.
        allowed = {SaslHandshakeRequest.api_key}
        if state is _SaslState.HANDSHAKE_OR_VERSIONS_REQUEST:
            allowed.add(ApiVersionsRequest.api_key)
        if api_key not in allowed:
            self._fail(f"{api_name(api_key)} was received before SASL authentication")
        return None

    def api_versions_answered(self) -> None:
        """Record that ApiVersions has been answered. As in Kafka, it isn't served again before authentication."""
        if self._state is _SaslState.HANDSHAKE_OR_VERSIONS_REQUEST:
            self._state = _SaslState.HANDSHAKE_REQUEST

    def handshake(self, request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse:
        """Start an exchange with the client's mechanism. On an authenticated connection, this starts
        re-authentication."""
        enabled = list(self._mechanisms)
        mechanism = request.mechanism
        if self.complete:
            # As in Kafka, re-authentication requires a session that expires, and can start at most once per second
            # (KIP-368).
            now = self._clock.time()
            soon = self._reauthenticated_at is not None and now - self._reauthenticated_at < _MIN_REAUTH_SECONDS
            if self._ends is None or soon:
                return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
            self._reauthenticated_at = now
        if mechanism not in self._mechanisms:
            self._fail(f"SASL mechanism {mechanism!r} is not enabled")
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=enabled)
        # As in Kafka, a different mechanism only fails with the first token: only SaslAuthenticate can return a message
        # for the user.
        if self.principal is not None and mechanism != self._mechanism:
            self._changed_mechanism = mechanism
        self._mechanism = mechanism
        self._wrapped = self._wrapped or version >= 1
        self._exchange = self._mechanisms[mechanism]()
        self._state = _SaslState.AUTHENTICATE
        return SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=enabled)

    def authenticate(self, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        """Process a token in a SaslAuthenticate request."""
        if self.complete:
            return _refused(
                ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication"
            )
        try:
            token, lifetime_ms = self._step(bytes(request.auth_bytes))
        except AuthenticationFailed as error:
            text = error.detail or (
                f"Authentication failed during {'re-' if self.principal else ''}authentication due to invalid "
                f"credentials with SASL mechanism {self._mechanism}"
            )
            self._fail(text)
            return _refused(ErrorCode.SASL_AUTHENTICATION_FAILED, text)
        return SaslAuthenticateResponse(
            error_code=ErrorCode.NONE, error_message=None, auth_bytes=token, session_lifetime_ms=lifetime_ms
        )

    def token(self, token: bytes) -> bytes:
        """Process a bare token. The result is sent as a bare frame too, unless there's a :attr:`failure`.

        Raises:
            LoginError: The token could be neither accepted nor rejected.
        """
        try:
            return self._step(token)[0]
        except AuthenticationFailed as error:
            self._fail(str(error))
            return b""

    def _step(self, token: bytes) -> tuple[bytes, int]:
        if self._changed_mechanism is not None:
            raise AuthenticationFailed(
                f"SASL mechanism '{self._changed_mechanism}' requested by client is not supported for "
                "re-authentication of another mechanism"
            )
        exchange = self._exchange
        assert exchange is not None, "the handshake creates it"
        answer = self._answer(exchange, token)
        proof = exchange.authenticated_user
        if proof is None:
            return answer, 0
        # Check this on every (re-)authentication: a connection must not change its principal (KIP-368).
        principal = Principal("User", proof.user)
        if self.principal not in (None, principal):
            raise AuthenticationFailed(
                f"Cannot change principals during re-authentication from {self.principal} to {principal}"
            )
        self.principal, self.by_token = principal, proof.by_token
        self._state = _SaslState.COMPLETE
        # An exchange is used only once. It holds the nonce and the user's credential, so drop it now.
        self._exchange = None
        return answer, self._start_session(proof.expires)

    def _answer(self, exchange: SaslServer, token: bytes) -> bytes:
        what = f"what verifies logins by {self._mechanism}"
        try:
            with calling(what):
                return exchange.step(token)
        except (AuthenticationFailed, LoginError):
            raise
        # Catch even BrokerError, which would be sent to the client: its message and its frames' variables may contain
        # secrets.
        except Exception as error:  # noqa: BLE001 - whatever the application raises
            raised = error.__cause__ or error if isinstance(error, CallbackError) else error
            why = LoginError(f"{what} raised {without_text(raised)}")
            why.__traceback__ = without_frames(raised).__traceback__
        # Raise the error outside the except block, so it doesn't have the original error as its context.
        raise why

    def _start_session(self, expires: int | None) -> int:
        """Start the session, and return its lifetime in milliseconds, or 0 if it lasts as long as the connection."""
        limits = [self._max_reauth_ms] if self._max_reauth_ms else []
        if expires is not None:
            # Tokens expire by wall time. The session runs on the monotonic clock, which can't be set back.
            limits.append(max(expires - self._clock.wall(), 0))
        self._ends = self._clock.time() + min(limits) / 1000 if limits else None
        return min(limits, default=0)

    def _fail(self, why: str) -> None:
        self.failure = why
        self._state = _SaslState.FAILED


def _refused(error: ErrorCode, text: str) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=error, error_message=text, auth_bytes=b"")

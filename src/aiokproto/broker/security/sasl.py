"""How far a connection has come in proving who it is. Pure: messages in, messages out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from aiokproto.broker.clock import Clock
from aiokproto.broker.security.principal import Principal
from aiokproto.broker.security.sasl_server import AuthenticationFailed, SaslServer
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from aiokproto.codec.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from aiokproto.codec.registry import api_name
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

_MIN_REAUTH_SECONDS = 1.0


class _SaslState(Enum):
    """What the client may send next."""

    HANDSHAKE_OR_VERSIONS_REQUEST = 1
    HANDSHAKE_REQUEST = 2
    AUTHENTICATE = 3
    COMPLETE = 4
    FAILED = 5


class SaslAuthenticator:
    """The state of one connection, from its first request to its last re-authentication (KIP-43, KIP-152, KIP-368).

    Attributes:
        principal: Who it is; None before that is proven. It stays while the client proves it again.
        by_token: Whether that was proven by a delegation token (KIP-48).
        failure: Why the connection has to be closed, once what was said last is sent; None: it has not.
    """

    def __init__(self, mechanisms: Mapping[str, Callable[[], SaslServer]], max_reauth_ms: int, clock: Clock) -> None:
        """Begin.

        Args:
            mechanisms: The mechanisms that are enabled.
            max_reauth_ms: After how long a client must prove again who it is (``connections.max.reauth.ms``); 0: when
                its credentials expire, if they do.
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
        self._begun_again: float | None = None

    @property
    def raw(self) -> bool:
        """Whether the next frame is a token as it is, with no header: so it goes after a handshake of v0."""
        return self._state is _SaslState.AUTHENTICATE and not self._wrapped

    @property
    def complete(self) -> bool:
        """Whether the client may send anything."""
        return self._state is _SaslState.COMPLETE

    def check_request(self, api_key: int) -> BrokerError | None:
        """Look whether a request may be served now; if not, that is the connection's ``failure``.

        Returns:
            What the client is told before the connection is closed, if anything.
        """
        state = self._state
        if state is _SaslState.COMPLETE:
            expired = self._ends is not None and self._clock.time() >= self._ends
            if expired and api_key != SaslHandshakeRequest.api_key:
                self._fail("its session has expired, and it did not authenticate again")
            return None
        if state is _SaslState.AUTHENTICATE:
            if api_key == SaslAuthenticateRequest.api_key:
                return None
            self._fail(f"{api_name(api_key)} came during SASL authentication")
            return BrokerError(ErrorCode.ILLEGAL_SASL_STATE, detail=self.failure)
        allowed = {SaslHandshakeRequest.api_key}
        if state is _SaslState.HANDSHAKE_OR_VERSIONS_REQUEST:
            allowed.add(ApiVersionsRequest.api_key)
        if api_key not in allowed:
            self._fail(f"{api_name(api_key)} came before SASL authentication")
        return None

    def api_versions_answered(self) -> None:
        """The client was told which versions are served; it may not ask again before it is authenticated."""
        if self._state is _SaslState.HANDSHAKE_OR_VERSIONS_REQUEST:
            self._state = _SaslState.HANDSHAKE_REQUEST

    def handshake(self, request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse:
        """The client names its mechanism. Where its session is to end, it begins anew so."""
        enabled = list(self._mechanisms)
        mechanism = request.mechanism
        if self.complete:
            now = self._clock.time()
            soon = self._begun_again is not None and now - self._begun_again < _MIN_REAUTH_SECONDS
            if self._ends is None or soon:
                return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
            self._begun_again = now
        if mechanism not in self._mechanisms:
            self._fail(f"SASL mechanism {mechanism!r} is not enabled")
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=enabled)
        if self.principal is not None and mechanism != self._mechanism:
            self._changed_mechanism = mechanism
        self._mechanism = mechanism
        self._wrapped = self._wrapped or version >= 1
        self._exchange = self._mechanisms[mechanism]()
        self._state = _SaslState.AUTHENTICATE
        return SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=enabled)

    def authenticate(self, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        """A token of the client."""
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
        """A token that came as it is; the answer goes back so too, unless there is a ``failure``."""
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
        assert exchange is not None, "the handshake began it"
        answer = exchange.step(token)
        proof = exchange.authenticated_user
        if proof is None:
            return answer, 0
        principal = Principal("User", proof.user)
        if self.principal not in (None, principal):
            raise AuthenticationFailed(
                f"Cannot change principals during re-authentication from {self.principal} to {principal}"
            )
        self.principal, self.by_token = principal, proof.by_token
        self._state = _SaslState.COMPLETE
        self._exchange = None
        return answer, self._begin_session(proof.expires)

    def _begin_session(self, expires: int | None) -> int:
        """How long the session lasts, in milliseconds; 0: as long as the connection."""
        limits = [self._max_reauth_ms] if self._max_reauth_ms else []
        if expires is not None:
            limits.append(max(expires - self._clock.wall(), 0))
        self._ends = self._clock.time() + min(limits) / 1000 if limits else None
        return min(limits, default=0)

    def _fail(self, why: str) -> None:
        self.failure = why
        self._state = _SaslState.FAILED


def _refused(error: ErrorCode, text: str) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=error, error_message=text, auth_bytes=b"")

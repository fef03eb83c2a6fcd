"""SASL/OAUTHBEARER (RFC 7628; KIP-255, KIP-342): a bearer token, which the broker verifies.

A broker that rejects a token gives the reason in a challenge, as JSON. Only after the client has acknowledged this with
``%x01`` does the exchange fail.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from aiokproto.errors import AuthenticationError, ConfigurationError
from aiokproto.security.client_credentials import ClientCredentials, JwtBearer
from aiokproto.security.mechanism import SaslExchange
from aiokproto.security.shown import LONGEST_REASON, shown
from aiokproto.security.token import Token, TokenReader, TokenSource, claims_of
from aiokproto.security.token_cache import RefreshWindow, TokenCache

_KEY = re.compile(r"[A-Za-z]+")
_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
"""A valid extension value (RFC 7628 §3.1)."""

_ERROR_FIELDS = ("status", "scope", "openid-configuration")


class OAuthBearer:
    """OAUTHBEARER: the broker receives the token itself, so use it only with TLS.

    Tokens from a function are requested once for all connections, and kept until shortly before they expire
    (``refresh``), or until a session that ends with the token is renewed. If the expiry is unknown, each connection
    requests its own token. A file is read for each connection. An expired token is never sent.

    Args:
        token: The source of tokens: a function, async or not, that returns a token (text, a
            :class:`~aiokproto.security.Token`, or a pair of token and expiry in seconds since the epoch); an object
            such as :class:`~aiokproto.security.ClientCredentials`; the :class:`~pathlib.Path` of a file; or a token.
        extensions: Additional values for the broker (KIP-342). Their names may contain only letters. Default None.
        authorization_id: The name to act as. Kafka only accepts the token's own principal. Default None.
        refresh: When tokens are replaced. Default as in the Java client: after 80 to 85 % of their lifetime, and at
            least 5 minutes before they expire.

    Raises:
        ConfigurationError: An argument is invalid.

    Attributes:
        user: The subject (claim ``sub``) of the last token sent, if it's a JSON Web Token; otherwise empty.
        endpoint: The token endpoint; None if tokens don't come from one.
    """

    name = "OAUTHBEARER"
    user = ""

    def __init__(
        self,
        token: TokenSource,
        *,
        extensions: Mapping[str, str] | None = None,
        authorization_id: str | None = None,
        refresh: RefreshWindow | None = None,
    ) -> None:
        self._extensions = dict(extensions or {})
        _check_extensions(self._extensions)
        if authorization_id is not None and (not authorization_id or "\0" in authorization_id):
            raise ConfigurationError("authorization_id is empty, or contains a null character")
        self._authorization_id = authorization_id
        self.endpoint = token.endpoint if isinstance(token, ClientCredentials | JwtBearer) else None
        self._tokens = TokenCache(TokenReader("sasl_oauth_token", token), refresh or RefreshWindow())

    def exchange(self, host: str) -> SaslExchange:
        """Start an exchange."""
        return _OAuthBearerExchange(self, self._tokens, self._extensions, self._authorization_id)

    def __repr__(self) -> str:
        return "OAuthBearer()"


class _OAuthBearerExchange:
    """One exchange. See :class:`~aiokproto.security.mechanism.ExplainedExchange`."""

    def __init__(
        self,
        mechanism: OAuthBearer,
        tokens: TokenCache,
        extensions: Mapping[str, str],
        authorization_id: str | None,
        replaced: Token | None = None,
    ) -> None:
        self._mechanism = mechanism
        self._tokens = tokens
        self._replaced = replaced
        self._extensions = extensions
        self._authorization_id = authorization_id
        self._sent: Token | None = None
        self._error: str | None = None

    @property
    def user(self) -> str | None:
        """The subject of the token, if it's a JSON Web Token."""
        subject = None if self._sent is None else claims_of(self._sent.value).get("sub")
        return subject if isinstance(subject, str) else None

    @property
    def complete(self) -> bool:
        # Every token gets a response: brokers without SaslAuthenticate don't support OAUTHBEARER.
        return False

    async def start(self) -> bytes:
        token = self._sent = await self._tokens.get(self._replaced)
        self._mechanism.user = self.user or ""
        extensions = {**self._extensions, **(token.extensions or {})}
        _check_extensions(extensions)
        pairs = {"auth": f"Bearer {token.value}", **extensions}
        name = (self._authorization_id or "").replace("=", "=3D").replace(",", "=2C")
        header = f"n,{'a=' if name else ''}{name},"
        return (header + "\x01" + "".join(f"{key}={value}\x01" for key, value in pairs.items()) + "\x01").encode()

    async def respond(self, challenge: bytes) -> bytes | None:
        if not challenge and self._error is None:
            return None
        if self._error is not None:
            raise AuthenticationError(f"the broker rejected the token ({self._error}), and then continued")
        self._error = _described(challenge, self._secrets())
        if self._sent is not None:
            self._tokens.discard(self._sent)
        return b"\x01"

    def renewed(self) -> SaslExchange:
        """Start an exchange with a newer token: the session ends with the current one."""
        return _OAuthBearerExchange(self._mechanism, self._tokens, self._extensions, self._authorization_id, self._sent)

    def explain(self, message: str | None) -> str:
        """Return the broker's reason for rejecting the token."""
        return self._error or shown(message or "without a reason", LONGEST_REASON, hidden=self._secrets())

    def _secrets(self) -> tuple[str, ...]:
        # Hide the token: the broker has received it and could repeat it.
        return () if self._sent is None else (self._sent.value,)


def _check_extensions(extensions: Mapping[str, str]) -> None:
    for key, value in extensions.items():
        if not isinstance(key, str) or not _KEY.fullmatch(key) or key.lower() == "auth":
            raise ConfigurationError(f"the extension {key!r}: expected a name of letters, other than 'auth' (RFC 7628)")
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            # Leave the value out: some clusters use extensions for secrets.
            raise ConfigurationError(f"the extension {key!r}: its value is empty or not printable ASCII (RFC 7628)")


def _described(challenge: bytes, hidden: Iterable[str]) -> str:
    text = challenge.decode("utf-8", "replace")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    fields = found if isinstance(found, dict) else {}
    reasons = [f"{name} {shown(str(fields[name]), hidden=hidden)}" for name in _ERROR_FIELDS if fields.get(name)]
    return ", ".join(reasons) or shown(text, hidden=hidden)

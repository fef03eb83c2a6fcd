"""SASL/OAUTHBEARER (RFC 7628): the client presents a bearer token, which a validator accepts or rejects."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from types import CoroutineType
from typing import Any, NamedTuple

from aiokproto.application.calls import calling
from aiokproto.broker.security.sasl_server import AuthenticatedUser, AuthenticationFailed, LoginError


class Token(NamedTuple):
    """The claims of a valid token.

    Attributes:
        user: The user's name.
        expires: When the token expires, in milliseconds since the epoch.
    """

    user: str
    expires: int


TokenValidator = Callable[[str], Token]
"""Validates a token and returns its claims. Raises ValueError if the token is invalid."""

_NAME = r"(?:[^=,\0]|=2C|=3D)+"
_INITIAL = re.compile(rf"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01")
_AUTH = re.compile(r"(?i:bearer) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")
_LATEST = 1 << 62
"""Later than any real time in milliseconds. The session lifetime in the response has 64 bits."""
_REFUSED = b'{"status":"invalid_token"}'


class OAuthBearerSaslServer:
    """One OAUTHBEARER exchange. See :class:`~aiokproto.broker.security.sasl_server.SaslServer`."""

    def __init__(self, validate: TokenValidator) -> None:
        self.authenticated_user: AuthenticatedUser | None = None
        self._validate = validate
        self._refused = False

    def step(self, token: bytes) -> bytes:
        # The client should acknowledge the error with %x01. Refuse another token as well: otherwise an unauthenticated
        # connection could keep trying tokens.
        if self._refused:
            raise AuthenticationFailed(_REFUSED.decode())
        message = _INITIAL.fullmatch(token.decode("utf-8", "replace"))
        if message is None:
            raise AuthenticationFailed
        pairs = dict(pair.split("=", 1) for pair in message["pairs"].split("\x01")[:-1])
        bearer = _AUTH.fullmatch(pairs.get("auth", ""))
        if bearer is None:
            raise AuthenticationFailed
        try:
            with calling("token_validator"):
                found = self._validate(bearer["token"])
            claims = _checked(found)
            # JSON escapes can produce characters that no response can carry. UnicodeEncodeError is a ValueError.
            claims.user.encode()
        except ValueError:
            # RFC 7628 §3.2.3: the server reports the error in a challenge, the client acknowledges it with %x01, and
            # only then does the exchange fail.
            self._refused = True
            return _REFUSED
        authorization_id = message["authzid"] or ""
        if authorization_id not in ("", claims.user):
            raise AuthenticationFailed(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({claims.user})"
            )
        self.authenticated_user = AuthenticatedUser(claims.user, claims.expires)
        return b""


def _checked(found: Any) -> Token:
    """Return a validator's result if it's a :class:`Token`, or an object with the attributes of one."""
    if isinstance(found, CoroutineType):
        # Close the coroutine: Python would also warn that it was never awaited.
        found.close()
    user, expires = getattr(found, "user", None), getattr(found, "expires", None)
    if isinstance(user, str) and user and type(expires) is int and 0 <= expires < _LATEST:
        return Token(user, expires)
    # Leave the value out of the error: it may be the token.
    raise LoginError(
        f"token_validator returned {type(found).__name__}: expected a Token, with the name of a user and a time in"
        " milliseconds since the epoch, of a plain function"
    )


def unsecured_validator(now: Callable[[], int]) -> TokenValidator:
    """Return Kafka's default validator, which accepts unsecured JSON Web Tokens. For tests only, since the tokens
    aren't signed.

    Args:
        now: Returns the time in milliseconds since the epoch.
    """

    def validate(token: str) -> Token:
        parts = token.split(".")
        if len(parts) != 3 or parts[2]:
            raise ValueError("an unsecured token has three parts, the last of them empty")
        if _json(parts[0]).get("alg") != "none":
            raise ValueError("the token's algorithm is not 'none'")
        claims = _json(parts[1])
        user = claims.get("sub")
        if not isinstance(user, str) or not user:
            raise ValueError("the claim 'sub' is not a string")
        expires = _milliseconds(claims, "exp")
        issued = _milliseconds(claims, "iat") if "iat" in claims else 0
        if now() >= expires or issued > now() or issued >= expires:
            raise ValueError("the token is expired, or not yet valid")
        return Token(user, expires)

    return validate


def _json(part: str) -> dict[str, Any]:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise ValueError("the token's parts are not base64-encoded JSON") from None
    if not isinstance(found, dict):
        raise ValueError("the token's parts are not JSON objects")
    return found


def _milliseconds(claims: dict[str, Any], name: str) -> int:
    value = claims.get(name)
    # Python's bool is an int. NaN fails the comparison, and infinity is too large.
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < 1e15:
        raise ValueError(f"the claim {name!r} is not a time in seconds")
    return int(value * 1000)

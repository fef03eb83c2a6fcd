"""SASL/OAUTHBEARER (RFC 7628): a token says who the client is, and somebody says whether to believe it."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from aiokproto.broker.security.sasl_server import AuthenticatedUser, AuthenticationFailed


class Token(NamedTuple):
    """What a token that is believed says.

    Attributes:
        user: Who its bearer is.
        expires: When that ceases to be so, in milliseconds since the epoch.
    """

    user: str
    expires: int


TokenValidator = Callable[[str], Token]
"""Reads a token; raises ValueError if it is not to be believed."""

_NAME = r"(?:[^=,\0]|=2C|=3D)+"
_INITIAL = re.compile(rf"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01")
_AUTH = re.compile(r"(?i:bearer) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")
_REFUSED = b'{"status":"invalid_token"}'


class OAuthBearerSaslServer:
    """One client's proof. See :class:`~aiokproto.broker.security.sasl_server.SaslServer`."""

    def __init__(self, validate: TokenValidator) -> None:
        self.authenticated_user: AuthenticatedUser | None = None
        self._validate = validate
        self._refused = False

    def step(self, token: bytes) -> bytes:
        if self._refused and token == b"\x01":
            raise AuthenticationFailed(_REFUSED.decode())
        message = _INITIAL.fullmatch(token.decode("utf-8", "replace"))
        if message is None:
            raise AuthenticationFailed
        pairs = dict(pair.split("=", 1) for pair in message["pairs"].split("\x01")[:-1])
        bearer = _AUTH.fullmatch(pairs.get("auth", ""))
        if bearer is None:
            raise AuthenticationFailed
        try:
            said = self._validate(bearer["token"])
        except ValueError:
            # The client hears why in a token, says that it has heard, and only then has failed.
            self._refused = True
            return _REFUSED
        authorization_id = message["authzid"] or ""
        if authorization_id not in ("", said.user):
            raise AuthenticationFailed(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({said.user})"
            )
        self.authenticated_user = AuthenticatedUser(said.user, said.expires)
        return b""


def unsecured_validator(now: Callable[[], int]) -> TokenValidator:
    """Kafka's default validator: a JSON web signature that nobody has signed, good enough for tests.

    Args:
        now: Gives the time, in milliseconds since the epoch.
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
            raise ValueError("the claim 'sub' is not a text")
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
        raise ValueError("the token's parts are not JSON in base64") from None
    if not isinstance(found, dict):
        raise ValueError("the token's parts are not JSON objects")
    return found


def _milliseconds(claims: dict[str, Any], name: str) -> int:
    value = claims.get(name)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < 1e15:
        raise ValueError(f"the claim {name!r} is not a time in seconds")
    return int(value * 1000)

"""Validates signed JSON Web Tokens (RFC 7519), like Kafka's BrokerJwtValidator (KIP-768)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.security.jwks import Jwks, decoded
from aiokproto.broker.security.oauthbearer import Token

_ALGORITHMS = {"RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "ES256": "EC", "ES384": "EC", "ES512": "EC"}
"""The supported algorithms and their kinds of keys. ``none`` and algorithms with shared keys aren't supported."""

_WHITE = "".join(map(chr, range(33)))
"""What Java's ``trim()`` removes. Python's ``strip()`` removes more, which could make two of a provider's subjects
equal."""


class JwtValidator:
    """Validates tokens.

    Args:
        keys: The keys that verify tokens.
        options: The ``sasl.oauthbearer.*`` options.
        now: Returns the time in milliseconds since the epoch.
    """

    def __init__(self, keys: Jwks, options: BrokerOptions, now: Callable[[], int]) -> None:
        self._keys = keys
        self._now = now
        prefix = "sasl.oauthbearer."
        self._skew = options.number(f"{prefix}clock.skew.seconds")
        audiences = str(options.value(f"{prefix}expected.audience")).split(",")
        self._audiences = {audience.strip() for audience in audiences if audience.strip()}
        self._issuer = str(options.value(f"{prefix}expected.issuer"))
        self._subject = str(options.value(f"{prefix}sub.claim.name"))
        self._scope = str(options.value(f"{prefix}scope.claim.name"))

    def __call__(self, token: str) -> Token:
        """Return the claims of a valid token.

        Raises:
            ValueError: The token is invalid.
        """
        parts = token.split(".")
        if len(parts) != 3:
            raise ValueError("a signed token has three parts")
        header, claims = (_object(part) for part in parts[:2])
        self._verify(header, f"{parts[0]}.{parts[1]}".encode(), decoded(parts[2]))
        now = self._now() / 1000
        expires = _seconds(claims, "exp")
        # Kafka only requires the claim to exist. A token from the future comes from a wrong clock, or is valid for
        # longer than it claims.
        if _seconds(claims, "iat") > now + self._skew:
            raise ValueError("the token was issued in the future")
        if now - self._skew >= expires:
            raise ValueError("the token has expired")
        if "nbf" in claims and now + self._skew < _seconds(claims, "nbf"):
            raise ValueError("the token is not valid yet")
        self._check_parties(claims)
        scope = claims.get(self._scope, "")
        if not isinstance(scope, str) and not (
            isinstance(scope, list) and all(isinstance(item, str) for item in scope)
        ):
            raise ValueError(f"the claim {self._scope!r} is neither text nor a list of texts")
        user = claims.get(self._subject)
        if not isinstance(user, str) or not user.strip(_WHITE):
            raise ValueError(f"the claim {self._subject!r} is missing")
        return Token(user.strip(_WHITE), int(expires * 1000))

    def _check_parties(self, claims: dict[str, Any]) -> None:
        audience = claims.get("aud", [])
        listed = audience if isinstance(audience, list) else [audience]
        given = {name for name in listed if isinstance(name, str)}
        if self._audiences and not given & self._audiences:
            raise ValueError("the token is for another audience")
        if self._issuer and claims.get("iss") != self._issuer:
            raise ValueError("the token is of another issuer")

    def _verify(self, header: dict[str, Any], data: bytes, signature: bytes) -> None:
        from jwt.algorithms import get_default_algorithms
        from jwt.exceptions import InvalidKeyError

        name, key_id = header.get("alg"), header.get("kid")
        if not isinstance(name, str) or name not in _ALGORITHMS or "crit" in header:
            raise ValueError("the token is signed in a way that is not accepted")
        key = self._keys.find(key_id) if isinstance(key_id, str) else None
        if key is None or key.kind != _ALGORITHMS[name]:
            raise ValueError("the token is signed by an unknown key")
        algorithm = get_default_algorithms()[name]
        try:
            # prepare_key() checks the curve of the key.
            valid = algorithm.verify(data, algorithm.prepare_key(key.public), signature)
        except InvalidKeyError:
            valid = False
        if not valid:
            raise ValueError("the token's signature is wrong")


def _object(part: str) -> dict[str, Any]:
    try:
        found = json.loads(decoded(part))
    except RecursionError:
        raise ValueError("the token's parts are nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("the token's parts are not JSON objects")
    return found


def _seconds(claims: dict[str, Any], name: str) -> float:
    value = claims.get(name)
    # Python's bool is an int. NaN fails the comparison, and infinity is too large.
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < 1e12:
        raise ValueError(f"the claim {name!r} is not a time in seconds")
    return value

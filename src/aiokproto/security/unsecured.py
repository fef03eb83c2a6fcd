"""Unsigned tokens (KIP-255), for tests. Brokers accept them if no other validator is configured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiokproto.errors import ConfigurationError
from aiokproto.runtime import current
from aiokproto.security.assertion import encode_part
from aiokproto.security.token import Token


class UnsecuredToken:
    """Creates unsigned JSON Web Tokens, as a function for :class:`~aiokproto.security.OAuthBearer`. For tests only.

    Args:
        principal: The user, which becomes the claim ``principal_claim``.
        principal_claim: The name of the claim for the user. Default ``"sub"``.
        lifetime: How long a token is valid (s). Default 3600.
        claims: Additional claims, except ``iat`` and ``exp``. Default None.

    Raises:
        ConfigurationError: An argument is invalid.
    """

    def __init__(
        self,
        principal: str,
        *,
        principal_claim: str = "sub",
        lifetime: float = 3600,
        claims: Mapping[str, Any] | None = None,
    ) -> None:
        self._claims = {**(claims or {}), principal_claim: principal}
        if not principal or {"iat", "exp"} & self._claims.keys():
            raise ConfigurationError(
                "an unsecured token needs a principal, and makes the claims 'iat' and 'exp' itself"
            )
        self._lifetime = lifetime

    def __call__(self) -> Token:
        """Return a new token."""
        now = current().milliseconds() / 1000
        expires_at = now + self._lifetime
        claims = {**self._claims, "iat": now, "exp": expires_at}
        return Token(f"{encode_part({'alg': 'none'})}.{encode_part(claims)}.", expires_at)

    def __repr__(self) -> str:
        return "UnsecuredToken()"

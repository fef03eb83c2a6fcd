"""SASL/PLAIN (RFC 4616): user name and password in plain text."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from aiokproto.broker.security.sasl_server import AuthenticatedUser, AuthenticationFailed


class PlainSaslServer:
    """One PLAIN exchange. See :class:`~aiokproto.broker.security.sasl_server.SaslServer`."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self.authenticated_user: AuthenticatedUser | None = None
        self._passwords = passwords

    def step(self, token: bytes) -> bytes:
        parts = token.decode("utf-8", "replace").split("\0")
        if len(parts) != 3:
            raise AuthenticationFailed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(parts), 4)}")
        authorization_id, user, password = parts
        for what, given in (("username", user), ("password", password)):
            if not given:
                raise AuthenticationFailed(f"Authentication failed: {what} not specified")
        # An unknown user gets the same comparison and the same message as a wrong password. An empty password was
        # rejected above, so "" never matches.
        expected = self._passwords.get(user, "")
        if not hmac.compare_digest(expected.encode(), password.encode()):
            raise AuthenticationFailed("Authentication failed: Invalid username or password")
        check_authorization_id(authorization_id, user)
        self.authenticated_user = AuthenticatedUser(user)
        return b""


def check_authorization_id(authorization_id: str, user: str) -> None:
    """Check that the authorization id, if any, is the user itself. Kafka doesn't support impersonation.

    Raises:
        AuthenticationFailed: The authorization id is another user.
    """
    if authorization_id not in ("", user):
        raise AuthenticationFailed(
            "Authentication failed: Client requested an authorization id that is different from username"
        )

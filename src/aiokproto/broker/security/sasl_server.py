"""The interface of the SASL mechanisms (like Java's SaslServer)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from aiokproto.texts import shortened


class AuthenticationFailed(Exception):
    """A client failed to authenticate.

    Attributes:
        detail: The reason to report to the client; None if it would reveal whether a user exists. A long reason, which
            repeats what the client sent, is shortened.
    """

    def __init__(self, detail: str | None = None) -> None:
        # A response has room for 32,767 bytes, and a token can be longer.
        self.detail = shortened(detail) if detail is not None else None
        super().__init__(self.detail or "invalid credentials")


class LoginError(Exception):
    """A login is neither right nor wrong: the application's code that judges it failed, or there is a bug.

    The connection is closed, so that the client tries again, and the broker logs the error. The error's text names the
    type of the original exception, and never repeats its text, which may contain a token or password.
    """


class AuthenticatedUser(NamedTuple):
    """The user that a client has authenticated as.

    Attributes:
        user: The user's name.
        expires: When the authentication expires, in milliseconds since the epoch; None for never.
        by_token: Whether the client used a delegation token instead of the user's own secret (KIP-48).
    """

    user: str
    expires: int | None = None
    by_token: bool = False


class SaslServer(Protocol):
    """The server side of one SASL exchange: tokens from the client in, tokens to the client out.

    Attributes:
        authenticated_user: The result; None until the exchange is complete.
    """

    authenticated_user: AuthenticatedUser | None

    def step(self, token: bytes) -> bytes:
        """Process a token from the client, and return the token to send.

        Raises:
            AuthenticationFailed: The exchange has failed.
        """
        ...

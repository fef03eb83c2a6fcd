"""The interface of the SASL mechanisms (like Java's SaslServer)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from aiokproto.texts import shortened


class AuthenticationFailed(Exception):
    """A client failed to authenticate.

    Attributes:
        detail: The reason to report to the client, or None if it would reveal whether a user exists. Long reasons,
            which may repeat what the client sent, are shortened.
    """

    def __init__(self, detail: str | None = None) -> None:
        # A string in a response is limited to 32,767 bytes, and a token can be longer.
        self.detail = shortened(detail) if detail is not None else None
        super().__init__(self.detail or "invalid credentials")


class LoginError(Exception):
    """A login was neither accepted nor rejected: the application's code that verifies it failed, or the broker has a
    bug.

    The connection is closed, so the client tries again, and the broker logs the error. The message gives the type of
    the original exception, but never its message, which may contain a token or password.
    """


class AuthenticatedUser(NamedTuple):
    """The user that a client has authenticated as.

    Attributes:
        user: The user's name.
        expires: When the authentication expires, in milliseconds since the epoch, or None if it doesn't.
        by_token: Whether the client used a delegation token instead of the user's own secret (KIP-48).
    """

    user: str
    expires: int | None = None
    by_token: bool = False


class SaslServer(Protocol):
    """The server side of one SASL exchange: tokens from the client in, tokens to the client out.

    Attributes:
        authenticated_user: The result, or None until the exchange is complete.
    """

    authenticated_user: AuthenticatedUser | None

    def step(self, token: bytes) -> bytes:
        """Process a token from the client, and return the token to send.

        Raises:
            AuthenticationFailed: The exchange has failed.
        """
        ...

"""What the SASL mechanisms have in common."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class AuthenticationFailed(Exception):
    """A client could not prove who it is.

    Attributes:
        detail: What the client may know of the reason; None where that would tell it which users there are.
    """

    def __init__(self, detail: str | None = None) -> None:
        self.detail = detail
        super().__init__(detail or "invalid credentials")


class AuthenticatedUser(NamedTuple):
    """What a client has proven.

    Attributes:
        user: Who it is.
        expires: When that ceases to be proven, in milliseconds since the epoch; None: never.
        by_token: Whether it had a delegation token, and not the user's own secret (KIP-48).
    """

    user: str
    expires: int | None = None
    by_token: bool = False


class SaslServer(Protocol):
    """A mechanism at work: tokens from the client in, tokens for it out.

    Attributes:
        proof: What came of it; None before.
    """

    authenticated_user: AuthenticatedUser | None

    def step(self, token: bytes) -> bytes:
        """The answer to a token.

        Raises:
            AuthenticationFailed: That is the end of it.
        """
        ...

"""What the SASL mechanisms have in common."""

from __future__ import annotations

from typing import Protocol


class AuthenticationFailed(Exception):
    """A client could not prove who it is.

    Attributes:
        detail: What the client may know of the reason; None where that would tell it which users there are.
    """

    def __init__(self, detail: str | None = None) -> None:
        self.detail = detail
        super().__init__(detail or "invalid credentials")


class Exchange(Protocol):
    """A mechanism at work: tokens from the client in, tokens for it out.

    Attributes:
        user: Who the client is, once that is proven; None before.
        expires: When the proof expires, in milliseconds since the epoch; None: never.
    """

    user: str | None
    expires: int | None

    def step(self, token: bytes) -> bytes:
        """The answer to a token.

        Raises:
            AuthenticationFailed: That is the end of it.
        """
        ...

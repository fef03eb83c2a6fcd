"""The broker's side of GSSAPI (RFC 4752), by the same library."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from aiokproto.security import SaslExchange

NO_LAYER = b"\x01\x00\x00\x00"


class Acceptor:
    """Accepts one exchange with the keys in a keytab.

    Attributes:
        client: The client's principal, once it has proved it.
        selection: What the client has selected of the offer, once it has.
    """

    def __init__(self, keytab: Path, offer: bytes = NO_LAYER) -> None:
        self._library: Any = importlib.import_module("gssapi")
        credentials = self._library.Credentials(usage="accept", store={"keytab": f"FILE:{keytab}"})
        self._context = self._library.SecurityContext(creds=credentials, usage="accept")
        self._offer = offer
        self._offered = False
        self.client = ""
        self.selection: bytes | None = None

    def accept(self, token: bytes) -> bytes | None:
        """Return the challenge for a token; None at the end."""
        if not self._context.complete:
            challenge: bytes | None = self._context.step(token)
            if self._context.complete:
                self.client = str(self._context.initiator_name)
            return challenge or b""
        if not self._offered:
            assert token == b"", "the client has nothing to say between its proof and the offer"
            self._offered = True
            offered: bytes = self._context.wrap(self._offer, False).message
            return offered
        self.selection = self._context.unwrap(token).message
        return None


async def converse(exchange: SaslExchange, acceptor: Acceptor) -> None:
    """Exchange tokens until both sides are content."""
    token: bytes | None = await exchange.start()
    while token is not None:
        challenge = acceptor.accept(token)
        assert exchange.complete == (challenge is None)
        token = await exchange.respond(challenge or b"")

"""SASL/PLAIN (RFC 4616): user name and password in clear text."""

from __future__ import annotations

from aiokproto.errors import ConfigurationError
from aiokproto.security.mechanism import SaslExchange
from aiokproto.security.secret import Secret, SecretSource, padding
from aiokproto.security.shown import LONGEST_REASON, shown


class Plain:
    """PLAIN: the broker receives the password itself, so use it only with TLS.

    Args:
        username: The user name.
        password: The password. User name and password can each be a file or a function: see
            :class:`~aiokproto.security.Secret`.
    """

    name = "PLAIN"

    def __init__(self, username: SecretSource, password: SecretSource) -> None:
        self._username = Secret("sasl_username", username)
        self._password = Secret("sasl_password", password)

    @property
    def user(self) -> str:
        """The user name; empty if it's read for each authentication."""
        return self._username.text

    def exchange(self, host: str) -> SaslExchange:
        """Start an exchange."""
        return _PlainExchange(self._username, self._password)

    def __repr__(self) -> str:
        return "Plain()"


class _PlainExchange:
    def __init__(self, username: Secret, password: Secret) -> None:
        self._username = username
        self._password = password
        self._sent = ""
        self.complete = False
        self.user: str | None = None

    async def start(self) -> bytes:
        username = self.user = await self._username.read()
        password = self._sent = await self._password.read()
        for name, value in (("sasl_username", username), ("sasl_password", password)):
            if "\0" in value:
                raise ConfigurationError(f"{name} contains a null character, which PLAIN cannot carry")
        self.complete = True
        # The authorization id, before the first separator, is empty: Kafka only accepts the user's own name.
        return f"\0{username}\0{password}".encode()

    async def respond(self, challenge: bytes) -> bytes | None:
        # The broker has accepted the password, so explain() won't need it.
        self._sent = ""
        return None

    def explain(self, message: str | None) -> str:
        """Return the broker's reason without the password, which the broker has received and could repeat."""
        reason = shown(message or "without a reason", LONGEST_REASON, hidden=(self._sent,))
        return f"{reason}{padding('sasl_username', self.user or '')}{padding('sasl_password', self._sent)}"

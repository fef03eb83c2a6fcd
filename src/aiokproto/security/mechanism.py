"""The interface of SASL mechanisms (RFC 4422; KIP-43)."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from aiokproto.errors import BrokerConnectionError


class NoTokenError(BrokerConnectionError):
    """The mechanism can't send anything because a secret can't be read. The connection itself is fine."""


class SaslExchange(Protocol):
    """A single authentication of a connection. It takes challenges and returns tokens.

    Any :class:`~aiokproto.errors.KafkaError` that it raises ends the attempt, and
    :class:`~aiokproto.errors.AuthenticationError` ends the client. Other exceptions count as a failed attempt, which is
    retried like a failed connection. :meth:`start` and :meth:`respond` need not be async. If there's an attribute
    ``user``, errors name the user.
    """

    @property
    def complete(self) -> bool:
        """Whether the client's last token has been returned.

        Brokers before 1.0 don't always respond to the last token.
        """
        ...

    async def start(self) -> bytes:
        """Return the first token."""
        ...

    async def respond(self, challenge: bytes) -> bytes | None:
        """Return the response to the broker's challenge, or None if the exchange is complete.

        Raises:
            AuthenticationError: The broker hasn't proved its identity, although the mechanism requires it.
        """
        ...


@runtime_checkable
class SaslMechanism(Protocol):
    """A SASL mechanism with its credentials, for any number of connections.

    ``repr`` appears in errors: it must not contain secrets.
    """

    @property
    def name(self) -> str:
        """The name that brokers know it by, such as ``"PLAIN"``."""
        ...

    def exchange(self, host: str) -> SaslExchange:
        """Start an exchange with a broker. ``host`` is the name that the broker advertises."""
        ...


@runtime_checkable
class ExplainedExchange(Protocol):
    """An exchange that can explain its rejection better than the broker's last message does."""

    def explain(self, message: str | None) -> str:
        """Explain why the broker rejected the credentials.

        Args:
            message: The message of the broker's response.
        """
        ...


@runtime_checkable
class RenewableExchange(Protocol):
    """An exchange whose session ends with its credentials, so the next exchange on the connection needs new ones."""

    def renewed(self) -> SaslExchange:
        """Start an exchange that renews this exchange's session."""
        ...


@runtime_checkable
class NamedExchange(Protocol):
    """An exchange that knows which user it authenticates, for errors."""

    @property
    def user(self) -> str | None:
        """The user's name, which must not be secret; None while it's unknown."""
        ...

"""What a SASL mechanism is (RFC 4422; KIP-43)."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from aiokproto.errors import BrokerConnectionError


class NoTokenError(BrokerConnectionError):
    """The mechanism has nothing to send, as a secret cannot be read: the connection itself is sound."""


class SaslExchange(Protocol):
    """One authentication of one connection: tokens out, challenges in.

    Any :class:`~aiokproto.errors.KafkaError` that it raises ends the attempt;
    :class:`~aiokproto.errors.AuthenticationError` ends the client. Other exceptions count as a failed attempt, which
    is repeated like a failed connection. :meth:`start` and :meth:`respond` may be plain methods. If it has an attribute
    ``user``, errors name that.
    """

    @property
    def complete(self) -> bool:
        """Whether the client's last token has been returned. Brokers before 1.0 do not always respond to it."""
        ...

    async def start(self) -> bytes:
        """Return the first token."""
        ...

    async def respond(self, challenge: bytes) -> bytes | None:
        """Return the token for the broker's challenge; None if the exchange is complete.

        Raises:
            AuthenticationError: The broker has not proved what the mechanism lets it prove.
        """
        ...


@runtime_checkable
class SaslMechanism(Protocol):
    """A SASL mechanism with its credentials, for any number of connections.

    ``repr`` appears in errors: it must not contain secrets.
    """

    @property
    def name(self) -> str:
        """The name that brokers know it by: ``"PLAIN"``."""
        ...

    def exchange(self, host: str) -> SaslExchange:
        """Begin an exchange with the broker on this host, by the name that the broker advertises."""
        ...


@runtime_checkable
class ExplainedExchange(Protocol):
    """An exchange that can say more about its rejection than the broker's last message does."""

    def explain(self, message: str | None) -> str:
        """Return why the broker rejected the credentials.

        Args:
            message: What the broker's response says.
        """
        ...


@runtime_checkable
class RenewableExchange(Protocol):
    """An exchange after which the next on the connection should have other credentials: a session ends with them."""

    def renewed(self) -> SaslExchange:
        """Begin the exchange that renews the session of this one."""
        ...


@runtime_checkable
class NamedExchange(Protocol):
    """An exchange that knows whom it authenticates, for errors."""

    @property
    def user(self) -> str | None:
        """The user's name, and nothing secret; None while it is not known."""
        ...

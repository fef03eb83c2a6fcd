"""The security session of one connection: address, principal, and the state of authentication."""

from __future__ import annotations

from aiokproto.broker.security.principal import ANONYMOUS, Principal
from aiokproto.broker.security.sasl import SaslAuthenticator
from aiokproto.broker.yield_budget import YieldBudget
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError


class ClientSession:
    """The security session of a connection.

    Attributes:
        host: The client's IP address.
        sasl: The state of SASL authentication, or None if the listener doesn't use SASL.
        turns: Accounts for the connection's work, and yields to other tasks.
    """

    def __init__(self, host: str, principal: Principal, sasl: SaslAuthenticator | None) -> None:
        """``principal`` is the connection's principal until SASL authenticates another one."""
        self.host = host
        self.sasl = sasl
        self.turns = YieldBudget()
        self._principal = principal

    @property
    def principal(self) -> Principal:
        """The authenticated principal."""
        authenticated = self.sasl.principal if self.sasl is not None else None
        return authenticated or self._principal

    @property
    def authenticated(self) -> bool:
        """Whether the client has authenticated, or the listener doesn't require it."""
        return self.sasl is None or self.sasl.principal is not None

    def check_delegation(self) -> None:
        """Check that the client may use the delegation token APIs (KIP-48).

        An anonymous client has no user to create a token for. A client that authenticated with a token must not create
        tokens: otherwise a leaked token could be extended forever.

        Raises:
            BrokerError: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
        """
        refused = self._principal == ANONYMOUS if self.sasl is None else self.sasl.by_token
        if refused:
            raise BrokerError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)

    @property
    def failure(self) -> str | None:
        """Why the connection must be closed after the current response, or None if it stays open."""
        return self.sasl.failure if self.sasl is not None else None

"""What a node knows of one client's connection."""

from __future__ import annotations

from aiokproto.broker.security.principal import ANONYMOUS, Principal
from aiokproto.broker.security.sasl import SaslAuthenticator
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError


class ClientSession:
    """A client's connection.

    Attributes:
        host: The client's address.
        sasl: How far it has come in proving who it is; None where SASL is not spoken.
    """

    def __init__(self, host: str, principal: Principal, sasl: SaslAuthenticator | None) -> None:
        """Begin; ``principal`` is who it is until SASL says otherwise."""
        self.host = host
        self.sasl = sasl
        self._principal = principal

    @property
    def principal(self) -> Principal:
        """Whom it speaks for."""
        proven = self.sasl.principal if self.sasl is not None else None
        return proven or self._principal

    @property
    def authenticated(self) -> bool:
        """Whether the client has said who it is, or need not."""
        return self.sasl is None or self.sasl.principal is not None

    def check_delegation(self) -> None:
        """Whether the client may ask for delegation tokens: nobody may not, nor who has but a token himself (KIP-48).

        Raises:
            BrokerError: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
        """
        refused = self._principal == ANONYMOUS if self.sasl is None else self.sasl.by_token
        if refused:
            raise BrokerError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)

    @property
    def failure(self) -> str | None:
        """Why the connection has to be closed, once what there was to say is sent; None: it has not."""
        return self.sasl.failure if self.sasl is not None else None

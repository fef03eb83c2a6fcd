"""What the broker's user says about security that Kafka's options cannot hold: secrets and callables."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from aiokproto.broker.security.oauthbearer import TokenValidator
from aiokproto.errors import ConfigurationError

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True)
class Security:
    """How clients connect, and the secrets by which they prove who they are.

    All else is Kafka's own options, in ``config``: ``sasl.enabled.mechanisms``, ``connections.max.reauth.ms``,
    ``ssl.keystore.location`` (PEM: private key and certificates), ``ssl.truststore.location``, ``ssl.client.auth``,
    ``authorizer.class.name``, ``super.users``, ``allow.everyone.if.no.acl.found``, ``delegation.token.*``.

    Attributes:
        protocol: ``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``; all nodes listen so.
        users: Passwords by user, for PLAIN and SCRAM; more SCRAM users can be made by AlterUserScramCredentials.
        ssl_context: For ``SSL`` and ``SASL_SSL``, a server's context instead of the ``ssl.*`` options.
        token_validator: Reads the tokens of OAUTHBEARER, and raises ValueError for one it does not believe; None: as
            Kafka does if it is told nothing, unsecured JSON web tokens are believed.
    """

    protocol: SecurityProtocol = "PLAINTEXT"
    users: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    ssl_context: ssl.SSLContext | None = None
    token_validator: TokenValidator | None = None

    def __post_init__(self) -> None:
        """Check the protocol. Raises :class:`~aiokproto.errors.ConfigurationError`."""
        if self.protocol not in _PROTOCOLS:
            raise ConfigurationError(f"security.protocol: {self.protocol!r} is none of {', '.join(_PROTOCOLS)}")

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def sasl(self) -> bool:
        """Whether clients authenticate by SASL."""
        return self.protocol.startswith("SASL")

"""The security arguments of a ``Cluster`` that Kafka's options cannot express: secrets and callables."""

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
    """The security protocol, and the secrets of users.

    Everything else is in ``config``, by Kafka's own option names: ``sasl.enabled.mechanisms``,
    ``connections.max.reauth.ms``, ``ssl.keystore.location`` (private key and certificates: PEM, PKCS#12, JKS or JCEKS),
    ``ssl.truststore.location``, their passwords, ``ssl.client.auth``, ``authorizer.class.name``, ``super.users``,
    ``allow.everyone.if.no.acl.found``, ``delegation.token.*``.

    Attributes:
        protocol: ``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``; for all nodes.
        users: Passwords by user, for PLAIN and SCRAM. AlterUserScramCredentials can add SCRAM users.
        ssl_context: A server-side context for ``SSL`` and ``SASL_SSL``, instead of the ``ssl.*`` options.
        token_validator: Validates OAUTHBEARER tokens; raises ValueError for an invalid one. None validates JSON Web
            Tokens as Kafka does: by the keys of ``sasl.oauthbearer.jwks.endpoint.url`` and the other options
            ``sasl.oauthbearer.*``; without these it accepts unsecured tokens.
        aws_access_keys: Secret access keys by access key id, for AWS_MSK_IAM, which ``sasl.enabled.mechanisms`` must
            name. The principal is the access key id.
    """

    protocol: SecurityProtocol = "PLAINTEXT"
    users: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    ssl_context: ssl.SSLContext | None = None
    token_validator: TokenValidator | None = None
    aws_access_keys: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

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

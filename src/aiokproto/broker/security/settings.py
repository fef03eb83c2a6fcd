"""The security arguments of a ``Cluster`` that Kafka's options cannot express: secrets and callables."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from aiokproto.broker.security.oauthbearer import TokenValidator
from aiokproto.errors import ConfigurationError

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_AUTHORIZER = "authorizer.class.name"
_OF_AUTHORIZER = ("allow.everyone.if.no.acl.found", "super.users")


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
        ssl_crlfile: A PEM file with revocation lists (CRL): clients whose certificate is in them are rejected. There
            must be a list of the authority that signed it. A new file is read for the next connection. Needs
            ``ssl.client.auth``.
        ssl_crl_check_chain: Whether the certificates of authorities in between must not be in it either.
        token_validator: Validates OAUTHBEARER tokens; raises ValueError for an invalid one. None validates JSON Web
            Tokens as Kafka does: by the keys of ``sasl.oauthbearer.jwks.endpoint.url`` and the other options
            ``sasl.oauthbearer.*``; without these it accepts unsecured tokens.
        aws_access_keys: Secret access keys by access key id, for AWS_MSK_IAM, which ``sasl.enabled.mechanisms`` must
            name. The principal is the access key id.
    """

    protocol: SecurityProtocol = "PLAINTEXT"
    users: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    ssl_context: ssl.SSLContext | None = None
    ssl_crlfile: str | Path | None = None
    ssl_crl_check_chain: bool = False
    token_validator: TokenValidator | None = None
    aws_access_keys: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def __post_init__(self) -> None:
        """Check that the protocol exists, and has what the other arguments are about.

        Raises:
            ConfigurationError: It has not.
        """
        if self.protocol not in PROTOCOLS:
            raise ConfigurationError(f"security.protocol: {self.protocol!r} is none of {', '.join(PROTOCOLS)}")
        of_sasl = {
            "users": self.users,
            "token_validator": self.token_validator,
            "aws_access_keys": self.aws_access_keys,
        }
        for name, value in of_sasl.items():
            if value and not self.sasl:
                raise self._without_effect(name, "SASL_SSL", "SASL_PLAINTEXT")
        if self.ssl_context is not None and not self.tls:
            raise self._without_effect("ssl_context", "SASL_SSL" if self.sasl else "SSL")
        if self.ssl_crlfile is not None and not self.tls:
            raise self._without_effect("ssl_crlfile", "SASL_SSL" if self.sasl else "SSL")
        if self.ssl_crlfile is not None and self.ssl_context is not None:
            raise ConfigurationError("ssl_crlfile has no effect: ssl_context is given; set it there")
        if self.ssl_crl_check_chain and self.ssl_crlfile is None:
            raise ConfigurationError("ssl_crl_check_chain has no effect without ssl_crlfile")

    def check_config(self, names: Iterable[str]) -> None:
        """Check that options which were given have an effect: else a broker is open that was meant to be secured.

        Args:
            names: The options, by Kafka's names.

        Raises:
            ConfigurationError: One has none.
        """
        given = sorted(names)
        for name in given:
            if name.startswith("ssl."):
                if not self.tls:
                    raise self._without_effect(name, "SASL_SSL" if self.sasl else "SSL")
                if self.ssl_context is not None:
                    raise ConfigurationError(f"{name} has no effect: ssl_context is given; set it there")
            elif (name.startswith("sasl.") or name == "connections.max.reauth.ms") and not self.sasl:
                raise self._without_effect(name, "SASL_SSL", "SASL_PLAINTEXT")
            elif name in _OF_AUTHORIZER and _AUTHORIZER not in given:
                raise ConfigurationError(f"{name} has no effect without {_AUTHORIZER}")

    def _without_effect(self, name: str, *protocols: str) -> ConfigurationError:
        return ConfigurationError(
            f"{name} has no effect: the security protocol is {self.protocol}, not {' or '.join(protocols)}"
        )

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def sasl(self) -> bool:
        """Whether clients authenticate by SASL."""
        return self.protocol.startswith("SASL")

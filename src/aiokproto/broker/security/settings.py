"""The security arguments of a ``Cluster`` that Kafka's options can't express: secrets and callables."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from aiokproto.broker.security.oauthbearer import TokenValidator
from aiokproto.errors import ConfigurationError
from aiokproto.texts import is_unicode

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True)
class Security:
    """The security protocol, and the secrets of users.

    Without ``sasl.enabled.mechanisms``, the given secrets determine the mechanisms: ``users`` enables PLAIN and SCRAM,
    ``token_validator`` or ``sasl.oauthbearer.jwks.endpoint.url`` enables OAUTHBEARER, ``aws_access_keys`` enables
    AWS_MSK_IAM.

    Everything else is set in ``config``, using Kafka's own option names: ``sasl.enabled.mechanisms``,
    ``connections.max.reauth.ms``, ``ssl.keystore.location`` (private key and certificates: PEM, PKCS#12, JKS or JCEKS),
    ``ssl.truststore.location``, their passwords, ``ssl.client.auth``, ``authorizer.class.name``, ``super.users``,
    ``allow.everyone.if.no.acl.found``, ``delegation.token.*``.

    Attributes:
        protocol: ``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``, for all nodes.
        users: Passwords by user, for PLAIN and SCRAM. AlterUserScramCredentials can add SCRAM users, but can't change
            these users.
        ssl_context: A server-side context for ``SSL`` and ``SASL_SSL``, instead of the ``ssl.*`` options.
        ssl_crlfile: A PEM file with certificate revocation lists (CRLs). Clients with revoked certificates are
            rejected. There must be a list from each authority that has signed client certificates. When the file
            changes, it's read again for the next connection. Requires ``ssl.client.auth``.
        ssl_crl_check_chain: Whether to check the certificates of intermediate authorities for revocation, too.
        token_validator: Validates OAUTHBEARER tokens. Must raise ValueError for an invalid token. Any other exception,
            or a result that isn't a ``Token``, closes the connection and is logged without its message. To validate
            JSON Web Tokens as Kafka does, use the ``sasl.oauthbearer.*`` options instead, with the keys from
            ``sasl.oauthbearer.jwks.endpoint.url``.
        aws_access_keys: Secret access keys by access key id, for AWS_MSK_IAM. The principal is the access key id.
        unsecured_tokens: Whether OAUTHBEARER accepts unsigned tokens, which let anyone log in as anyone.
            ``sasl.enabled.mechanisms`` must list OAUTHBEARER. For tests only. Default False.
        sasl_oauth_allow_http: Whether the keys of ``sasl.oauthbearer.jwks.endpoint.url`` may be loaded with ``http``
            from another machine. Anyone who can tamper with the keys in transit can log in as any user. Default False.
    """

    protocol: SecurityProtocol = "PLAINTEXT"
    users: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    ssl_context: ssl.SSLContext | None = None
    ssl_crlfile: str | Path | None = None
    ssl_crl_check_chain: bool = False
    token_validator: TokenValidator | None = None
    aws_access_keys: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    unsecured_tokens: bool = False
    sasl_oauth_allow_http: bool = False

    def __post_init__(self) -> None:
        """Check that the protocol exists, that it fits the other arguments, and that secrets aren't empty.

        Raises:
            ConfigurationError: An argument is invalid or has no effect.
        """
        if self.protocol not in PROTOCOLS:
            raise ConfigurationError(f"security.protocol: {self.protocol!r} is none of {', '.join(PROTOCOLS)}")
        of_sasl = {
            "users": self.users,
            "token_validator": self.token_validator is not None,
            "aws_access_keys": self.aws_access_keys,
            "unsecured_tokens": self.unsecured_tokens,
            "sasl_oauth_allow_http": self.sasl_oauth_allow_http,
        }
        self._check_values()
        for name, is_given in of_sasl.items():
            if is_given and not self.sasl:
                raise self._without_effect(name, "SASL_SSL", "SASL_PLAINTEXT")
        if self.ssl_context is not None and not self.tls:
            raise self._without_effect("ssl_context", "SASL_SSL" if self.sasl else "SSL")
        if self.ssl_crlfile is not None and not self.tls:
            raise self._without_effect("ssl_crlfile", "SASL_SSL" if self.sasl else "SSL")
        if self.ssl_crlfile is not None and self.ssl_context is not None:
            raise ConfigurationError("ssl_crlfile has no effect: ssl_context is given; set it there")
        if self.ssl_crl_check_chain and self.ssl_crlfile is None:
            raise ConfigurationError("ssl_crl_check_chain has no effect without ssl_crlfile")

    def _check_values(self) -> None:
        _check_secrets("users", self.users, "a user has no name", "password")
        _check_secrets("aws_access_keys", self.aws_access_keys, "a key has no id", "secret")
        if self.token_validator is not None and not callable(self.token_validator):
            raise ConfigurationError(f"token_validator={self.token_validator!r}: expected a function, or None")
        if self.ssl_context is not None and not isinstance(self.ssl_context, ssl.SSLContext):
            raise ConfigurationError(f"ssl_context={self.ssl_context!r}: expected an ssl.SSLContext, or None")
        # The text "false", from a file or the environment, would be true.
        for name in ("ssl_crl_check_chain", "unsecured_tokens", "sasl_oauth_allow_http"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigurationError(f"{name}={getattr(self, name)!r}: expected True or False")

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
        """Whether clients authenticate with SASL."""
        return self.protocol.startswith("SASL")


def _check_secrets(argument: str, secrets: Mapping[str, str], nameless: str, what: str) -> None:
    """Check that every name has a secret, so a missing environment variable doesn't let everyone in."""
    if not isinstance(secrets, Mapping):
        raise ConfigurationError(f"{argument}: expected a {what} for each name, in a mapping")
    for name, secret in secrets.items():
        if not name:
            raise ConfigurationError(f"{argument}: {nameless}")
        if not isinstance(secret, str):
            raise ConfigurationError(f"{argument}: the {what} of {name!r} is no text")
        if not secret:
            raise ConfigurationError(f"{argument}: the {what} of {name!r} is empty")
        if not _can_be_sent(name):
            raise ConfigurationError(f"{argument}: no login can carry {name!r}")
        if not _can_be_sent(secret):
            raise ConfigurationError(f"{argument}: no login can carry the {what} of {name!r}")


def _can_be_sent(text: str) -> bool:
    # PLAIN separates its parts with NUL.
    return is_unicode(text) and "\0" not in text

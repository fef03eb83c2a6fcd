"""The SASL mechanisms of a listener: the ones listed explicitly, or else the ones whose secrets were given.

``sasl.enabled.mechanisms`` lists them. Without this option, they follow from the secrets: ``users`` enables PLAIN and
SCRAM, ``token_validator`` or ``sasl.oauthbearer.jwks.endpoint.url`` enables OAUTHBEARER, ``aws_access_keys`` enables
AWS_MSK_IAM. It's an error to list a mechanism without the secrets that it needs, or to give a secret that no listed
mechanism uses: either way, the listener wouldn't be the one that was intended. Only SCRAM doesn't need secrets, since
AlterUserScramCredentials can add users.

Unsecured tokens let anyone log in as anyone. So ``unsecured_tokens`` alone doesn't enable OAUTHBEARER: it must be
listed too.
"""

from __future__ import annotations

import ssl
from typing import NamedTuple

from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.security.settings import Security
from aiokproto.errors import ConfigurationError

NAMED = "sasl.enabled.mechanisms"
CLIENT_AUTH = "ssl.client.auth"
JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")

_USES = {
    "PLAIN": ("users",),
    **dict.fromkeys(SCRAM, ("users",)),
    "OAUTHBEARER": ("token_validator", JWKS_URL, "unsecured_tokens"),
    "AWS_MSK_IAM": ("aws_access_keys",),
}
"""The secrets with which each mechanism can verify logins. It needs at least one of them."""

_ASKS = {
    "PLAIN": "users",
    "OAUTHBEARER": f"{JWKS_URL} or token_validator, which verify tokens; or unsecured_tokens, with which anyone logs in"
    " as anyone",
    "AWS_MSK_IAM": "aws_access_keys",
}
"""What a mechanism needs, as described in errors."""


_CLIENT_AUTH_OF = {ssl.CERT_NONE: "none", ssl.CERT_OPTIONAL: "requested", ssl.CERT_REQUIRED: "required"}


class SecurityConfig(NamedTuple):
    """The security arguments of a ``Cluster``, and its options."""

    security: Security
    options: BrokerOptions

    @property
    def secrets(self) -> list[str]:
        """The names of the given arguments and options that are for verifying logins."""
        security = self.security
        given = {
            "users": bool(security.users),
            # A validator can be any object, even one that is falsy.
            "token_validator": security.token_validator is not None,
            "unsecured_tokens": security.unsecured_tokens,
            "aws_access_keys": bool(security.aws_access_keys),
            JWKS_URL: bool(self.options.value(JWKS_URL)),
        }
        return [name for name, is_given in given.items() if is_given]

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The enabled mechanisms. Empty without SASL."""
        if not self.security.sasl:
            return ()
        if NAMED in self.options.static:
            return tuple(name for name in str(self.options.value(NAMED)).split(",") if name)
        follow = set(self.secrets) - {"unsecured_tokens"}
        return tuple(name for name, uses in _USES.items() if follow.intersection(uses))

    @property
    def following(self) -> dict[str, str]:
        """The effective values of options that weren't given but follow from the arguments."""
        found = {}
        if self.security.sasl and NAMED not in self.options.static:
            found[NAMED] = ",".join(self.mechanisms)
        if self.security.ssl_context is not None:
            found[CLIENT_AUTH] = _CLIENT_AUTH_OF[self.security.ssl_context.verify_mode]
        return found


def check_mechanisms(config: SecurityConfig) -> None:
    """Check that a SASL listener has mechanisms, each mechanism has the secrets it needs, and each secret is used by a
    mechanism.

    Raises:
        ConfigurationError: Something is missing.
    """
    if not config.security.sasl:
        return
    secrets, mechanisms = config.secrets, config.mechanisms
    for name in mechanisms:
        if name in _ASKS and not set(secrets).intersection(_USES[name]):
            raise ConfigurationError(f"{NAMED}: {name} needs {_ASKS[name]}")
    for secret in secrets:
        users = [name for name, uses in _USES.items() if secret in uses]
        if not set(users).intersection(mechanisms):
            raise ConfigurationError(f"{secret} has no effect: {NAMED} does not name {' or '.join(users)}")
    if not mechanisms:
        raise ConfigurationError(
            f"{config.security.protocol} needs a mechanism to log in with: users for PLAIN and SCRAM; {JWKS_URL} or"
            f" token_validator for OAUTHBEARER; aws_access_keys for AWS_MSK_IAM; or {NAMED}"
        )
    of_tokens = [secret for secret in secrets if secret in _USES["OAUTHBEARER"]]
    if len(of_tokens) > 1:
        raise ConfigurationError(f"{' and '.join(of_tokens)} are given: expected one of them, as each verifies tokens")

"""Which SASL mechanisms a listener has: those that were named, or whose secrets were given, and no others.

``sasl.enabled.mechanisms`` names them. Without it they follow from the secrets: ``users`` are for PLAIN and SCRAM,
``token_validator`` and ``sasl.oauthbearer.jwks.endpoint.url`` for OAUTHBEARER, ``aws_access_keys`` for AWS_MSK_IAM.
It's an error to name a mechanism without what it needs, or to give a secret that no named mechanism uses, because
either makes a listener other than the one that was meant. Only SCRAM needs nothing, since AlterUserScramCredentials can
give it users.

Unsecured tokens let anyone log in as anyone. So no mechanism follows from the consent to them: it must be named too.
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
"""What each mechanism can verify logins with: it needs one of these."""

_ASKS = {
    "PLAIN": "users",
    "OAUTHBEARER": f"{JWKS_URL} or token_validator, which verify tokens; or unsecured_tokens, with which anyone logs in"
    " as anyone",
    "AWS_MSK_IAM": "aws_access_keys",
}
"""What a mechanism can't do without."""


_CLIENT_AUTH_OF = {ssl.CERT_NONE: "none", ssl.CERT_OPTIONAL: "requested", ssl.CERT_REQUIRED: "required"}


class SecurityConfig(NamedTuple):
    """The security arguments of a ``Cluster``, and its options."""

    security: Security
    options: BrokerOptions

    @property
    def secrets(self) -> list[str]:
        """The names of the arguments and options that were given to verify logins."""
        security = self.security
        given = {
            "users": bool(security.users),
            # A validator may be an object, even one that is empty.
            "token_validator": security.token_validator is not None,
            "unsecured_tokens": security.unsecured_tokens,
            "aws_access_keys": bool(security.aws_access_keys),
            JWKS_URL: bool(self.options.value(JWKS_URL)),
        }
        return [name for name, is_given in given.items() if is_given]

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The enabled mechanisms; none without SASL."""
        if not self.security.sasl:
            return ()
        if NAMED in self.options.static:
            return tuple(name for name in str(self.options.value(NAMED)).split(",") if name)
        follow = set(self.secrets) - {"unsecured_tokens"}
        return tuple(name for name, uses in _USES.items() if follow.intersection(uses))

    @property
    def following(self) -> dict[str, str]:
        """The values of options that weren't given but follow from the arguments. These values are in force."""
        found = {}
        if self.security.sasl and NAMED not in self.options.static:
            found[NAMED] = ",".join(self.mechanisms)
        if self.security.ssl_context is not None:
            found[CLIENT_AUTH] = _CLIENT_AUTH_OF[self.security.ssl_context.verify_mode]
        return found


def check_mechanisms(config: SecurityConfig) -> None:
    """Check that a listener with SASL has mechanisms, each mechanism has what it needs, and each secret has a
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

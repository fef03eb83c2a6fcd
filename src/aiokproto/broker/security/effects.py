"""Rejects security options that would have no effect, so a broker that should be secure isn't open by mistake.

A rule lists prefixes of option names. For a matching option, it returns the reason if the option has no effect. All
matching rules are applied. An option's value is checked where it's used, not here.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from aiokproto.broker.security.acls import WILDCARD
from aiokproto.broker.security.mechanisms import JWKS_URL, SCRAM, SecurityConfig, check_mechanisms
from aiokproto.broker.security.principal import ANONYMOUS, parse_principal
from aiokproto.errors import ConfigurationError

_AUTHORIZER = "authorizer.class.name"
_SUPER_USERS = "super.users"
_CLIENT_AUTH = "ssl.client.auth"
_TOKEN_KEY = "delegation.token.secret.key"

Rule = Callable[[str, SecurityConfig], "str | None"]


def check_effects(config: SecurityConfig) -> None:
    """Check that all given options have an effect, and that they fit together.

    Raises:
        ConfigurationError: An option has no effect, a mechanism lacks what it needs, or no client can be a super user.
    """
    given = sorted(config.options.static)
    for name in given:
        for prefixes, rule in _RULES:
            why = rule(name, config) if name.startswith(prefixes) else None
            if why is not None:
                raise ConfigurationError(f"{name} has no effect{why}")
    if config.security.sasl_oauth_allow_http and not str(config.options.value(JWKS_URL)).startswith("http:"):
        raise ConfigurationError(f"sasl_oauth_allow_http has no effect: {JWKS_URL} has no key set by http")
    check_mechanisms(config)
    _check_super_users(config)


def _protocol(config: SecurityConfig, *protocols: str) -> str:
    return f": the security protocol is {config.security.protocol}, not {' or '.join(protocols)}"


def _needs_tls(name: str, config: SecurityConfig) -> str | None:
    security = config.security
    if not security.tls:
        return _protocol(config, "SASL_SSL" if security.sasl else "SSL")
    return ": ssl_context is given; set it there" if security.ssl_context is not None else None


def _needs_sasl(name: str, config: SecurityConfig) -> str | None:
    return None if config.security.sasl else _protocol(config, "SASL_SSL", "SASL_PLAINTEXT")


def _needs_client_certificates(name: str, config: SecurityConfig) -> str | None:
    if config.options.value(_CLIENT_AUTH) == "none":
        return f": clients send no certificates; set {_CLIENT_AUTH} to required or requested"
    return None


def _needs_keys(name: str, config: SecurityConfig) -> str | None:
    if name == JWKS_URL:
        # A key set without OAUTHBEARER, or in addition to a validator, is reported elsewhere, as a superfluous secret.
        return None
    return None if config.options.value(JWKS_URL) else f" without {JWKS_URL}"


def _needs_loading(name: str, config: SecurityConfig) -> str | None:
    local = str(config.options.value(JWKS_URL)).startswith("file:")
    return f": {JWKS_URL} is a file" if local else None


def _needs_no_expectation(name: str, config: SecurityConfig) -> str | None:
    expected = name.replace("allow.unverified", "expected")
    both = config.options.value(name) and config.options.value(expected)
    return f": {expected} is given" if both else None


def _needs_delegation(name: str, config: SecurityConfig) -> str | None:
    if name != _TOKEN_KEY and not config.options.value(_TOKEN_KEY):
        return f" without {_TOKEN_KEY}"
    if not set(SCRAM).intersection(config.mechanisms):
        return f": tokens log in with {' or '.join(SCRAM)}, and neither is enabled"
    return None


def _needs_authorizer(name: str, config: SecurityConfig) -> str | None:
    return None if config.options.value(_AUTHORIZER) else f" without {_AUTHORIZER}"


_RULES: tuple[tuple[tuple[str, ...], Rule], ...] = (
    (("ssl.",), _needs_tls),
    (("ssl.truststore.",), _needs_client_certificates),
    (("sasl.", "connections.max.reauth.ms", "delegation.token."), _needs_sasl),
    (("sasl.oauthbearer.",), _needs_keys),
    (("sasl.oauthbearer.jwks.endpoint.retry.",), _needs_loading),
    (("sasl.oauthbearer.allow.unverified.",), _needs_no_expectation),
    (("delegation.token.",), _needs_delegation),
    ((_SUPER_USERS, "allow.everyone.if.no.acl.found"), _needs_authorizer),
)


def super_users(config: SecurityConfig) -> list[str]:
    """Return the super users, as ``User:alice``."""
    return [user.strip() for user in str(config.options.value(_SUPER_USERS)).split(";") if user.strip()]


def _check_super_users(config: SecurityConfig) -> None:
    names = _client_names(config)
    for user in super_users(config):
        try:
            principal = parse_principal(user)
        except ValueError as error:
            raise ConfigurationError(f"{_SUPER_USERS}: {error}") from None
        _check_spelling(user, principal.name)
        if principal.kind != ANONYMOUS.kind:
            raise ConfigurationError(
                f"{_SUPER_USERS}: no client is {user!r}: the type of all principals is {ANONYMOUS.kind!r}"
            )
        if names is not None and principal.name not in names:
            raise ConfigurationError(f"{_SUPER_USERS}: no client can log in as {user!r}")


def _check_spelling(user: str, name: str) -> None:
    """Check for a valid name that is probably a mistake: any client that obtains this name would be a super user."""
    if name == WILDCARD:
        raise ConfigurationError(f"{_SUPER_USERS}: {user!r} is not everybody: name each of them")
    if re.search(rf",\s*{ANONYMOUS.kind}:", name):
        raise ConfigurationError(f"{_SUPER_USERS}: {user!r}: users are separated by semicolons")
    if name != name.strip():
        raise ConfigurationError(f"{_SUPER_USERS}: {user!r} has white space before the name")


def _client_names(config: SecurityConfig) -> set[str] | None:
    """Return the names that clients can have, or None if they aren't known."""
    security = config.security
    if not security.sasl:
        certificates = security.tls and (
            security.ssl_context is not None or config.options.value(_CLIENT_AUTH) != "none"
        )
        return None if certificates else {ANONYMOUS.name}
    if {*SCRAM, "OAUTHBEARER"}.intersection(config.mechanisms):
        return None
    return {*security.users, *security.aws_access_keys}

"""Security options that would have no effect are errors: a broker that was meant to be secured is not open by mistake.

A rule says for the options whose names begin with one of its prefixes why they have no effect, if that is so. All rules
of an option are asked. What is wrong with an option's value is checked where it is used.
"""

from __future__ import annotations

from collections.abc import Callable

from aiokproto.broker.security.mechanisms import SecurityConfig, check_mechanisms
from aiokproto.errors import ConfigurationError

_AUTHORIZER = "authorizer.class.name"
_SUPER_USERS = "super.users"

Rule = Callable[[str, SecurityConfig], "str | None"]


def check_effects(config: SecurityConfig) -> None:
    """Check that every option that was given has an effect, and that mechanisms have what they need.

    Raises:
        ConfigurationError: One has none, or has not.
    """
    for name in sorted(config.options.static):
        for prefixes, rule in _RULES:
            why = rule(name, config) if name.startswith(prefixes) else None
            if why is not None:
                raise ConfigurationError(f"{name} has no effect{why}")
    check_mechanisms(config)


def _protocol(config: SecurityConfig, *protocols: str) -> str:
    return f": the security protocol is {config.security.protocol}, not {' or '.join(protocols)}"


def _needs_tls(name: str, config: SecurityConfig) -> str | None:
    security = config.security
    if not security.tls:
        return _protocol(config, "SASL_SSL" if security.sasl else "SSL")
    return ": ssl_context is given; set it there" if security.ssl_context is not None else None


def _needs_sasl(name: str, config: SecurityConfig) -> str | None:
    return None if config.security.sasl else _protocol(config, "SASL_SSL", "SASL_PLAINTEXT")


def _needs_authorizer(name: str, config: SecurityConfig) -> str | None:
    return None if _AUTHORIZER in config.options.static else f" without {_AUTHORIZER}"


_RULES: tuple[tuple[tuple[str, ...], Rule], ...] = (
    (("ssl.",), _needs_tls),
    (("sasl.", "connections.max.reauth.ms"), _needs_sasl),
    ((_SUPER_USERS, "allow.everyone.if.no.acl.found"), _needs_authorizer),
)

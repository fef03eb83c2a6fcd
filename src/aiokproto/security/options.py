"""Converts SASL options to a mechanism."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from aiokproto.errors import ConfigurationError
from aiokproto.security.aws_msk_iam import AwsMskIam
from aiokproto.security.gssapi import Gssapi
from aiokproto.security.jaas import OPTION as JAAS
from aiokproto.security.jaas import parse_jaas
from aiokproto.security.login_modules import login_of
from aiokproto.security.mechanism import SaslMechanism
from aiokproto.security.oauth_options import OAUTH_OPTIONS, oauth_bearer
from aiokproto.security.plain import Plain
from aiokproto.security.scram import DIGESTS, Scram


class MechanismOptions(NamedTuple):
    """The options of a mechanism, and the function that creates it.

    Attributes:
        make: Creates the mechanism, with the given options as keyword arguments.
        required: Options that must be given.
        optional: Options that can be given.
    """

    make: Callable[..., SaslMechanism]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


def _plain(sasl_username: Any, sasl_password: Any) -> SaslMechanism:
    return Plain(sasl_username, sasl_password)


def _scram(name: str) -> Callable[..., SaslMechanism]:
    def make(sasl_username: Any, sasl_password: Any, tokenauth: bool = False) -> SaslMechanism:
        return Scram(name, sasl_username, sasl_password, delegation_token=tokenauth)

    return make


def _aws_msk_iam(sasl_aws_credentials: Any = None, sasl_aws_region: Any = None) -> SaslMechanism:
    return AwsMskIam(sasl_aws_credentials, sasl_aws_region)


def _gssapi(**options: Any) -> SaslMechanism:
    return Gssapi(**{name.removeprefix(_KERBEROS): value for name, value in options.items()})


_KERBEROS = "sasl_kerberos_"
_LOGIN = ("sasl_username", "sasl_password")

MECHANISMS = {
    "PLAIN": MechanismOptions(_plain, _LOGIN),
    **{name: MechanismOptions(_scram(name), _LOGIN) for name in DIGESTS},
    "OAUTHBEARER": MechanismOptions(oauth_bearer, optional=OAUTH_OPTIONS),
    "AWS_MSK_IAM": MechanismOptions(_aws_msk_iam, optional=("sasl_aws_credentials", "sasl_aws_region")),
    "GSSAPI": MechanismOptions(
        _gssapi,
        (),
        tuple(_KERBEROS + name for name in ("service_name", "domain_name", "principal", "keytab", "ccache")),
    ),
}
"""The mechanisms, by name."""

SASL_OPTIONS = frozenset(
    {JAAS, *(option for mechanism in MECHANISMS.values() for option in (*mechanism.required, *mechanism.optional))}
)
"""The options of all mechanisms, without ``sasl_mechanism`` itself."""


def parse_mechanism(options: Mapping[str, Any]) -> SaslMechanism:
    """Return the mechanism that the options describe.

    As in Kafka, options override the values in ``sasl_jaas_config``.

    Raises:
        ConfigurationError: An option is missing, invalid, or belongs to a different mechanism. The message doesn't
            contain secrets.
    """
    given = {name: options[name] for name in sorted(SASL_OPTIONS & options.keys()) if options[name] is not None}
    mechanism = options.get("sasl_mechanism")
    if mechanism is not None and not isinstance(mechanism, str):
        return _object(mechanism, given)
    name = None if mechanism is None else mechanism.upper()
    if name is not None and name not in MECHANISMS:
        raise ConfigurationError(f"sasl_mechanism={mechanism!r}: expected {' or '.join(map(repr, MECHANISMS))}")
    login: dict[str, Any] = {}
    if JAAS in given:
        name, login = login_of(parse_jaas(given.pop(JAAS)), name)
    if name is None:
        raise ConfigurationError(
            f"sasl_mechanism is missing: {' or '.join(map(repr, MECHANISMS))}, or an object of aiokproto.security"
        )
    make, required, optional = MECHANISMS[name]
    for option in given:
        if option not in required and option not in optional:
            raise ConfigurationError(f"{option} is no option of sasl_mechanism={name!r}")
    arguments = {**login, **given}
    missing = [option for option in required if option not in arguments]
    if missing:
        raise ConfigurationError(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing ({name})")
    return make(**arguments)


def _object(mechanism: Any, given: Mapping[str, Any]) -> SaslMechanism:
    # Also refuse a class: it has the attributes of its instances.
    if isinstance(mechanism, type) or not isinstance(mechanism, SaslMechanism):
        raise ConfigurationError(
            f"sasl_mechanism: {type(mechanism).__name__} is no SaslMechanism: it needs `name` and `exchange(host)`"
        )
    if given:
        raise ConfigurationError(f"{next(iter(given))} has no effect: sasl_mechanism is an object")
    return mechanism

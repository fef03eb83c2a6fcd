"""Java's login modules, and how their options in ``sasl.jaas.config`` map to this client's options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from aiokproto.errors import ConfigurationError
from aiokproto.security.aws import BotocoreCredentials
from aiokproto.security.jaas import OPTION, JaasEntry, check_options
from aiokproto.security.scram import DIGESTS
from aiokproto.security.unsecured import UnsecuredToken


class LoginModule(NamedTuple):
    """A login module.

    Attributes:
        mechanisms: The mechanisms that it can be used for.
        options: Converts an entry to the arguments of the mechanism's function in :mod:`aiokproto.security.options`.
    """

    mechanisms: tuple[str, ...]
    options: Callable[[JaasEntry], dict[str, Any]]


def _login(entry: JaasEntry, *more: str) -> dict[str, Any]:
    check_options(entry, ("username", "password", *more))
    for name in ("username", "password"):
        if not entry.options.get(name):
            raise ConfigurationError(f"{OPTION}: {name} is missing ({entry.module})")
    return {"sasl_username": entry.options["username"], "sasl_password": entry.options["password"]}


def _scram(entry: JaasEntry) -> dict[str, Any]:
    return {**_login(entry, "tokenauth"), "tokenauth": entry.options.get("tokenauth", "").lower() == "true"}


_OAUTH = {
    "clientId": "sasl_oauthbearer_client_credentials_client_id",
    "clientSecret": "sasl_oauthbearer_client_credentials_client_secret",
    "scope": "sasl_oauthbearer_scope",
}
_UNSECURED = "unsecuredLogin"


def _oauth_bearer(entry: JaasEntry) -> dict[str, Any]:
    if any(name.startswith("ssl.") for name in entry.options):
        raise ConfigurationError(f"{OPTION}: use sasl_oauth_ssl_context for the TLS of the token endpoint")
    check_options(entry, tuple(_OAUTH), ("extension_", _UNSECURED))
    options: dict[str, Any] = {_OAUTH[name]: value for name, value in entry.options.items() if name in _OAUTH}
    extensions = _with_prefix(entry, "extension_") | _with_prefix(entry, f"{_UNSECURED}Extension_")
    if extensions:
        options["sasl_oauthbearer_extensions"] = extensions
    if any(name.startswith(_UNSECURED) for name in entry.options):
        options["sasl_oauth_token"] = _unsecured(entry)
    return options


def _unsecured(entry: JaasEntry) -> UnsecuredToken:
    check_options(
        entry,
        tuple(f"{_UNSECURED}{name}" for name in ("PrincipalClaimName", "LifetimeSeconds", "ScopeClaimName")),
        tuple(f"{_UNSECURED}{kind}_" for kind in ("StringClaim", "NumberClaim", "ListClaim", "Extension")),
    )
    claims: dict[str, Any] = dict(_with_prefix(entry, f"{_UNSECURED}StringClaim_"))
    try:
        claims |= {name: float(text) for name, text in _with_prefix(entry, f"{_UNSECURED}NumberClaim_").items()}
        lifetime = float(entry.options.get(f"{_UNSECURED}LifetimeSeconds", "3600"))
    except ValueError:
        raise ConfigurationError(f"{OPTION}: a value of {_UNSECURED}… is not a number") from None
    # The first character of the value is the separator.
    lists = _with_prefix(entry, f"{_UNSECURED}ListClaim_")
    claims |= {name: text[1:].split(text[0]) for name, text in lists.items() if text}
    principal_claim = entry.options.get(f"{_UNSECURED}PrincipalClaimName", "sub")
    principal = claims.pop(principal_claim, None)
    if not isinstance(principal, str):
        raise ConfigurationError(f"{OPTION}: {_UNSECURED}StringClaim_sub is missing (or that of the principal's claim)")
    return UnsecuredToken(principal, principal_claim=principal_claim, lifetime=lifetime, claims=claims)


def _with_prefix(entry: JaasEntry, prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in entry.options.items() if name.startswith(prefix)}


_IAM = {
    "awsProfileName": "profile",
    "awsRoleArn": "role_arn",
    "awsRoleSessionName": "role_session_name",
    "awsRoleExternalId": "external_id",
    "awsStsRegion": "sts_region",
}


def _iam(entry: JaasEntry) -> dict[str, Any]:
    # Java uses these for debugging and retries. This client retries by reconnecting.
    ignored = ("awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs")
    check_options(entry, (*_IAM, *ignored))
    arguments: dict[str, Any] = {_IAM[name]: value for name, value in entry.options.items() if name in _IAM}
    return {"sasl_aws_credentials": BotocoreCredentials(**arguments)} if arguments else {}


_KERBEROS = {
    "serviceName": "sasl_kerberos_service_name",
    "principal": "sasl_kerberos_principal",
    "keyTab": "sasl_kerberos_keytab",
    "ticketCache": "sasl_kerberos_ccache",
}


def _kerberos(entry: JaasEntry) -> dict[str, Any]:
    # Java uses these to keep and renew tickets. Here, libkrb5 does that.
    ignored = ("storeKey", "doNotPrompt", "renewTGT", "refreshKrb5Config", "isInitiator", "debug")
    check_options(entry, (*_KERBEROS, "useKeyTab", "useTicketCache", *ignored))
    options: dict[str, Any] = {_KERBEROS[name]: value for name, value in entry.options.items() if name in _KERBEROS}
    # Java ignores the file unless these switches are set.
    for switch, name in (("useKeyTab", "keyTab"), ("useTicketCache", "ticketCache")):
        if entry.options.get(switch, "").lower() != "true":
            options.pop(_KERBEROS[name], None)
    if entry.options.get("useKeyTab", "").lower() == "true" and "keyTab" not in entry.options:
        raise ConfigurationError(f"{OPTION}: keyTab is missing ({entry.module} with useKeyTab)")
    return options


LOGIN_MODULES = {
    "PlainLoginModule": LoginModule(("PLAIN",), _login),
    "ScramLoginModule": LoginModule(tuple(DIGESTS), _scram),
    "OAuthBearerLoginModule": LoginModule(("OAUTHBEARER",), _oauth_bearer),
    "IAMLoginModule": LoginModule(("AWS_MSK_IAM",), _iam),
    "Krb5LoginModule": LoginModule(("GSSAPI",), _kerberos),
}
"""The login modules, by name without the package."""


def login_of(entry: JaasEntry, mechanism: str | None) -> tuple[str, dict[str, Any]]:
    """Return the name of the mechanism, and the arguments of its function.

    Args:
        entry: The login module.
        mechanism: The option ``sasl_mechanism``; None if it isn't given.

    Raises:
        ConfigurationError: The module is unknown, belongs to a different mechanism, or doesn't have these options.
    """
    module = LOGIN_MODULES.get(entry.module)
    if module is None:
        # Leave the name out of the error: if a quote is missing, it can be any text.
        raise ConfigurationError(f"{OPTION}: expected the login module {' or '.join(LOGIN_MODULES)}")
    if mechanism is None and len(module.mechanisms) == 1:
        mechanism = module.mechanisms[0]
    if mechanism is None or mechanism not in module.mechanisms:
        needed = " or ".join(map(repr, module.mechanisms))
        raise ConfigurationError(f"sasl_mechanism={mechanism!r}: {entry.module} of {OPTION} needs {needed}")
    return mechanism, module.options(entry)

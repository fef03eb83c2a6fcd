"""Converts the options of OAUTHBEARER, which have Kafka's names, to a mechanism."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from aiokproto.errors import ConfigurationError
from aiokproto.security.assertion import Assertion
from aiokproto.security.client_credentials import ClientCredentials, JwtBearer
from aiokproto.security.mechanism import SaslMechanism
from aiokproto.security.oauth_bearer import OAuthBearer
from aiokproto.security.secret import SecretSource
from aiokproto.security.token import TokenSource
from aiokproto.security.token_cache import RefreshWindow
from aiokproto.security.token_endpoint import TokenEndpoint

_OAUTH = "sasl_oauthbearer"
_URL = f"{_OAUTH}_token_endpoint_url"
_ASSERTION = f"{_OAUTH}_assertion"
_CLIENT = f"{_OAUTH}_client_credentials_client"
_RETRIEVER = f"{_OAUTH}_jwt_retriever_class"
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."

_CONTENT = re.compile(r"[\r\n]|^-----BEGIN|^eyJ[\w-]+\.")
"""Matches a key in PEM, or a JSON Web Token."""

_DEFAULT, _CREDENTIALS, _BEARER, _FILE = (
    "DefaultJwtRetriever",
    "ClientCredentialsJwtRetriever",
    "JwtBearerJwtRetriever",
    "FileJwtRetriever",
)


def _number(low: float, high: float) -> Callable[[str, Any], Any]:
    def check(name: str, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise ConfigurationError(f"{name}={value!r}: expected a number of at least {low:g} and at most {high:g}")
        return value

    return check


def _milliseconds(name: str, value: Any) -> float:
    return float(_number(1, 1e9)(name, value) / 1000)


def _of(kind: type, what: str) -> Callable[[str, Any], Any]:
    def check(name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            raise ConfigurationError(f"{name}={value!r}: expected {what}")
        return value

    return check


_text = _of(str, "text")
_boolean = _of(bool, "True or False")


def _path(name: str, value: Any) -> Path:
    # Leave the value out: it may be the content of the file.
    if not value or not isinstance(value, str | Path) or _CONTENT.search(str(value)):
        raise ConfigurationError(f"{name}: expected the path of a file")
    return Path(value)


def _url(name: str, value: Any) -> str:
    # Leave the value out: its query may contain a secret.
    if not isinstance(value, str):
        raise ConfigurationError(f"{name}: expected text")
    return value


def _secret(name: str, value: Any) -> Any:
    # Accept any value: Secret checks it later, without showing it.
    return value


_WINDOW = {
    "sasl_login_refresh_window_factor": ("factor", _number(0.5, 1)),
    "sasl_login_refresh_window_jitter": ("jitter", _number(0, 0.25)),
    "sasl_login_refresh_min_period_seconds": ("min_period", _number(0, 900)),
    "sasl_login_refresh_buffer_seconds": ("buffer", _number(0, 3600)),
}

_ENDPOINT = {
    "sasl_oauth_ssl_context": ("ssl_context", _of(ssl.SSLContext, "an ssl.SSLContext")),
    "sasl_oauth_allow_http": ("allow_http", _boolean),
    "sasl_login_connect_timeout_ms": ("connect_timeout", _milliseconds),
    "sasl_login_read_timeout_ms": ("read_timeout", _milliseconds),
    "sasl_login_retry_backoff_ms": ("retry_backoff", _milliseconds),
    "sasl_login_retry_backoff_max_ms": ("retry_backoff_max", _milliseconds),
}

_SIGNING = {
    f"{_ASSERTION}_private_key_file": ("key", _path),
    f"{_ASSERTION}_private_key_passphrase": ("passphrase", _secret),
    f"{_ASSERTION}_algorithm": ("algorithm", _text),
    f"{_ASSERTION}_claim_aud": ("audience", _text),
    f"{_ASSERTION}_claim_iss": ("issuer", _text),
    f"{_ASSERTION}_claim_sub": ("subject", _text),
    f"{_ASSERTION}_claim_exp_seconds": ("lifetime", _number(0, 86400)),
    f"{_ASSERTION}_claim_nbf_seconds": ("not_before", _number(0, 3600)),
    f"{_ASSERTION}_claim_jti_include": ("jti", _boolean),
    f"{_ASSERTION}_template_file": ("template", _path),
}

OAUTH_OPTIONS = (
    "sasl_oauth_token",
    f"{_OAUTH}_extensions",
    _URL,
    _RETRIEVER,
    f"{_OAUTH}_scope",
    f"{_OAUTH}_header_urlencode",
    f"{_CLIENT}_id",
    f"{_CLIENT}_secret",
    f"{_ASSERTION}_file",
    *_SIGNING,
    *_ENDPOINT,
    *_WINDOW,
)
"""All options of OAUTHBEARER."""


class _Options:
    """The given options that haven't been used yet."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = dict(given)

    def take(self, name: str, check: Callable[[str, Any], Any]) -> Any:
        value = self._given.pop(name, None)
        return None if value is None else check(name, value)

    def take_all(self, table: Mapping[str, tuple[str, Callable[[str, Any], Any]]]) -> dict[str, Any]:
        """Return arguments for those options in a table that were given."""
        return {
            argument: check(name, self._given.pop(name))
            for name, (argument, check) in table.items()
            if name in self._given
        }

    def any_of(self, *names: str) -> str | None:
        return next((name for name in names if name in self._given), None)

    def check_used(self, why: str) -> None:
        if self._given:
            raise ConfigurationError(f"{next(iter(self._given))} has no effect: {why}")


def oauth_bearer(**given: Any) -> SaslMechanism:
    """Return the mechanism that the options of OAUTHBEARER describe.

    Raises:
        ConfigurationError: An option is missing, invalid, or has no effect.
    """
    options = _Options(given)
    extensions = options.take(f"{_OAUTH}_extensions", _of(Mapping, "a mapping of names to values"))
    window = RefreshWindow(**options.take_all(_WINDOW))
    token = options.take("sasl_oauth_token", _secret)
    if token is not None:
        options.check_used("sasl_oauth_token is given")
    else:
        token = _source(options)
    return OAuthBearer(token, extensions=extensions, refresh=window)


def _source(options: _Options) -> TokenSource:
    """Return the named retriever, or the one that Kafka's DefaultJwtRetriever would choose."""
    url = options.take(_URL, _url)
    if url is None:
        raise ConfigurationError(
            f"OAUTHBEARER needs sasl_oauth_token (a function, or a pathlib.Path of a file) or {_URL}"
        )
    name = (options.take(_RETRIEVER, _text) or _DEFAULT).removeprefix(_PACKAGE)
    if name not in (_DEFAULT, _CREDENTIALS, _BEARER, _FILE):
        raise ConfigurationError(
            f"{_RETRIEVER}={name!r}: expected {_CREDENTIALS}, {_BEARER}, {_FILE} or {_DEFAULT}; for one of your own"
            " use sasl_oauth_token"
        )
    if url.lower().startswith("file:") or name == _FILE:
        options.check_used(f"{_URL} is a file" if name in (_DEFAULT, _FILE) else f"{name} needs an https URL")
        return _file(url)
    endpoint = TokenEndpoint(url, **options.take_all(_ENDPOINT))
    scope = options.take(f"{_OAUTH}_scope", _text)
    assertion = _assertion(options)
    if name == _BEARER:
        if assertion is None:
            raise ConfigurationError(f"{_BEARER} needs {_ASSERTION}_file or {_ASSERTION}_private_key_file")
        options.check_used(f"{_RETRIEVER} is {_BEARER}")
        return JwtBearer(endpoint, assertion, scope=scope)
    client_id = options.take(f"{_CLIENT}_id", _secret)
    secret = options.take(f"{_CLIENT}_secret", _secret)
    if assertion is None and (client_id is None or secret is None):
        raise ConfigurationError(
            f"{_CLIENT}_{'id' if client_id is None else 'secret'} is missing (or an assertion: {_ASSERTION}_file,"
            f" {_ASSERTION}_private_key_file)"
        )
    urlencode = bool(options.take(f"{_OAUTH}_header_urlencode", _boolean))
    return ClientCredentials(endpoint, client_id, secret, assertion=assertion, scope=scope, header_urlencode=urlencode)


def _assertion(options: _Options) -> SecretSource | None:
    file: Path | None = options.take(f"{_ASSERTION}_file", _path)
    signing = options.any_of(*_SIGNING)
    if file is not None and signing:
        raise ConfigurationError(f"{signing} has no effect: {_ASSERTION}_file is given")
    if file is not None or signing is None:
        return file
    if not options.any_of(f"{_ASSERTION}_private_key_file"):
        raise ConfigurationError(f"{_ASSERTION}_private_key_file is missing: {signing} is given")
    return Assertion(**options.take_all(_SIGNING))


def _file(url: str) -> Path:
    parts = urlsplit(url)
    if parts.scheme.lower() != "file" or parts.netloc not in ("", "localhost") or not parts.path:
        raise ConfigurationError(f"{_URL}: expected the URL of a file, 'file:///path'")
    return Path(unquote(parts.path))

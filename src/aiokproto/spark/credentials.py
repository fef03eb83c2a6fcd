"""Credentials: how secrets get from options, which are text, to the clients in tasks, without being seen on the way.

Many people can see an option: anyone who reads the job's code, or the plans that Spark sends to executors. So an option
can refer to a secret instead of containing it, in the notation of Kafka's configuration providers: ``${env:NAME}``,
``${file:/path}``, ``${file:/path:key}``, ``${directory:/path:name}``. Readers and writers are pickled with the
reference. It is resolved where a client is created (:func:`client_options`): in tasks and, to request offsets, in the
driver's Python process. Passwords are resolved for each authentication, so they can be replaced while a job runs.

A secret that is written in the option itself becomes :class:`Hidden` text, so no ``repr`` of options shows it. Options
for tokens name a function, as ``package.module:function``. An administrator decides what references and names can
reach: see :mod:`aiokproto.spark.permissions`.

A resolved secret is never in a pickle, an error, a log or a ``repr``.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from aiokproto.application.calls import failure, without_text
from aiokproto.config import ConnectionOptions
from aiokproto.errors import ConfigurationError
from aiokproto.security.secret import read_file
from aiokproto.spark.permissions import check_file, check_function, check_url, check_variable

PROVIDERS = ("env", "file", "directory")
"""The configuration providers, with the names that Kafka's documentation gives them."""

_REFERENCE = re.compile(rf"\$\{{({'|'.join(PROVIDERS)}):(?:([^}}:]*):)?([^}}]*)\}}")
_ANY_REFERENCE = re.compile(r"\$\{[A-Za-z]\w*:[^}]*\}")
_QUOTED = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^"']""", re.DOTALL)
"""Matches everything in a login module except an unclosed quote."""
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
_PROPERTY = re.compile(r"((?:\\.|[^ \t\f=:\\])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)

_KINDS = {name: str(getattr(kind, "__forward_arg__", kind)) for name, kind in ConnectionOptions.__annotations__.items()}
SECRETS = frozenset(name for name, kind in _KINDS.items() if "SecretSource" in kind)
"""Options of the client that take a function, which is called for each authentication."""
SENSITIVE = SECRETS | {"sasl_jaas_config", "sasl_oauthbearer_token_endpoint_url", "proxy_url"}
"""Options of the client whose value may be, or contain, a secret."""
FUNCTIONS = {"aiokproto.sasl.token": "sasl_oauth_token", "aiokproto.sasl.aws.credentials": "sasl_aws_credentials"}
"""Options that name a function → the client's options that take the function."""


class Hidden(str):
    """Text that may be a secret. Its ``repr`` doesn't show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<hidden>"


class SecretReference:
    """A function that returns the secret to which a text refers. Each call looks it up again."""

    def __init__(self, option: str, text: str) -> None:
        self._option = option
        self.text = text

    def __call__(self) -> str:
        """Return the secret. Raises the same errors as :func:`resolve`."""
        return resolve(self._option, self.text)

    def __repr__(self) -> str:
        return f"<{self._option}>"


def function_name(text: str) -> str:
    """Parse the name of a function, ``package.module:function``, without importing it."""
    if not _FUNCTION.fullmatch(text.strip()):
        raise ValueError("must be the name of a function, package.module:function")
    return text.strip()


def providers(text: str) -> tuple[str, ...]:
    """Parse ``config.providers``, the only providers to allow. ``none``, or an empty string, allows no provider."""
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if found == ("none",):
        return ()
    if unknown := [name for name in found if name not in PROVIDERS]:
        raise ValueError(f"{unknown[0]!r} is not there: {', '.join(PROVIDERS)} are, under these names")
    return found


def provider_class(name: str) -> Callable[[str], str]:
    """Return a parser for a provider's class, which must be Kafka's own."""
    expected = {"env": "EnvVar", "file": "File", "directory": "Directory"}[name]
    full = f"org.apache.kafka.common.config.provider.{expected}ConfigProvider"

    def read(text: str) -> str:
        if text.strip() != full:
            raise ValueError(f"must be {full}, as Java classes cannot be used")
        return full

    return read


def refers(value: object) -> bool:
    """Whether a value is text with a reference."""
    return isinstance(value, str) and _REFERENCE.search(value) is not None


def check_providers(given: Mapping[str, Any]) -> None:
    """Check that references name only the providers that ``config.providers`` names, if it is set.

    Args:
        given: All options, by their names.

    Raises:
        ConfigurationError: An option has a reference to another provider.
    """
    named = given.get(_PROVIDERS, PROVIDERS)
    for name in PROVIDERS:
        if name not in named and f"{_PROVIDERS}.{name}.class" in given:
            raise ConfigurationError(f"{_PROVIDERS}.{name}.class has no effect: {_PROVIDERS} does not name {name}")
    for option, value in given.items():
        for match in _REFERENCE.finditer(value) if isinstance(value, str) else ():
            if match[1] not in named:
                only = ", ".join(named) or "none"
                raise ConfigurationError(
                    f"{option} has a reference ${{{match[1]}:…}}, and {_PROVIDERS} names {only}: add {match[1]} to it"
                )


def check_references(connection: Mapping[str, Any]) -> None:
    """Raise :class:`ConfigurationError` if a secret is a reference to a provider that doesn't exist.

    The client would send such a text to the broker unchanged. If a real secret looks like a reference, the user can
    store it in a file or variable, and refer to it there.
    """
    for name in SENSITIVE & connection.keys():
        value = connection[name]
        if isinstance(value, str) and _ANY_REFERENCE.search(_REFERENCE.sub("", value)):
            # Leave the text out of the error: it may be a secret.
            raise ConfigurationError(
                f"{java_name(name)} has a reference ${{provider:…}} whose provider is none of {', '.join(PROVIDERS)}"
            )


def resolve(option: str, text: str) -> str:
    """Replace the references in a text.

    Args:
        option: The option's name, for errors.
        text: The text, such as ``${env:NAME}`` or ``username="etl" password="${file:/run/secrets/kafka:password}"``.

    Raises:
        ConfigurationError: A reference is malformed, or an environment variable or a key in a file doesn't exist.
        OSError: A file can't be read.
        ValueError: A file is longer than 1 MiB, or isn't UTF-8.
    """

    def value(match: re.Match[str]) -> str:
        # Leave the text out of the error: a secret itself could look like a reference.
        if "${" in match[0][1:]:
            raise ConfigurationError(f"{option}: a reference within a reference is not resolved")
        found = _look_up(option, *match.groups(default=""))
        quote = _QUOTED.sub("", text[: match.start()])[:1] if option == _LOGIN_MODULE else ""
        if quote:
            # Escape quotes: they would end the quoted value in the login module.
            return found.replace("\\", "\\\\").replace(quote, f"\\{quote}").replace("\n", "\\n")
        return found

    return _REFERENCE.sub(value, text)


def client_options(connection: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for a client, with references resolved. This reads files and imports modules.

    Raises:
        ConfigurationError: What an option refers to doesn't exist.
    """
    options = dict(connection)
    for name, value in connection.items():
        if name in FUNCTIONS.values():
            options[name] = _import_function(name, value)
        elif not refers(value):
            continue
        elif name in SECRETS:
            options[name] = SecretReference(java_name(name), value)
        else:
            try:
                options[name] = Hidden(resolve(java_name(name), value))
            except (OSError, ValueError) as error:
                raise ConfigurationError(f"{java_name(name)} cannot be resolved: {error}") from None
    _check_reach(options)
    return options


def _check_reach(options: Mapping[str, Any]) -> None:
    """Check the files and URLs that logins read, because a file's content, or a URL's response, is sent to the
    broker."""
    url = options.get(_TOKEN_URL)
    if url is not None:
        parts = urlsplit(url)
        if parts.scheme.lower() == "file":
            check_file(java_name(_TOKEN_URL), unquote(parts.path))
        else:
            check_url(java_name(_TOKEN_URL), url)
    for name in _TOKEN_FILES & options.keys():
        check_file(java_name(name), options[name])


def checkable(connection: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return options that can be checked without resolving references; None if such a check would be pointless.

    The machine that parses the options may lack what a reference names.
    """
    options = dict(connection)
    for name, value in connection.items():
        if name in FUNCTIONS.values():
            options[name] = lambda: None
        elif refers(value) and name not in SECRETS:
            options[name] = _REFERENCE.sub("reference", value)
            if options[name] == "reference" or name == "bootstrap_servers":
                return None
    return options


def fingerprint(options: Mapping[str, Any]) -> str:
    """Return a string that differs for different options, but doesn't reveal any of them."""

    def text(value: object) -> str:
        value = value.text if isinstance(value, SecretReference) else value
        # Don't use the repr of Hidden text: it's always the same.
        return str(value) if isinstance(value, str) else repr(value)

    items = sorted((name, type(value).__name__, text(value)) for name, value in options.items())
    return hashlib.sha256(repr(items).encode("utf-8", "surrogatepass")).hexdigest()


def java_name(name: str) -> str:
    """Return the data source's name for an option of the client."""
    return f"kafka.{name.replace('_', '.')}"


_LOGIN_MODULE = java_name("sasl_jaas_config")
_PROVIDERS = "kafka.config.providers"
_TOKEN_URL = "sasl_oauthbearer_token_endpoint_url"
_TOKEN_FILES = frozenset(f"sasl_oauthbearer_assertion_{name}_file" for name in ("private_key", "template")) | {
    "sasl_oauthbearer_assertion_file"
}


def _look_up(option: str, provider: str, path: str, key: str) -> str:
    if provider == "env":
        if path:
            raise ConfigurationError(f"{option}: env takes no path: expected ${{env:NAME}}")
        check_variable(option, key)
        if key not in os.environ:
            raise ConfigurationError(
                f"{option}: the environment variable {key} is not set (for executors: spark.executorEnv.{key})"
            )
        return os.environ[key]
    if provider == "directory":
        if not path or not key:
            raise ConfigurationError(f"{option}: directory takes a path and a name: expected ${{directory:/path:name}}")
        # As in Kafka, the name must be the name of a file in the directory itself.
        if key == ".." or Path(key).name != key:
            raise ConfigurationError(f"{option}: {key} is not the name of a file in {path}")
        return _read(option, Path(path) / key)
    if not path:
        return _read(option, Path(key))
    found = _properties(_read(option, Path(path)))
    if key not in found:
        raise ConfigurationError(f"{option}: {path} has no property {key}")
    return found[key]


def _read(option: str, path: Path) -> str:
    check_file(option, path)
    return read_file(path)


def _properties(text: str) -> dict[str, str]:
    """Parse a Java properties file."""
    found: dict[str, str] = {}
    joined = ""
    # Don't use splitlines(), which splits at more characters than Java does. A comment is never continued.
    for text_line in text.split("\n"):
        line = text_line.lstrip(" \t\f")
        if not joined and line[:1] in ("", "#", "!"):
            continue
        continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        joined += line[:-1] if continued else line
        if not continued:
            _add_property(found, joined)
            joined = ""
    if joined:
        _add_property(found, joined)
    return found


def _add_property(found: dict[str, str], line: str) -> None:
    match = _PROPERTY.fullmatch(line)
    assert match is not None, "any line is a property"
    found[_unescaped(match[1])] = _unescaped(match[2])


def _unescaped(text: str) -> str:
    def char(match: re.Match[str]) -> str:
        found = match[1]
        return chr(int(found[1:], 16)) if len(found) == 5 else _ESCAPED.get(found, found)

    # Java's characters are UTF-16 code units, so a character outside the BMP is written as two.
    return _ESCAPE.sub(char, text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _import_function(option: str, name: str) -> Callable[..., Any]:
    spark_name = next(name for name, own in FUNCTIONS.items() if own == option)
    module, _, path = name.partition(":")
    # Check it before the import, which runs the module.
    check_function(spark_name, name)
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{spark_name}={name!r} cannot be imported: {error}") from None
    # The module may raise anything.
    except BaseException as error:  # noqa: BLE001 - failure() passes on what ends the task
        raised = failure(error, name)
        raise ConfigurationError(f"{spark_name}={name!r} cannot be imported: {without_text(raised)}") from raised
    if not callable(found):
        raise ConfigurationError(f"{spark_name}={name!r}: {type(found).__name__} is no function")
    return found  # type: ignore[no-any-return]

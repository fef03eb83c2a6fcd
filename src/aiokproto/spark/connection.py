"""The options of the client, which reading and writing share. Pure, except for a warning.

They have the prefix ``kafka.`` and the names of the Java client, such as ``kafka.request.timeout.ms``. Readers and
writers keep them under the client's own names, such as ``request_timeout_ms``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from aiokproto.cluster.exposure import exposures
from aiokproto.config import SECURITY_PROTOCOLS, ClusterConfig, ConnectionOptions
from aiokproto.errors import ConfigurationError
from aiokproto.spark.credentials import (
    FUNCTIONS,
    PROVIDERS,
    SENSITIVE,
    Hidden,
    check_references,
    checkable,
    client_options,
    function_name,
    java_name,
    provider_class,
    providers,
)
from aiokproto.spark.option_table import Option, Parser, boolean, one_of

_BOOTSTRAP = "kafka.bootstrap.servers"

# The key is the annotation of the client's option. Spark's options are text, so client options that take an object,
# such as a TLS context, aren't listed.
_PARSERS: Mapping[str, Parser] = {
    "str": str,
    "str | Path": str,
    "str | Sequence[str]": str,
    "str | SaslMechanism": str,
    "str | HostnameMap": str,
    "SecretSource": str,
    "int": int,
    "float": float,
    "bool": boolean,
}

_ANNOTATIONS = {
    name: str(getattr(kind, "__forward_arg__", kind)).removesuffix(" | None")
    for name, kind in ConnectionOptions.__annotations__.items()
}

# Reading accepts these options but ignores them; its table says why. The sink's own table has an option for the rack.
_OMITTED = ("client_rack", "enable_metrics_push")

_MEANINGS = {
    "bootstrap_servers": "Required: ``host:port[,host:port…]``. The client finds the other brokers through these.",
    "security_protocol": "``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``.",
}


def _security_protocol(text: str) -> str:
    return one_of(*(protocol.lower() for protocol in SECURITY_PROTOCOLS))(text).upper()


def _parsers() -> dict[str, Parser]:
    """Return the parsers of the options that can be text, keyed by the client's own names."""
    parsers: dict[str, Parser] = {
        name: Hidden if name in SENSITIVE else _PARSERS[kind]
        for name, kind in _ANNOTATIONS.items()
        if kind in _PARSERS and name not in _OMITTED
    }
    return {**parsers, "bootstrap_servers": str, "security_protocol": _security_protocol}


_OWN = _parsers()

_NAMES: Mapping[str, str] = {**{java_name(name): name for name in _OWN}, **FUNCTIONS}
"""Option names of the data source → the client's own names."""

CLIENT: Mapping[str, Option] = {
    **{
        java_name(name): Option(
            parser,
            _MEANINGS.get(name, f"The client's option ``{name}``."),
            "PLAINTEXT" if name == "security_protocol" else None,
        )
        for name, parser in _OWN.items()
    },
    **{
        name: Option(function_name, f"``package.module:function``, a function for the client's option ``{own}``.")
        for name, own in FUNCTIONS.items()
    },
}
"""The options of the client."""

PROVIDER_OPTIONS: Mapping[str, Option] = {
    "kafka.config.providers": Option(
        providers,
        "The configuration providers that references can name, or ``none``. By default there are all of "
        f"``{'``, ``'.join(PROVIDERS)}``.",
    ),
    **{
        f"kafka.config.providers.{name}.class": Option(
            provider_class(name), f"The Java class of the provider ``{name}``: Kafka's own."
        )
        for name in PROVIDERS
    },
}
"""Options of the configuration providers. References work without them."""


def connection_options(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of the client under its own names; ``given`` comes from
    :meth:`~aiokproto.spark.option_table.OptionTable.parse`.

    Raises:
        ConfigurationError: An option is missing, or contradicts another.
    """
    if not given.get(_BOOTSTRAP, "").strip():
        raise ConfigurationError(f"{_BOOTSTRAP} is required: host:port[,host:port…]")
    java = {name: option for option, name in _NAMES.items()}
    options = {name: given[option] for name, option in java.items() if option in given}
    if not options.get("client_id", "-"):
        del options["client_id"]
    for name in ("retry_backoff_ms", "reconnect_backoff_ms", "metadata_max_age_ms"):
        # In Java 0 means "immediately". This client's minimum of 1 ms is almost the same, and doesn't flood the
        # brokers.
        if options.get(name) == 0:
            options[name] = 1
    for backoff in ("retry_backoff", "reconnect_backoff"):
        # Java accepts an initial backoff above the default maximum, and then uses it as the maximum, too.
        if options.get(f"{backoff}_ms", 0) > 1000 * getattr(ClusterConfig, f"{backoff}_max"):
            options.setdefault(f"{backoff}_max_ms", options[f"{backoff}_ms"])
    # GSSAPI is Java's default. This client, unlike Java's, derives the mechanism from the login module of a JAAS
    # configuration.
    if options.get("security_protocol", "").startswith("SASL") and "sasl_jaas_config" not in options:
        options.setdefault("sasl_mechanism", "GSSAPI")
    check_references(options)
    try:
        if (known := checkable(options)) is not None:
            _warn_once(ClusterConfig.parse(known), java)
    except ConfigurationError as error:
        raise with_option_names(error, java) from None
    return options


_warned = set[str]()

logger = logging.getLogger("aiokproto.spark")


def client_config(connection: Mapping[str, Any]) -> ClusterConfig:
    """Return the configuration of a client in the driver.

    Args:
        connection: Options of the client, as :func:`connection_options` returns them.

    Raises:
        ConfigurationError: An option is invalid, or what it refers to doesn't exist or isn't allowed.
    """
    config = ClusterConfig.parse(client_options(connection))
    if checkable(connection) is None:
        _warn_once(config, {name: option for option, name in _NAMES.items()})
    return config


def _warn_once(config: ClusterConfig, names: Mapping[str, str]) -> None:
    """Warn about an unprotected connection, once in the driver's process.

    The driver warns when it parses the options, or, if they contain references, once it has resolved them. Clients
    don't warn, neither on the driver nor in tasks, because there are too many of them.
    """
    for text in exposures(config):
        if text not in _warned:
            _warned.add(text)
            logger.warning("%s", with_option_names(ConfigurationError(text), names))


def with_option_names(error: ConfigurationError, names: Mapping[str, str]) -> ConfigurationError:
    """Return a client error with the client's option names replaced by the data source's."""
    return ConfigurationError(re.sub(r"[a-z]\w+", lambda word: names.get(word[0], word[0]), str(error)))

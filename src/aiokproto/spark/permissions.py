"""What options can reach on the machines of Spark: files, environment variables, addresses, and functions.

Whoever may run a query may set options: by ``OPTIONS (…)`` in SQL, at a Thrift server, over Spark Connect. Such a
stranger could have a driver or an executor read its files and its environment, send what it finds to a broker of the
stranger's choice, post to addresses inside of the network, and import modules (as in CVE-2024-31141 and CVE-2025-27817
of Java's client). So none of this is possible unless an administrator allows it, outside of any query: by variables of
the environment of the process that connects. Spark has them from its machines, or from ``spark.executorEnv.…``, which
it reads once, when an application starts: ``SET`` does not change them. No option is read here.

The decision is made where the value is looked up, before anything is opened, so an error tells nothing about a file.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from aiokproto.errors import ConfigurationError

PATHS = "AIOKPROTO_SPARK_ALLOWED_PATHS"
"""Files, and directories with all below them, separated by commas. Kafka's ``allowed.paths``."""
VARIABLES = "AIOKPROTO_SPARK_ALLOWLIST_PATTERN"
"""A regular expression, which the whole name of an environment variable must match. Kafka's ``allowlist.pattern``."""
URLS = "AIOKPROTO_SPARK_ALLOWED_URLS"
"""URLs of token endpoints and schema registries, with all paths below them, separated by commas; ``*`` for all."""
FUNCTIONS = "AIOKPROTO_SPARK_ALLOWED_FUNCTIONS"
"""Functions, as ``package.module:function``, separated by commas; ``*`` for all."""

EVERYTHING = {PATHS: str(Path("/").resolve()), VARIABLES: ".*", URLS: "*", FUNCTIONS: "*"}
"""For an application whose options are all its owner's."""

_PORTS = {"http": 80, "https": 443}
_MAX_ESCAPED = 8
"""How often a URL's path can be escaped."""


def check_file(option: str, path: str | Path) -> None:
    """Check that options can name a file; links count as what they lead to.

    Args:
        option: The option, for errors.
        path: The file.

    Raises:
        ConfigurationError: They cannot.
    """
    if not any(_is_in(Path(path), Path(one)) for one in _names(PATHS)):
        raise _refused(option, f"the file {path}", PATHS)


def check_variable(option: str, name: str) -> None:
    """Check that options can name an environment variable. Raises as :func:`check_file`."""
    pattern = _setting(VARIABLES)
    try:
        allowed = bool(pattern) and re.fullmatch(pattern, name) is not None
    except re.error as error:
        raise ConfigurationError(f"{VARIABLES} is not a regular expression: {error}") from None
    if not allowed:
        raise _refused(option, f"the environment variable {name}", VARIABLES)


def check_url(option: str, url: str) -> None:
    """Check that options can name a URL. Raises as :func:`check_file`."""
    names = _names(URLS)
    if "*" not in names and not any(_is_below(url, one) for one in names):
        # Without the query, which can have a secret.
        raise _refused(option, f"the URL {_shown(url)}", URLS)


def check_function(option: str, name: str) -> None:
    """Check that options can name a function. Raises as :func:`check_file`."""
    if not {name, "*"} & set(_names(FUNCTIONS)):
        raise _refused(option, f"the function {name}", FUNCTIONS)


def steps_up(path: str) -> bool:
    """Return whether a server may take a part of a URL's path for a step upwards, however often it is escaped."""
    for _ in range(_MAX_ESCAPED):
        if (unescaped := unquote(path)) == path:
            break
        path = unescaped
    else:
        # Nothing honest is: each round takes time, and a registry can send a megabyte.
        return True
    # Some leave out a segment's parameters (Tomcat), and characters that are not shown.
    names = (part.partition(";")[0] for part in re.split(r"[/\\]", path))
    return any("".join(filter(str.isprintable, name)).strip() in (".", "..") for name in names)


def _refused(option: str, what: str, setting: str) -> ConfigurationError:
    return ConfigurationError(
        f"{option}: {what} is not allowed: an administrator can allow it by {setting}, in the environment of the"
        f" process that connects, or by spark.executorEnv.{setting} when the application starts"
    )


def _setting(name: str) -> str:
    if name in os.environ:
        return os.environ[name]
    # The driver's own Python process does not get these variables. Workers have no context, and need none.
    context: Any = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    active = getattr(context, "_active_spark_context", None)
    return str(getattr(active, "environment", {}).get(name, ""))


def _names(setting: str) -> list[str]:
    return [name.strip() for name in _setting(setting).split(",") if name.strip()]


def _is_in(path: Path, allowed: Path) -> bool:
    try:
        found, place = path.resolve(), allowed.resolve()
    # A loop of links, or a zero byte.
    except (OSError, RuntimeError, ValueError):
        return False
    return found == place or place in found.parents


def _is_below(url: str, allowed: str) -> bool:
    try:
        one, other = urlsplit(url.strip()), urlsplit(allowed)
        if _origin(one) != _origin(other):
            return False
    except ValueError:
        return False
    if steps_up(one.path):
        return False
    base = other.path.rstrip("/")
    return one.path == base or one.path.startswith(f"{base}/")


def _origin(url: SplitResult) -> tuple[str, str, int | None]:
    scheme = url.scheme.lower()
    return scheme, (url.hostname or "").rstrip("."), url.port or _PORTS.get(scheme)


def _shown(url: str) -> str:
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    except ValueError:
        return "that it has"

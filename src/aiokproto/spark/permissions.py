"""What options can reach on Spark's machines: files, environment variables, addresses, and functions.

Anyone who may run a query may set options: with ``OPTIONS (…)`` in SQL, at a Thrift server, over Spark Connect. An
attacker could make a driver or an executor read its files and its environment, send what it finds to a broker of the
attacker's choice, post to addresses inside the network, and import modules (as in CVE-2024-31141 and CVE-2025-27817 of
Java's client). So none of this is possible unless an administrator allows it, outside of any query: by environment
variables of the process that connects. Spark gets them from its machines, or from ``spark.executorEnv.…``, which it
reads once, when an application starts, so ``SET`` doesn't change them. No option is read here.

The check happens where the value is looked up, before anything is opened, so an error reveals nothing about a file.
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
"""Files, and directories with everything below them, separated by commas. Kafka's ``allowed.paths``."""
VARIABLES = "AIOKPROTO_SPARK_ALLOWLIST_PATTERN"
"""A regular expression that the whole name of an environment variable must match. Kafka's ``allowlist.pattern``."""
URLS = "AIOKPROTO_SPARK_ALLOWED_URLS"
"""URLs of token endpoints and schema registries, with all paths below them, separated by commas; ``*`` for all."""
FUNCTIONS = "AIOKPROTO_SPARK_ALLOWED_FUNCTIONS"
"""Functions, as ``package.module:function``, separated by commas; ``*`` for all."""

EVERYTHING = {PATHS: str(Path("/").resolve()), VARIABLES: ".*", URLS: "*", FUNCTIONS: "*"}
"""Settings for an application whose owner sets all options."""

_PORTS = {"http": 80, "https": 443}
_MAX_ESCAPED = 8
"""How many times a URL's path may be escaped."""


def check_file(option: str, path: str | Path) -> None:
    """Check that options are allowed to name a file. Symbolic links are resolved first.

    Args:
        option: The option, for errors.
        path: The file.

    Raises:
        ConfigurationError: The file isn't allowed.
    """
    if not any(_is_in(Path(path), Path(allowed)) for allowed in _names(PATHS)):
        raise _refused(option, f"the file {path}", PATHS)


def check_variable(option: str, name: str) -> None:
    """Check that options are allowed to name an environment variable. Raises the same error as :func:`check_file`."""
    pattern = _setting(VARIABLES)
    try:
        allowed = bool(pattern) and re.fullmatch(pattern, name) is not None
    except re.error as error:
        raise ConfigurationError(f"{VARIABLES} is not a regular expression: {error}") from None
    if not allowed:
        raise _refused(option, f"the environment variable {name}", VARIABLES)


def check_url(option: str, url: str) -> None:
    """Check that options are allowed to name a URL. Raises the same error as :func:`check_file`."""
    names = _names(URLS)
    if "*" not in names and not any(_is_below(url, allowed) for allowed in names):
        # Show the URL without its query, which can have a secret.
        raise _refused(option, f"the URL {_shown(url)}", URLS)


def check_function(option: str, name: str) -> None:
    """Check that options are allowed to name a function. Raises the same error as :func:`check_file`."""
    if not {name, "*"} & set(_names(FUNCTIONS)):
        raise _refused(option, f"the function {name}", FUNCTIONS)


def steps_up(path: str) -> bool:
    """Return whether a server might read a segment of a URL's path as ``..``, no matter how many times it's escaped."""
    for _ in range(_MAX_ESCAPED):
        if (unescaped := unquote(path)) == path:
            break
        path = unescaped
    else:
        # No honest path is escaped this often. Each round takes time, and a registry can send a megabyte, so stop here.
        return True
    # Some servers ignore a segment's parameters (Tomcat), and characters that aren't printable.
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
    # The driver's own Python process doesn't get these variables, so look in the SparkContext. Workers have no context,
    # and don't need one.
    context: Any = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    active = getattr(context, "_active_spark_context", None)
    return str(getattr(active, "environment", {}).get(name, ""))


def _names(setting: str) -> list[str]:
    return [name.strip() for name in _setting(setting).split(",") if name.strip()]


def _is_in(path: Path, allowed: Path) -> bool:
    try:
        found, folder = path.resolve(), allowed.resolve()
    # The path contains a loop of links, or a zero byte.
    except (OSError, RuntimeError, ValueError):
        return False
    return found == folder or folder in found.parents


def _is_below(url: str, allowed: str) -> bool:
    try:
        requested, base = urlsplit(url.strip()), urlsplit(allowed)
        if _origin(requested) != _origin(base):
            return False
    except ValueError:
        return False
    if steps_up(requested.path):
        return False
    folder = base.path.rstrip("/")
    return requested.path == folder or requested.path.startswith(f"{folder}/")


def _origin(url: SplitResult) -> tuple[str, str, int | None]:
    scheme = url.scheme.lower()
    return scheme, (url.hostname or "").rstrip("."), url.port or _PORTS.get(scheme)


def _shown(url: str) -> str:
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    except ValueError:
        return "that it has"

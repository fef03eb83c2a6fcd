"""A table of options: which have an effect, which have none, and which are refused. Pure.

Names are case-insensitive, since Spark passes them in lower case.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from aiokproto.errors import ConfigurationError
from aiokproto.spark.options_values import Reader, shorten


class OptionTable:
    """The options of reading, or of writing."""

    def __init__(
        self,
        honoured: Mapping[str, Reader],
        without_effect: Iterable[str],
        refused: Mapping[str, str],
        internal: Mapping[str, Reader] | None = None,
    ) -> None:
        """Each name is in one of these.

        Args:
            honoured: Options with an effect, and the parsers of their values.
            without_effect: Options that are accepted, and change nothing.
            refused: Options that are refused, and why. A name that ends in a dot stands for all with this prefix.
            internal: Options with an effect that no message names.
        """
        self._readers = {**honoured, **(internal or {})}
        self._refused = refused
        without_effect = tuple(without_effect)
        self._spelling = {name.lower(): name for name in (*self._readers, *without_effect)}
        # Without the many options of the client.
        own = (name for name in honoured if not name.startswith("kafka."))
        self._listed = (*own, "kafka.bootstrap.servers", "kafka.…")
        self._known = (*honoured, *without_effect, *(name for name in refused if name[-1] != "."))

    def parse(self, options: Mapping[str, str]) -> dict[str, Any]:
        """Return the options that have an effect, by their official names, with their parsed values.

        Raises:
            ConfigurationError: An option is unknown or refused, or has an invalid value.
        """
        values: dict[str, Any] = {}
        for given, text in options.items():
            lower = given.lower()
            if reason := refusal(lower, self._refused):
                raise ConfigurationError(f"{given} cannot be set: {reason}")
            name = self._spelling.get(lower)
            if name is None:
                raise ConfigurationError(
                    f"unknown option {shorten(given)}{nearest(lower, self._known, shown=self._listed)}"
                )
            if name in self._readers:
                values[name] = _read(name, text, self._readers[name])
        return values


def refusal(name: str, refused: Mapping[str, str]) -> str | None:
    """Return the reason why an option (its name in lower case) is refused; None if it is not."""
    reasons = (reason for one, reason in refused.items() if name == one or (one[-1] == "." and name.startswith(one)))
    return next(reasons, None)


def nearest(name: str, valid: Iterable[str], shown: Iterable[str] = ()) -> str:
    """Return a hint for an error message: the valid name closest to ``name``.

    If none is close, the hint lists the names in ``shown``, or all valid names.
    """
    spelling = {one.lower(): one for one in valid}
    found = difflib.get_close_matches(name[:200], spelling, 1)
    if found:
        return f"; did you mean {spelling[found[0]]!r}?"
    return f"; valid are {', '.join(sorted(shown or spelling.values()))}"


def _read(name: str, text: str, reader: Reader) -> object:
    try:
        return reader(text)
    except ConfigurationError:
        raise
    except ValueError as error:
        raise ConfigurationError(f"{name}={shorten(text)}: {error}") from None

"""Checked access to the members of a JSON object."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable
from typing import Any

from aiokproto.codec.json import brief
from aiokproto.errors import DecodeError


class Fields:
    """A JSON object with checked members.

    Every method raises :class:`~aiokproto.errors.DecodeError` with the member's path if its value doesn't fit. If a
    member is missing, the default is returned.
    """

    def __init__(self, data: object, path: str, names: Iterable[str] | None = None) -> None:
        """Wrap ``data``, which is at ``path``. If ``names`` are given, other members aren't allowed."""
        self.path = path
        if not isinstance(data, dict):
            raise DecodeError(f"{path or 'the document'}: expected an object, got {brief(data)}")
        self._data: dict[str, Any] = data
        if names is not None and (unknown := sorted(set(data) - set(names))):
            raise self.bad(unknown[0], "unknown field")

    def __contains__(self, name: str) -> bool:
        return name in self._data

    def get(self, name: str) -> Any:
        """Return the value as it is, or None if it's missing."""
        return self._data.get(name)

    def number(self, name: str, bits: int, default: int) -> int:
        """Return a signed integer of ``bits`` bits."""
        value = self._data.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.bad(name, f"expected a number, got {brief(value)}")
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise self.bad(name, f"{value} does not fit int{bits}")
        return value

    def flag(self, name: str) -> bool:
        """Return a boolean. The default is False."""
        value = self._data.get(name, False)
        if not isinstance(value, bool):
            raise self.bad(name, f"expected true or false, got {brief(value)}")
        return value

    def choice(self, name: str, choices: dict[str, int], default: str) -> int:
        """Return the number that ``choices`` maps the member's string to."""
        value = self._data.get(name, default)
        if not isinstance(value, str) or value not in choices:
            raise self.bad(name, f"expected one of {', '.join(choices)}, got {brief(value)}")
        return choices[value]

    def text(self, name: str) -> str:
        """Return a required string that can be encoded as UTF-8."""
        value = self._data.get(name)
        if not isinstance(value, str) or (not value.isascii() and value != value.encode("utf-8", "replace").decode()):
            raise self.bad(name, f"expected a string, got {brief(value)}")
        return value

    def data(self, name: str) -> bytes | None:
        """Return the bytes of a base64 string, or None for null."""
        value = self._data.get(name)
        try:
            return None if value is None else b64decode(value, validate=True)
        except (TypeError, ValueError):
            raise self.bad(name, f"expected base64, got {brief(value)}") from None

    def array(self, name: str) -> list[Any]:
        """Return a list. The default is an empty list."""
        value = self._data.get(name, [])
        if not isinstance(value, list):
            raise self.bad(name, f"expected an array, got {brief(value)}")
        return value

    def bad(self, name: str, why: str) -> DecodeError:
        """Return an error for a member, with its path."""
        return DecodeError(f"{self.path}.{name}: {why}".lstrip("."))

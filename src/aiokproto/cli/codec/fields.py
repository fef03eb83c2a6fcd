"""The members of a JSON object, each checked when it is taken."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable
from typing import Any

from aiokproto.codec.json import brief
from aiokproto.errors import DecodeError


class Fields:
    """A JSON object that is taken apart.

    Every method raises :class:`~aiokproto.errors.DecodeError`, which names the member by its path, if what is there
    does not fit. A member that is not there gives the default.
    """

    def __init__(self, data: object, path: str, names: Iterable[str] | None = None) -> None:
        """Take ``data``, which stands at ``path`` and may have no other members than ``names``, if they are given."""
        self.path = path
        if not isinstance(data, dict):
            raise DecodeError(f"{path or 'the document'}: an object is needed, not {brief(data)}")
        self._data: dict[str, Any] = data
        if names is not None and (unknown := sorted(set(data) - set(names))):
            raise self.bad(unknown[0], "there is no such field here")

    def __contains__(self, name: str) -> bool:
        return name in self._data

    def get(self, name: str) -> Any:
        """Whatever is there; None if nothing is."""
        return self._data.get(name)

    def number(self, name: str, bits: int, default: int) -> int:
        """A signed integer of so many bits."""
        value = self._data.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.bad(name, f"a number is needed, not {brief(value)}")
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise self.bad(name, f"{value} is no int{bits}")
        return value

    def flag(self, name: str) -> bool:
        """True or false, which is the default."""
        value = self._data.get(name, False)
        if not isinstance(value, bool):
            raise self.bad(name, f"true or false is needed, not {brief(value)}")
        return value

    def choice(self, name: str, choices: dict[str, int], default: str) -> int:
        """What a name stands for."""
        value = self._data.get(name, default)
        if not isinstance(value, str) or value not in choices:
            raise self.bad(name, f"one of {', '.join(choices)} is needed, not {brief(value)}")
        return choices[value]

    def text(self, name: str) -> str:
        """A string that has to be there, and can be written as UTF-8."""
        value = self._data.get(name)
        if not isinstance(value, str) or (not value.isascii() and value != value.encode("utf-8", "replace").decode()):
            raise self.bad(name, f"a string is needed, not {brief(value)}")
        return value

    def data(self, name: str) -> bytes | None:
        """Bytes as base64; None for null."""
        value = self._data.get(name)
        try:
            return None if value is None else b64decode(value, validate=True)
        except (TypeError, ValueError):
            raise self.bad(name, f"base64 is needed, not {brief(value)}") from None

    def array(self, name: str) -> list[Any]:
        """A list; empty by default."""
        value = self._data.get(name, [])
        if not isinstance(value, list):
            raise self.bad(name, f"an array is needed, not {brief(value)}")
        return value

    def bad(self, name: str, why: str) -> DecodeError:
        """The error that names a member."""
        return DecodeError(f"{self.path}.{name}: {why}".lstrip("."))

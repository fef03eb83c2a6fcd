"""Who a client is."""

from __future__ import annotations

from typing import NamedTuple


class Principal(NamedTuple):
    """Whom a connection speaks for: ``User:alice``.

    Attributes:
        kind: ``User``, unless somebody invents another.
        name: The user's name; of a TLS certificate, its subject.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")
"""Who has not said, where nobody has to."""


def parse_principal(text: str) -> Principal:
    """The principal that ``User:alice`` names.

    Raises:
        ValueError: There is no colon, or nothing on one side of it.
    """
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise ValueError(f"expected a principal as type:name, got {text!r}")
    return Principal(kind, name)

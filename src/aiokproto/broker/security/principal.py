"""Principals: ``User:alice``."""

from __future__ import annotations

from typing import NamedTuple


class Principal(NamedTuple):
    """The identity of an authenticated client (KafkaPrincipal).

    Attributes:
        kind: The principal type, ``User``.
        name: The user's name, or the subject of its TLS certificate.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")
"""The principal of a client on a listener without authentication."""


def parse_principal(text: str) -> Principal:
    """Parse ``User:alice``.

    Raises:
        ValueError: ``text`` isn't of the form ``type:name``.
    """
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise ValueError(f"expected a principal as type:name, got {text!r}")
    return Principal(kind, name)

"""Numbers with their nouns, for messages and errors."""

from __future__ import annotations


def counted(count: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun: ``1 record``, ``2 records``. ``nouns`` is a plural that does not just add an s."""
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"

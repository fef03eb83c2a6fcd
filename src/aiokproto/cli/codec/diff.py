"""The verb ``diff``: what changed in a message between two versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from aiokproto.cli.codec.grammar import Line, lines, type_name
from aiokproto.codec.schema import Message


class Change(NamedTuple):
    """A difference. ``kind`` is ``added``, ``removed`` or ``changed``. ``path`` is empty for the message itself."""

    kind: str
    path: str
    text: str

    def __str__(self) -> str:
        sign = {"added": "+", "removed": "-", "changed": "~"}[self.kind]
        return f"{sign} {self.path}: {self.text}" if self.path else f"{sign} {self.text}"


def changes(message: type[Message], old: int, new: int) -> list[Change]:
    """Return all differences: first in the message as a whole, then in its fields, in wire order."""
    return list(_changes(message, old, new))


def _changes(message: type[Message], old: int, new: int) -> Iterator[Change]:
    if (old in message.flexible) != (new in message.flexible):
        was, is_now = (
            "flexible (compact lengths, tagged fields)" if v in message.flexible else "not flexible" for v in (old, new)
        )
        yield Change("changed", "", f"{was} → {is_now}")
    for line in lines(message):
        before, after = _form(line, old), _form(line, new)
        if before == after:
            continue
        if before is None or after is None:
            kind = "added" if before is None else "removed"
            yield Change(kind, line.path, ", ".join(after or before or ()))
        else:
            lost = ", ".join(part for part in before if part not in after) or "not null"
            won = ", ".join(part for part in after if part not in before) or "not null"
            yield Change("changed", line.path, f"{lost} → {won}")


def _form(line: Line, version: int) -> tuple[str, ...] | None:
    """Return the form of a field in a version, or None if it isn't in that version. Only the message can be compact."""
    if version not in line.versions:
        return None
    parts = [type_name(line.spec)]
    if version in line.nullable:
        parts.append("can be null")
    if line.spec.tag is not None:
        parts.append(f"tag {line.spec.tag}")
    return tuple(parts)

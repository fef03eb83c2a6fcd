"""A table of the APIs and versions that the broker serves, for the docs and ``aiokproto broker --apis``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from aiokproto.broker.handlers import SERVED, find
from aiokproto.broker.handlers.refused import BETWEEN_NODES, ERROR
from aiokproto.codec.registry import api_keys, api_name


class Row(NamedTuple):
    """An API: the ``versions`` that are served (or ``-``, and the broker's answer instead), and what ACLs must
    allow."""

    key: int
    name: str
    versions: str
    answer: str
    requires: str = ""


def rows() -> Iterator[Row]:
    """Yield a row for each ApiKey."""
    for key in api_keys():
        if key in SERVED:
            handler = find(key)
            assert handler is not None
            yield Row(key, api_name(key), str(SERVED[key]), "served", "; ".join(map(str, handler.requires)))
        elif key in BETWEEN_NODES:
            yield Row(key, api_name(key), "-", "the connection is closed")
        else:
            yield Row(key, api_name(key), "-", ERROR.name)


def markdown() -> str:
    """Return the rows as a Markdown table."""
    lines = [f"| {row.key} | {row.name} | {row.versions} | {row.answer} | {row.requires} |" for row in rows()]
    return "\n".join(
        ["| key | API | versions | | operations that ACLs have to allow |", "|--:|---|---|---|---|", *lines, ""]
    )

"""A smaller suite: the tests that a file names, or all but these."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Selection(NamedTuple):
    """Tests of the suite.

    Attributes:
        name: Tells it apart from selections whose files have the same names.
        only: Node ids, or prefixes of them: a test must match one. Empty: all tests.
        without: Node ids or prefixes that no test may match.
    """

    name: str = "all"
    only: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()

    @classmethod
    def of_files(cls, only: Path | None, without: Path | None) -> Selection:
        """Read the files: each line is a node id or a prefix of one. A line that starts with ``#`` is a comment."""
        names, parts = [], []
        for kind, path in (("only", only), ("without", without)):
            lines = frozenset(_lines(path)) if path is not None else frozenset[str]()
            if path is not None:
                digest = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
                names.append(f"{kind}-{path.stem}-{digest[:6]}")
            parts.append(lines)
        return cls("-".join(names) or "all", *parts)

    def takes(self, test: str) -> bool:
        beginnings = set(_beginnings(test))
        return (not self.only or not beginnings.isdisjoint(self.only)) and beginnings.isdisjoint(self.without)


def _lines(path: Path) -> Iterator[str]:
    for line in path.read_text().splitlines():
        name = line.strip().rstrip("/")
        if name and not name.startswith("#"):
            yield name


def _beginnings(test: str) -> Iterator[str]:
    """Yield a node id, without its parameters, and what it is in: class, file, folders."""
    yield test
    # Parameters may have any character.
    name = test.partition("[")[0]
    yield name
    file, *inside = name.split("::")
    for count in range(len(inside)):
        yield "::".join((file, *inside[:count]))
    yield from map(str, Path(file).parents)

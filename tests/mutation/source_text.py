"""A module's text, and where the nodes of its syntax tree stand in it."""

from __future__ import annotations

import ast
from itertools import accumulate


class SourceText:
    """The text of a module, addressed by the positions of its nodes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = [f"{line}\n" for line in text.split("\n")]
        self._starts = list(accumulate(map(len, self._lines), initial=0))

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self._index(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._index(node.end_lineno, node.end_col_offset)

    def line(self, index: int) -> int:
        """Return the number of the line that an index is in."""
        return self.text.count("\n", 0, index) + 1

    def around(self, start: int, end: int) -> tuple[str, str]:
        """Return what stands before and after a part, on its lines."""
        first, last = self.text.rfind("\n", 0, start) + 1, self.text.find("\n", end)
        return self.text[first:start].lstrip(), self.text[end : last if last >= 0 else None]

    def _index(self, line: int, column: int) -> int:
        # A node's column counts bytes of UTF-8.
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

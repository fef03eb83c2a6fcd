"""The Python in the documentation: fenced blocks, found, compiled and run."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    # Without docs/protocol, which is generated.
    *sorted(page for folder in (".", "howto", "migrating") for page in (ROOT / "docs" / folder).glob("*.md")),
]

_FENCE = re.compile(r"^(?P<indent> *)```python(?P<info>[^\n]*)\n(?P<code>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL)


class Snippet(NamedTuple):
    """A block of Python.

    Attributes:
        page: The file it is in.
        line: The number of the line before its first.
        run: Whether it is marked as one that can be run: its info string is ``python run``.
        code: The text.
    """

    page: Path
    line: int
    run: bool
    code: str

    def compiled(self) -> CodeType:
        """As Python compiles it, with ``await`` allowed anywhere; line numbers are those of the page.

        Raises:
            SyntaxError: It is not Python.
        """
        text, flags = "\n" * self.line + self.code, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code: CodeType = compile(text, str(self.page), "exec", flags=flags, dont_inherit=True)
        return code

    def imports(self) -> Iterator[str]:
        """Its import statements."""
        for node in ast.walk(ast.parse(self.code)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield ast.unparse(node)

    async def execute(self, namespace: dict[str, Any]) -> None:
        """Run it."""
        result = eval(self.compiled(), namespace)
        if inspect.isawaitable(result):
            await result


def snippets(page: Path) -> list[Snippet]:
    """All snippets of a page.

    Raises:
        ValueError: The info string of one says something unknown: a misspelt mark would keep it from being run.
    """
    text = page.read_text()
    found = []
    for block in _FENCE.finditer(text):
        info = block["info"].split()
        if info not in ([], ["run"]):
            raise ValueError(f"{page.name}: a python block is marked {info}")
        found.append(Snippet(page, text.count("\n", 0, block.start("code")), info == ["run"], block["code"]))
    return found

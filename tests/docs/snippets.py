"""The Python in the documentation: fenced blocks, found, compiled and run."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FOLDERS = (".", "howto", "migrating", "spark", "tutorial")
PAGES = [
    ROOT / "README.md",
    # docs/protocol is generated, and docs/api has only directives.
    *sorted(page for folder in FOLDERS for page in (DOCS / folder).glob("*.md")),
]

ADDRESS = "localhost:9092"
"""The address that pages write for a cluster. A run puts the test's broker in its place."""
VARIES = "…"
"""What an output shows in place of text that differs between runs; on a line of its own, in place of any lines."""

_FENCE = re.compile(
    r"^(?P<indent> *)```python(?P<info>[^\n]*)\n(?P<code>.*?)^(?P=indent)```\n"
    r"(?:\n?(?P=indent)```text\n(?P<output>.*?)^(?P=indent)```)?",
    re.MULTILINE | re.DOTALL,
)
# Address spaces differ between runs, and belong to no page.
_ADDRESSES = re.compile(r"(?:127\.0\.0\.1|localhost):\d+")


class Snippet(NamedTuple):
    """A block of Python.

    Attributes:
        page: The file that has it.
        line: The number of the line before its first.
        fragment: Whether it's marked as a part of a program: its info string is ``python fragment``.
        file: The name of the file that the reader saves it in (``python produce.py``); None if it's pasted.
        code: The text.
        output: What the block under it says that it prints; None if there is no such block.
    """

    page: Path
    line: int
    fragment: bool
    file: str | None
    code: str
    output: str | None

    @property
    def starts_a_loop(self) -> bool:
        """Whether it runs an event loop of its own, so that it needs a thread without one."""
        return "asyncio.run(" in self.code or "simulation.run(" in self.code

    def compiled(self, address: str = ADDRESS) -> CodeType:
        """Compile it, with ``await`` allowed anywhere; line numbers are those of the page.

        Raises:
            SyntaxError: It isn't Python.
        """
        text, flags = "\n" * self.line + self.code.replace(ADDRESS, address), ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code: CodeType = compile(text, str(self.page), "exec", flags=flags, dont_inherit=True)
        return code

    def imports(self) -> Iterator[str]:
        """Yield its import statements."""
        for node in ast.walk(ast.parse(self.code)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield ast.unparse(node)

    async def execute(self, namespace: dict[str, Any], address: str = ADDRESS) -> str:
        """Run it, and return what it prints."""
        printed, code = io.StringIO(), self.compiled(address)
        with contextlib.redirect_stdout(printed):
            if self.starts_a_loop:
                await asyncio.to_thread(exec, code, namespace)
            elif inspect.isawaitable(result := eval(code, namespace)):
                await result
        return printed.getvalue()


def snippets(page: Path) -> list[Snippet]:
    """Return all snippets of a page.

    Raises:
        ValueError: The info string of one says something unknown: a misspelt mark would keep it from being run.
    """
    text = page.read_text()
    found = []
    for block in _FENCE.finditer(text):
        info = block["info"].strip()
        if not re.fullmatch(r"|fragment|[\w-]+\.py", info):
            raise ValueError(f"{page.name}: a python block is marked {info}")
        line = text.count("\n", 0, block.start("code"))
        file = info if info.endswith(".py") else None
        found.append(Snippet(page, line, info == "fragment", file, block["code"], block["output"]))
    return found


def shows(output: str, printed: str) -> bool:
    """Return whether a page's output is what a run has printed, apart from what varies."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == VARIES else ".*?".join(map(re.escape, line.split(VARIES))) + r"\n"
        for line in without_address(output).splitlines()
    )
    return re.fullmatch(pattern, without_address(printed)) is not None


def without_address(text: str) -> str:
    """Return a text with one address for all brokers, without empty lines and spaces at the ends of lines."""
    return "".join(f"{line.rstrip()}\n" for line in _ADDRESSES.sub(ADDRESS, text).splitlines() if line.strip())

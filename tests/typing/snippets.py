"""The snippets of the short answers as modules, for type checkers."""

from __future__ import annotations

import textwrap
from pathlib import Path

from tests.docs.snippets import PAGES, snippets

# As on a page, a name can be bound again to another type. The page's code becomes a coroutine, because it can await.
_HEAD = """# mypy: allow-redefinition-new, local-partial-types
from __future__ import annotations


async def page() -> None:
"""


def write(folder: Path) -> list[Path]:
    """Write a module for each page with its programs; returns them."""
    modules = []
    for page in PAGES:
        code = "".join(snippet.code for snippet in snippets(page) if not snippet.fragment)
        if code and page.parent.name == "howto":
            module = folder / f"howto_{page.stem.replace('-', '_')}.py"
            text = _HEAD + textwrap.indent(code, "    ")
            # mypy's cache goes by time and content.
            if not module.exists() or module.read_text() != text:
                module.write_text(text)
            modules.append(module)
    return modules

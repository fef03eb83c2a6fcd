"""``python -m tests.docs.outputs PAGE…``: run the programs of pages, and write what they print under them.

An output that agrees stays as it is, with what it marks as varying.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from aiokproto.broker import Broker
from tests.docs.snippets import ROOT, shows, snippets
from tests.docs.test_snippets import EXAMPLES, runs


async def rewrite(page: Path) -> None:
    """Bring the outputs of one page up to date."""
    namespace: dict[str, Any] = {"__name__": page.stem}
    text = page.read_text()
    async with Broker() as broker:
        await broker.create_topic("flights", partitions=3)
        for snippet in snippets(EXAMPLES):
            await snippet.execute({}, broker.bootstrap_servers)
        for snippet in filter(runs, snippets(page)):
            scope = {"__name__": "__main__"} if "asyncio.run(" in snippet.code else namespace
            printed = await snippet.execute(scope, broker.bootstrap_servers)
            if not shows(snippet.output or "", printed):
                end = f"{snippet.code}```\n"
                old = end if snippet.output is None else f"{end}\n```text\n{snippet.output}```\n"
                text = text.replace(old, f"{end}\n```text\n{printed}```\n" if printed else end)
    page.write_text(text)


if __name__ == "__main__":
    pages = [Path(name).resolve() for name in sys.argv[1:]]
    # Programs write files.
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for each in pages:
            asyncio.run(rewrite(each))
        os.chdir(ROOT)

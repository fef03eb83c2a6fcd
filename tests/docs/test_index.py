"""The front page is a session: each step, pasted into ``python -m asyncio``, prints what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.docs.snippets import ROOT, snippets
from tests.timeouts import LONG_TIMEOUT

PAGE = ROOT / "docs" / "index.md"
_OUTPUT = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PROMPTS = re.compile(r"^(?:(?:>>>|\.\.\.) )+", re.MULTILINE)
_PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+")


def test_each_step_prints_what_the_page_shows() -> None:
    steps = snippets(PAGE)
    assert len(steps) >= 4
    assert all(step.run for step in steps)
    # An empty line ends a block at the prompt.
    pasted = "".join(f"{step.code}\n" for step in steps)
    done = subprocess.run(
        [sys.executable, "-m", "asyncio"], input=pasted, capture_output=True, text=True, timeout=4 * LONG_TIMEOUT
    )
    printed = _PROMPTS.sub("", done.stdout).splitlines()
    shown = "".join(_OUTPUT.findall(PAGE.read_text())).splitlines()
    assert "Traceback" not in done.stderr, done.stderr
    assert shown
    assert [_PORT.sub("PORT", line) for line in printed if line] == [_PORT.sub("PORT", line) for line in shown]

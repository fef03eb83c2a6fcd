"""The page's example runs. It has its own event loop, so the test runs it outside of one."""

from __future__ import annotations

from tools.setup.project import ROOT

PAGE = ROOT / "docs" / "simulation.md"


def test_the_first_example() -> None:
    example = PAGE.read_text().split("```python\n")[1].split("```")[0]
    exec(compile(example, str(PAGE), "exec"), {"__name__": "example"})

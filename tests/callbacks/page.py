"""The tables of docs/callbacks.md, made from the table that the tests here prove.

``python -m tests.callbacks.page`` writes them.
"""

from __future__ import annotations

from tests.callbacks.table import ORDER, TABLE, Callback
from tools.setup.project import ROOT

PAGE = ROOT / "docs" / "callbacks.md"
START, END = "<!-- tables of tests/callbacks -->\n", "<!-- end of tables -->"

HEADERS = {
    "RAISES": "an exception",
    "OTHERS": "a foreign `CancelledError`",
    "HANGS": "hangs",
    "SWALLOWS": "swallows",
    "ITSELF": "cancels its task",
    "WRONG": "a wrong result",
}


def tables() -> str:
    """The sections of all groups."""
    return "\n".join(f"## {group.title}\n\n{_table(group.rows)}" for group in TABLE)


def _table(rows: tuple[Callback, ...]) -> str:
    titles = ["callback", "is called", *(HEADERS[case.name] for case in ORDER)]
    lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    for row in rows:
        cells = [row.name, row.called, *("" if cell is None else str(cell) for cell in row.cells)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """The page with the tables of today between its marks."""
    before, _, rest = text.partition(START)
    return f"{before}{START}\n{tables()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))

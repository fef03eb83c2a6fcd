"""Tables, for the terminal and for pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import rich.table
from rich.console import Console
from rich.markup import escape

WIDTH = 118


@dataclass(frozen=True)
class Table:
    """Text by rows and columns.

    Attributes:
        figures: Headings of the columns that are aligned to the right.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    figures: Sequence[str] = ()


def console(*, to_stderr: bool = False) -> Console:
    made = Console(stderr=to_stderr, highlight=False, soft_wrap=False)
    # A file or pipe has no width: the tables get the width they need.
    return made if made.is_terminal else Console(stderr=to_stderr, highlight=False, width=WIDTH)


def show(out: Console, table: Table) -> None:
    shown = rich.table.Table(title=escape(table.title), title_justify="left")
    for heading in table.headings:
        shown.add_column(heading, justify="right" if heading in table.figures else "left")
    for row in table.rows:
        shown.add_row(*map(escape, row))
    out.print(shown)


def markdown(table: Table, level: int) -> str:
    """The table below a heading of that level."""
    ruler = ["---:" if heading in table.figures else "---" for heading in table.headings]
    rows = [table.headings, ruler, *([cell.replace("|", "\\|") for cell in row] for row in table.rows)]
    return f"{'#' * level} {table.title}\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)

"""The tables of docs/compatibility.md, made of the rows that the tests here declare and prove.

``python -m tests.compatibility.page`` writes them.
"""

from __future__ import annotations

from importlib import import_module

from tests.compatibility.matrix import ROWS, Row
from tests.kafka.releases import RELEASES
from tools.setup.project import ROOT

PAGE = ROOT / "docs" / "compatibility.md"
MODULES = ("test_producing", "test_consuming", "test_requests")
AREAS = ("Producing", "Reading and offsets", "Groups", "Requests with `Client`")
START, END = "<!-- tables of tests/compatibility -->\n", "<!-- end of tables -->"


def declared() -> list[Row]:
    """Every row, in the order of the page."""
    for name in MODULES:
        import_module(f"tests.compatibility.{name}")
    # Sort them by area, because pytest imports modules in any order, and drop duplicates, because it can import a
    # module a second time under another name.
    return sorted(dict.fromkeys(ROWS), key=lambda row: AREAS.index(row.area))


def tables(rows: list[Row]) -> str:
    """One table for each area: rows by release."""
    return "\n".join(_table(area, [row for row in rows if row.area == area]) for area in AREAS)


def named(release: str) -> str:
    """Return a release as the head of a column, without the numbers that say nothing in 0.9.0.1, 0.10.2.2 and 2.8.2."""
    parts = release.split(".")
    return ".".join(parts[:2]) if parts[0] != "0" else ".".join(parts[:3]).removesuffix(".0")


def _table(area: str, rows: list[Row]) -> str:
    names = [named(release) for release in RELEASES]
    lines = [
        f"### {area}\n",
        f"| | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
        *(f"| {row.name} | {' | '.join('yes' if row.works(each) else '—' for each in RELEASES)} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """Return the page with the current tables between its marks."""
    before, _, rest = text.partition(START)
    return f"{before}{START}\n{tables(declared())}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))

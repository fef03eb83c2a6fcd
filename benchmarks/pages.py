"""``python -m benchmarks.pages [RESULTS.json]``: puts a run's tables and chart into ``docs/performance.md``.

Without a file it takes the newest whole run (not a quick one) of ``.cache/bench``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import chart, codec, report, runner, tables

PAGE = runner.ROOT / "docs" / "performance.md"
CHART = "performance.svg"


class PageError(Exception):
    """There is nothing to make the page of, or no place in the page to put it."""


def newest(folder: Path) -> Path:
    """The results of the newest whole run."""
    for path in sorted(folder.glob("*.json"), reverse=True):
        if whole(json.loads(path.read_text())):
            return path
    raise PageError(f"{folder} has no results of a whole run: `make bench` makes them")


def whole(results: dict[str, Any]) -> bool:
    """Whether this is of a run that left nothing out because somebody was in a hurry."""
    return bool(results.get("whole"))


def measured(results: dict[str, Any]) -> str:
    """The part of the page that comes from the figures."""
    made = [*report.tables(results), *(codec.tables(results["codec"]) if "codec" in results else ())]
    parts = [f"Measured at {results['at']} on {report.where(results)}.", report.how(results)]
    parts += [f"![CPU and wall time of each client]({CHART})"] if results.get("cells") else []
    return "\n" + "\n\n".join([*parts, markdown(made)]) + "\n\n"


def markdown(made: Iterable[tables.Table]) -> str:
    """Tables below headings of the third level."""
    return "\n\n".join(tables.markdown(table, level=3).rstrip() for table in made)


def put(page: str, section: str, text: str) -> str:
    """The page with one of its sections replaced.

    Raises:
        PageError: It has no section of that name, or several.
    """
    found = re.compile(f"(?<=<!-- begin: {section} -->\n).*?(?=<!-- end: {section} -->)", re.DOTALL)
    new, count = found.subn(lambda _: text, page)
    if count != 1:
        raise PageError(f"the page has {count} sections called {section}, not one")
    return new


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("results", type=Path, nargs="?", help="the JSON of a run")
    parser.add_argument("--page", type=Path, default=PAGE, help="(default docs/performance.md)")
    arguments = parser.parse_args()
    try:
        source = arguments.results or newest(runner.RESULTS)
        results = json.loads(source.read_text())
        arguments.page.write_text(put(arguments.page.read_text(), "measured", measured(results)))
    except PageError as error:
        print(error, file=sys.stderr)
        return 1
    if results.get("cells"):
        arguments.page.with_name(CHART).write_text(chart.svg(results))
    print(f"{arguments.page}: {source}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

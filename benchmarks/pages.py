"""``python -m benchmarks.pages [RESULTS.json]``: puts a run's tables and chart into ``docs/performance.md``.

Without a file it takes the newest whole run (not a quick one) of ``.cache/bench``, and from the newest of those with
``--long`` what takes minutes. The newest whole run of ``benchmarks.spark`` goes into it, too.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import chart, codec, report, runner, tables
from benchmarks.extras import EXTRAS
from benchmarks.spark import report as spark

PAGE = runner.ROOT / "docs" / "performance.md"
CHART = "performance.svg"
LONG = tuple(extra.title for extra in EXTRAS.values() if extra.long)


class PageError(Exception):
    """There are no results, or the page has no section for them."""


def newest(folder: Path, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
    """The results of the newest run that ``wanted`` accepts."""
    runs = (json.loads(path.read_text()) for path in sorted(folder.glob("*.json"), reverse=True))
    return next(filter(wanted, runs), None)


def whole(results: dict[str, Any]) -> bool:
    """Whether this is a complete run, not a quick one."""
    return bool(results.get("whole"))


def long(results: dict[str, Any]) -> bool:
    """Whether this has all long measurements."""
    kinds = {cell["kind"] for cell in results.get("cells", [])}
    return all(name in kinds for name, extra in EXTRAS.items() if extra.long)


def measured(results: dict[str, Any]) -> str:
    """The section of the page with the measured figures."""
    made = [*report.tables(results), *(codec.tables(results["codec"]) if "codec" in results else ())]
    parts = [f"![CPU and wall time of each client]({CHART})"] if results.get("cells") else []
    parts += ["## The figures", f"Measured at {results['at']} on {report.where(results)}.", report.how(results)]
    return "\n" + "\n\n".join([*parts, markdown(made)]) + "\n\n"


def at_length(results: dict[str, Any]) -> str:
    """The section of the page with the long measurements."""
    table = report.extras(results)
    table = replace(table, title="At length", rows=[row for row in table.rows if row[0].startswith(LONG)])
    return f"\n{markdown([table])}\n\nMeasured at {results['at']} on {report.where(results)}.\n\n"


def with_spark(results: dict[str, Any]) -> str:
    """The section of the page with the figures of PySpark."""
    chart_line = f"![CPU time of each way to read with PySpark]({spark.CHART})"
    return f"\n{chart_line}\n\n{spark.section(results)}\n\n{markdown(spark.tables(results))}\n\n"


def markdown(made: Iterable[tables.Table]) -> str:
    """Tables below headings of the third level."""
    return "\n\n".join(tables.markdown(table, level=3).rstrip() for table in made)


def put(page: str, section: str, text: str) -> str:
    """The page with one of its sections replaced.

    Raises:
        PageError: It has no section of that name, or several.
    """
    found = re.compile(f"(?<=<!-- start: {section} -->\n).*?(?=<!-- end: {section} -->)", re.DOTALL)
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
        results = json.loads(arguments.results.read_text()) if arguments.results else newest(runner.RESULTS, whole)
        if results is None:
            raise PageError(f"{runner.RESULTS} has no results of a whole run: `make bench` makes them")
        page = put(arguments.page.read_text(), "measured", measured(results))
        lengthy = newest(runner.RESULTS, long)
        if lengthy is not None:
            page = put(page, "long", at_length(lengthy))
        with_pyspark = newest(spark.RESULTS, whole)
        if with_pyspark is not None:
            page = put(page, "spark", with_spark(with_pyspark))
            arguments.page.with_name(spark.CHART).write_text(spark.svg(with_pyspark))
        arguments.page.write_text(page)
    except PageError as error:
        print(error, file=sys.stderr)
        return 1
    if results.get("cells"):
        arguments.page.with_name(CHART).write_text(chart.svg(results))
    print(f"{arguments.page}: measured at {results['at']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

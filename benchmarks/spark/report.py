"""The results as tables, as a chart, and as a section of a page. They are made from the JSON file alone."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import groupby
from typing import Any

from benchmarks import report, runner
from benchmarks.chart import OTHERS, OURS, STYLE
from benchmarks.tables import Table

RESULTS = runner.RESULTS / "spark"
CHART = "performance-spark.svg"
TITLES = {
    "read": "Reading",
    "filter": "Reading with a filter",
    "write": "Writing",
    "latency": "Latency of a stream",
}
COLUMNS = {
    "million rows/s": ("rate", 2),
    "CPU µs a row": ("cpu_us", 2),
    "broker CPU µs a row": ("broker_cpu_us", 2),
    "rows p50 ms": ("row p50 ms", 0),
    "rows p99 ms": ("row p99 ms", 0),
    "batches p50 ms": ("batch p50 ms", 0),
    "batches p99 ms": ("batch p99 ms", 0),
}
"""Heading → the median it shows, and with how many digits."""

Results = Mapping[str, Any]
Cell = Mapping[str, Any]


def tables(results: Results) -> Iterator[Table]:
    """A table for each kind of work and number of tasks."""
    for cores, of_cores in groupby(results["cells"], lambda cell: cell["cores"]):
        cells = list(of_cores)
        for kind, title in TITLES.items():
            if found := [cell for cell in cells if cell["kind"] == kind]:
                tasks = "1 task at a time" if cores == 1 else f"{cores} tasks at a time"
                yield _table(f"{title}: {tasks}", found)


def _table(title: str, cells: Sequence[Cell]) -> Table:
    shown = {
        heading: column for heading, column in COLUMNS.items() if any(column[0] in cell["median"] for cell in cells)
    }
    rows = [
        (
            cell["data"],
            f"{cell['rows']:,}",
            str(cell["rounds"]),
            cell["way"],
            *(_figure(cell, *column) for column in shown.values()),
        )
        for cell in cells
    ]
    return Table(title, ("values", "rows", "rounds", "way", *shown), rows, ("rows", "rounds", *shown))


def _figure(cell: Cell, name: str, digits: int) -> str:
    if cell["error"]:
        return "failed"
    return f"{cell['median'][name]:.{digits}f}" if name in cell["median"] else "-"


def how(results: Results) -> str:
    """How it was measured, in a paragraph."""
    sockets = "TCP, Spark's default" if results["tcp"] else "Unix domain sockets (see [tuning](spark/tuning.md))"
    return (
        f"PySpark {results['spark']}, with its Java and Python processes connected by {sockets}; 4 partitions; medians "
        "of the rounds, in which all ways of a topic took turns. CPU time is all processes' of Spark, Java's and the "
        "Python workers'. With a filter, rates and CPU are for all rows of the topic. The load average was "
        f"{results['load']:.1f} at the start: compare figures of one table alone. “Tuned” is the best that we found by "
        "hand for Spark's own connector (`benchmarks/spark/reading.py`, `writing.py`)."
    )


def section(results: Results) -> str:
    """The text before the tables of the page."""
    return f"Measured at {results['at']} on {report.where(results)}. {how(results)}"


def svg(results: Results) -> str:
    """Bars of the CPU time that a row takes to read, a panel for each kind of data."""
    most = max(cell["cores"] for cell in results["cells"])
    cells = [cell for cell in results["cells"] if cell["kind"] == "read" and cell["cores"] == most]
    cells = [cell for cell in cells if not cell["error"]]
    data = list(dict.fromkeys(cell["data"] for cell in cells))
    ways = list(dict.fromkeys(cell["way"] for cell in cells))
    columns = min(3, len(data))
    # It may be missing where the benchmarks are run or their types are checked.
    matplotlib, figures = import_module("matplotlib"), import_module("matplotlib.figure")
    with matplotlib.rc_context(STYLE):
        lines = -(-len(data) // columns)
        figure = figures.Figure(figsize=(3 * columns + 1, (0.3 * len(ways) + 0.5) * lines + 0.4), layout="constrained")
        panels = figure.subplots(lines, columns, squeeze=False, sharey=True).flat
        for panel in panels[len(data) :]:
            panel.set_axis_off()
        for panel, one in zip(panels, data, strict=False):
            _panel(panel, one, ways, [cell for cell in cells if cell["data"] == one])
        figure.supxlabel("CPU µs to read a row: Spark with its Python workers; less is better", fontsize=9)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    # matplotlib leaves spaces at line ends, which a repository does not want.
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"


def _panel(panel: Any, title: str, ways: Sequence[str], cells: Sequence[Cell]) -> None:
    for cell in cells:
        place, cost = ways.index(cell["way"]), cell["median"]["cpu_us"]
        panel.barh(place, cost, color=(OURS if cell["way"].startswith("aiokproto") else OTHERS)[0], height=0.6)
        panel.annotate(f"{cost:.2f}", (cost, place), (3, 0), textcoords="offset points", va="center", fontsize=8)
    panel.set_title(title, loc="left", fontsize=9, fontweight="bold")
    panel.set_yticks(range(len(ways)), ways)
    panel.set_ylim(len(ways) - 0.4, -0.6)
    panel.tick_params(axis="y", length=0)
    panel.margins(x=0.3)

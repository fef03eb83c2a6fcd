"""The chart: what a message costs each client, at its cheapest call."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from benchmarks.work import Data

# Of CPU time, and of wall time behind it.
OURS, OTHERS = ("#1d4e89", "#a9c7e8"), ("#5a6472", "#d5dae1")
KINDS = ("produce", "consume")
STYLE = {
    # Text stays text: it can be searched, and takes the reader's font. The same figures make the same file.
    "svg.fonttype": "none",
    "svg.hashsalt": "aiokproto",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
}


def svg(results: Mapping[str, Any]) -> str:
    """Bars of CPU time before bars of wall time, a row for each kind of work, a column for each kind of data."""
    measured = [cell for cell in results["cells"] if cell["kind"] in KINDS and not cell["error"]]
    data = list(dict.fromkeys(Data(**cell["data"]) for cell in measured))
    clients = list(dict.fromkeys(cell["client"] for cell in measured))
    kinds = [kind for kind in KINDS if any(cell["kind"] == kind for cell in measured)]
    # It may be missing where the benchmarks are run or their types are checked.
    matplotlib, figures = import_module("matplotlib"), import_module("matplotlib.figure")
    with matplotlib.rc_context(STYLE):
        figure = figures.Figure(
            figsize=(3 * len(data) + 1, 0.3 * len(clients) * len(kinds) + 1.4), layout="constrained"
        )
        panels = figure.subplots(len(kinds), len(data), squeeze=False, sharey=True)
        for row, kind in zip(panels, kinds, strict=True):
            for panel, one in zip(row, data, strict=True):
                cells = [cell for cell in measured if cell["kind"] == kind and Data(**cell["data"]) == one]
                _panel(panel, f"{kind}, {one}", clients, cells)
        figure.supxlabel(
            "µs per message: CPU time of the client (dark) / wall time (light); less is better", fontsize=9
        )
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    # matplotlib leaves spaces at line ends, which a repository does not want.
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"


def _panel(panel: Any, title: str, clients: Sequence[str], cells: Sequence[Mapping[str, Any]]) -> None:
    cheapest: dict[str, Mapping[str, float]] = {}
    for cell in sorted(cells, key=lambda cell: float(cell["median"]["cpu_us"]), reverse=True):
        cheapest[cell["client"]] = cell["median"]
    for client, median in cheapest.items():
        place, (cpu_colour, wall_colour) = clients.index(client), OURS if client.startswith("aiokproto") else OTHERS
        cpu, wall = median["cpu_us"], median["wall_us"]
        panel.barh(place, wall, color=wall_colour, height=0.7)
        panel.barh(place, cpu, color=cpu_colour, height=0.35)
        panel.annotate(
            f"{cpu:.1f} / {wall:.1f}",
            (max(cpu, wall), place),
            (3, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    panel.set_title(title, loc="left", fontsize=9, fontweight="bold")
    panel.set_yticks(range(len(clients)), clients)
    panel.set_ylim(len(clients) - 0.4, -0.6)
    panel.tick_params(axis="y", length=0)
    panel.margins(x=0.3)

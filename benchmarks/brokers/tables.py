"""The measurements of brokers as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.tables import Table
from benchmarks.work import Data

TITLES = {"produce": "Brokers: messages written", "consume": "Brokers: messages read"}
LATENCIES = {"latency": "awaited send", "trip": "from a send to its reader"}
COSTS = ("CPU µs of the broker", "messages/s")
TIMES = ("p50 ms", "p99 ms", "CPU µs of the broker")

Broker = Mapping[str, Any]


def tables(brokers: Sequence[Broker]) -> Iterator[Table]:
    """What each broker is, then what was measured, like rows of all brokers together."""
    yield _brokers(brokers)
    for kind, title in TITLES.items():
        rows = [
            (*_what(cell), name, *_figures(cell, ("broker_cpu_us",)), _rate(cell))
            for name, cell in _alike(brokers)
            if cell["kind"] == kind
        ]
        yield Table(title, ("messages", "partitions", "client", "broker", *COSTS), rows, COSTS)
    rows = [
        (LATENCIES[cell["kind"]], cell["client"], name, *_figures(cell, ("p50 ms", "p99 ms", "broker_cpu_us")))
        for name, cell in _alike(brokers)
        if cell["kind"] in LATENCIES
    ]
    yield Table("Brokers: 100 B, one by one", ("what", "client", "broker", *TIMES), rows, TIMES)


def failures(brokers: Sequence[Broker]) -> list[str]:
    """Failed measurements, a line each."""
    broken = [f"{each['broker']}: {each['error']}" for each in brokers if "error" in each]
    cells = [
        f"{each['broker']}, {cell['kind']}, {Data(**cell['data'])}, {cell['client']}: {cell['error']}"
        for each in brokers
        for cell in each.get("cells", ())
        if cell["error"]
    ]
    return [*broken, *cells]


def _brokers(brokers: Sequence[Broker]) -> Table:
    rows = []
    for each in brokers:
        if "cells" in each:
            rows.append((each["broker"], each["version"], f"{each['start_ms']:,.0f}", f"{each['peak_mib']:,.0f}"))
        else:
            why = f"left out: {each['missing']}" if "missing" in each else "cannot be measured"
            rows.append((each["broker"], why, "-", "-"))
    return Table("Brokers", ("broker", "version", "start ms", "peak MiB"), rows, ("start ms", "peak MiB"))


def _alike(brokers: Sequence[Broker]) -> Iterator[tuple[str, Broker]]:
    """The cells with the brokers' names: the first of every broker, the second of every broker, and so on."""
    measured = [[(each["broker"], cell) for cell in each["cells"]] for each in brokers if "cells" in each]
    for row in zip(*measured, strict=True):
        yield from row


def _what(cell: Broker) -> tuple[str, str, str]:
    return str(Data(**cell["data"])), f"{cell['options']['partitions']}", cell["client"]


def _rate(cell: Broker) -> str:
    return "failed" if cell["error"] else f"{1e6 / cell['median']['wall_us']:,.0f}"


def _figures(cell: Broker, labels: Sequence[str]) -> list[str]:
    found = (cell["median"].get(label) for label in labels)
    return ["failed" if cell["error"] else "-" if value is None else f"{value:,.2f}" for value in found]

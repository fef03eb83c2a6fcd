"""Results as tables. They are made from the JSON file alone, so that the page can be made from an earlier run."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.brokers import tables as brokers
from benchmarks.extras import EXTRAS, imports
from benchmarks.tables import Table
from benchmarks.work import IN_TRANSACTION, KINDS, Data

HEADINGS = {
    "produce": "Produce",
    "latency": "Produce, awaited one by one",
    "transact": f"Produce, in transactions of {IN_TRANSACTION}",
    "consume": "Consume",
}
COLUMNS = {
    "CPU µs": ("cpu_us", 2),
    "wall µs": ("wall_us", 2),
    "p50 ms": ("p50 ms", 2),
    "p99 ms": ("p99 ms", 2),
    "peak MiB": ("peak_mib", 0),
}
"""Heading → the median it shows, and with how many digits."""
SHOWN = {
    "produce": ("CPU µs", "wall µs", "peak MiB"),
    "consume": ("CPU µs", "wall µs", "peak MiB"),
    "latency": ("p50 ms", "p99 ms", "CPU µs", "peak MiB"),
    "transact": ("p50 ms", "p99 ms", "CPU µs", "peak MiB"),
}
WITH_RATIO = ("CPU µs", "wall µs", "p50 ms", "p99 ms")

Results = Mapping[str, Any]


def machine() -> dict[str, Any]:
    """The machine and software that were measured."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or "unknown")


def where(results: Results) -> str:
    """The machine and the broker, in a line."""
    on = results["machine"]
    return f"{on['python']} · {on['system']} · {on['cores']} cores, {on['cpu']} · {results.get('broker', 'no broker')}"


def how(results: Results) -> str:
    """How the tables were measured, in a paragraph."""
    plan = results["plan"]
    return (
        f"Each cell: {plan['messages']:,} messages without keys (awaited: a hundredth; in transactions: a tenth), "
        f"{plan['settings']['partitions']} partitions, one replica; medians of {plan['rounds']} rounds, in fresh "
        "processes, after a warm-up. Times are per message; CPU time is the client process's, with all its threads. "
        f"A ratio is to the first row of {results['ratio_to']}: above 1 takes more."
    )


def tables(results: Results) -> Iterator[Table]:
    if results.get("clients"):
        yield settings(results)
        yield clients(results)
    cells = results.get("cells", [])
    for kind in KINDS:
        for data, group in groupby((cell for cell in cells if cell["kind"] == kind), lambda cell: _data(cell)):
            if kind in SHOWN:
                yield _cells(f"{HEADINGS[kind]}: {data}", kind, list(group), results["ratio_to"])
    beside = extras(results)
    if beside.rows:
        yield beside
    if results.get("brokers"):
        yield from brokers.tables(results["brokers"])


def extras(results: Results) -> Table:
    """Measurements other than throughput."""
    return Table("Other measurements", ("what", "messages", "client", "figures"), list(_extra_rows(results)))


def settings(results: Results) -> Table:
    """The settings of all clients, and the clients that deviate."""
    plan = results["plan"]["settings"]
    rows = {
        "acks": "all",
        "linger": f"{plan['linger_ms']} ms (0 where sends are awaited)",
        "batch": f"{plan['batch_bytes'] >> 10} KiB",
        "compression": "as each table says, at each client's default level",
        "in flight": f"{plan['in_flight']} requests for each broker",
        "idempotence": "on" if plan["idempotence"] else "off",
        "fetch": f"up to {plan['fetch_max_bytes'] >> 20} MiB, {plan['partition_fetch_bytes'] >> 20} MiB a partition",
        "CRCs": "checked",
        "commits": "none",
    }
    measured = [client for client in results["clients"] if "stated" in client]
    return Table(
        "Settings",
        ("setting", "all clients", "exceptions"),
        [(name, value, _differing(measured, name)) for name, value in rows.items()],
    )


def _differing(clients: Sequence[Results], name: str) -> str:
    differs = ((client["client"], client["stated"]["differs"].get(name)) for client in clients)
    return "; ".join(f"{client}: {value}" for client, value in differs if value is not None)


def clients(results: Results) -> Table:
    rows = []
    for client in results["clients"]:
        if "stated" in client:
            stated = client["stated"]
            rows.append((client["client"], client["version"], stated["works_in"], ", ".join(stated["notes"])))
        else:
            why = f"left out: {client['missing']}" if "missing" in client else f"cannot be measured: {client['error']}"
            rows.append((client["client"], "-", "-", why))
    return Table("Clients", ("client", "version", "works in", "notes"), rows)


def failures(results: Results) -> list[str]:
    """Failed measurements, a line each."""
    failed = [f"{_data(cell)}, {_name(cell)}: {cell['error']}" for cell in results.get("cells", []) if cell["error"]]
    broken = [f"{one['client']}: {one['error']}" for one in results.get("clients", []) if "error" in one]
    return [*broken, *failed, *brokers.failures(results.get("brokers", []))]


def _cells(title: str, kind: str, cells: Sequence[Results], ratio_to: str) -> Table:
    base: Results = next((cell["median"] for cell in cells if cell["client"] == ratio_to), {})
    headings: list[str] = []
    for column in SHOWN[kind]:
        headings += [column, f"{column.split()[0]} ratio"] if column in WITH_RATIO else [column]
    rows = []
    for cell in cells:
        row = [cell["client"], cell["way"]]
        for column in SHOWN[kind]:
            name, digits = COLUMNS[column]
            value, its_base = cell["median"].get(name), base.get(name)
            row.append("failed" if cell["error"] else "-" if value is None else f"{value:,.{digits}f}")
            if column in WITH_RATIO:
                row.append(f"{value / its_base:.2f}" if value is not None and its_base else "-")
        rows.append(row)
    return Table(title, ("client", "call", *headings), rows, figures=headings)


def _extra_rows(results: Results) -> Iterator[tuple[str, str, str, str]]:
    for cell in results.get("cells", []):
        figures = cell["median"]
        if cell["kind"] in EXTRAS:
            title = EXTRAS[cell["kind"]].title
            chosen = {label: figures[label] for label in figures if label not in ("cpu_us", "wall_us", "peak_mib")}
        elif cell["kind"] == "start":
            title = "first acknowledgement, from nothing"
            chosen = {label: figures[f"{label.split()[0].lower()}_us"] / 1e3 for label in _START if figures}
        else:
            continue
        options = "".join(f", {value:,} {name}" for name, value in cell["options"].items())
        yield f"{title}{options}", _data(cell), cell["client"], "failed" if cell["error"] else _figures(chosen)
    for name, chosen in imports.labelled(results.get("imports_ms", {})).items():
        yield "start and import", "", name, _figures(chosen)


_START = ("wall ms", "CPU ms")


def _figures(labelled: Mapping[str, float]) -> str:
    return " · ".join(
        f"{label} {value:,.0f}" if value >= 100 else f"{label} {value:,.2f}" for label, value in labelled.items()
    )


def _data(cell: Results) -> str:
    return str(Data(**cell["data"]))


def _name(cell: Results) -> str:
    return f"{cell['kind']}: {cell['client']} {cell['way']}".strip()

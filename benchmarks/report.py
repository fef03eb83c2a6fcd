"""Results for people (tables) and for programs (JSON)."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.runner import Cell, Plan, baseline

WIDTH = 118
HEADINGS = {"produce": "Produce", "latency": "Produce, awaited one by one", "consume": "Consume"}


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
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


def console(*, to_stderr: bool = False) -> Console:
    made = Console(stderr=to_stderr, highlight=False, soft_wrap=False)
    # Nobody can widen a file or a pipe: the tables get what they need.
    return made if made.is_terminal else Console(stderr=to_stderr, highlight=False, width=WIDTH)


def as_json(plan: Plan, clients: Sequence[dict[str, Any]], cells: Sequence[Cell], broker: str) -> dict[str, Any]:
    return {
        "machine": machine(),
        "broker": broker,
        "plan": asdict(plan),
        "clients": list(clients),
        "cells": [
            {
                **asdict(cell),
                "cpu_us": _micros(cell.median("cpu")),
                "wall_us": _micros(cell.median("wall")),
            }
            for cell in cells
        ],
    }


def show(out: Console, plan: Plan, clients: Sequence[dict[str, Any]], cells: Sequence[Cell], broker: str) -> None:
    where = machine()
    out.print(f"[bold]{where['python']}[/] · {where['system']} · {where['cores']} cores, {where['cpu']} · {broker}")
    out.print(_told(plan))
    out.print(_clients(clients))
    for size in plan.sizes:
        for kind in plan.kinds:
            group = [cell for cell in cells if (cell.kind, cell.size) == (kind, size)]
            if group:
                make = _latency_table if kind == "latency" else _throughput_table
                out.print(make(f"{HEADINGS[kind]}, {size} B values", group))
    for cell in cells:
        if cell.error is not None:
            out.print(f"[red]failed:[/] {escape(str(cell))}: {escape(cell.error)}")
    out.print(
        f"Medians of {plan.rounds} rounds, each cell in a fresh process after a warm-up. Times are per message; CPU is "
        "that of the client's process, all its threads. A ratio is to aiokproto's first row: above 1 takes more.",
        style="dim",
    )


def _told(plan: Plan) -> str:
    told = plan.settings
    return (
        f"{plan.messages:,} messages without keys, {told.partitions} partitions, one replica. All are told: "
        f"acks=all, linger {told.linger_ms} ms (awaited: 0), batches of {told.batch_bytes >> 10} KiB, no compression, "
        f"{told.in_flight} in flight; fetches of {told.fetch_max_bytes >> 20} MiB, "
        f"{told.partition_fetch_bytes >> 10} KiB a partition, no commits."
    )


def _clients(clients: Sequence[dict[str, Any]]) -> Table:
    table = Table("client", "version", "otherwise", title="Clients", title_justify="left")
    for client in clients:
        if "error" in client:
            table.add_row(client["client"], "-", f"[red]cannot be measured:[/] {escape(client['error'])}")
        elif "missing" in client:
            table.add_row(client["client"], "-", f"not measured: {client['missing']}", style="dim")
        else:
            stated = ", ".join(f"{name}: {value}" for name, value in client["stated"].items())
            table.add_row(client["client"], client["version"], stated)
    return table


def _throughput_table(title: str, cells: Sequence[Cell]) -> Table:
    table = Table("client", "call", title=title, title_justify="left")
    for heading in ("CPU µs", "ratio", "range", "wall µs", "ratio", "messages/s"):
        table.add_column(heading, justify="right")
    for cell in cells:
        cpu, wall = cell.median("cpu"), cell.median("wall")
        if cpu is None or wall is None:
            table.add_row(cell.client, cell.way, "[red]failed[/]")
            continue
        rounds = [seconds * 1e6 for seconds in cell.per_message("cpu")]
        table.add_row(
            cell.client,
            cell.way,
            f"{cpu * 1e6:.2f}",
            _ratio(cells, cell, lambda one: one.median("cpu")),
            f"{min(rounds):.2f} to {max(rounds):.2f}",
            f"{wall * 1e6:.2f}",
            _ratio(cells, cell, lambda one: one.median("wall")),
            f"{1 / wall:,.0f}",
        )
    return table


def _latency_table(title: str, cells: Sequence[Cell]) -> Table:
    table = Table("client", "call", title=title, title_justify="left")
    for heading in ("p50 ms", "ratio", "p99 ms", "ratio", "CPU µs", "ratio"):
        table.add_column(heading, justify="right")
    for cell in cells:
        p50, p99, cpu = cell.latency("p50"), cell.latency("p99"), cell.median("cpu")
        if p50 is None or p99 is None or cpu is None:
            table.add_row(cell.client, cell.way, "[red]failed[/]")
            continue
        table.add_row(
            cell.client,
            cell.way,
            f"{p50 * 1e3:.2f}",
            _ratio(cells, cell, lambda one: one.latency("p50")),
            f"{p99 * 1e3:.2f}",
            _ratio(cells, cell, lambda one: one.latency("p99")),
            f"{cpu * 1e6:.0f}",
            _ratio(cells, cell, lambda one: one.median("cpu")),
        )
    return table


def _ratio(cells: Sequence[Cell], cell: Cell, figure: Callable[[Cell], float | None]) -> str:
    ours = baseline(cells, cell)
    mine, theirs = figure(cell), figure(ours) if ours is not None else None
    if mine is None or not theirs:
        return "-"
    return f"{mine / theirs:.2f}"


def _micros(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e6, 4)

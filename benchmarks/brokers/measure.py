"""Lets the same clients write to and read from each broker in turn, and measures the broker's CPU time and memory."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import runner
from benchmarks.brokers import BROKERS, Start
from benchmarks.brokers.processes import Running, StartError
from benchmarks.clients import Launch
from benchmarks.clients.programs import BuildError, MissingError
from benchmarks.runner import Bench, Cell, CellError, Plan
from benchmarks.topics import TopicError
from benchmarks.work import Data, Settings, memory
from tests.kafka.cluster import KafkaError

OURS = "aiokproto"
CLIENTS = (OURS, "confluent-kafka", "franz-go")
MESSAGES = 50_000
PARTITIONS = 8
ALSO_PARTITIONS = 1
"""With our client alone, and throughput alone."""
DATA = (Data(100), Data(1024))
STARTS = 3
SLOW_START_MS = 2000.0
"""A broker that takes longer is started once."""


def measure(
    tell: Callable[[str], None],
    brokers: Mapping[str, Start] = BROKERS,
    messages: int = MESSAGES,
    clients: Sequence[str] = CLIENTS,
) -> list[dict[str, Any]]:
    """What each broker is, or why it is missing or failed; how long it takes to start; and its cells."""
    plan = Plan(("produce", "latency", "consume"), tuple(clients), DATA, messages, rounds=1, extras=("trip",))
    _, described, launches = runner.describe(plan)
    cells = list(_cells(described))
    return [{"broker": name, **_broker(name, start, cells, launches, tell)} for name, start in brokers.items()]


def _cells(described: Sequence[Cell]) -> Iterator[Cell]:
    """Of the cells of a plan the first way of each client, for one number of partitions after the other."""
    first: dict[tuple[str, str, Data], Cell] = {}
    for cell in described:
        first.setdefault((cell.client, cell.kind, cell.data), cell)
    for cell in first.values():
        yield replace(cell, options={"partitions": PARTITIONS})
    for cell in first.values():
        if cell.client == OURS and cell.kind in ("produce", "consume"):
            yield replace(cell, options={"partitions": ALSO_PARTITIONS})


def _broker(
    name: str, start: Start, cells: Sequence[Cell], launches: Mapping[str, Launch], tell: Callable[[str], None]
) -> dict[str, Any]:
    try:
        tell(f"starting {name}")
        with start() as running:
            starts = [running.start_ms]
            done = [replace(cell, rounds=[]) for cell in cells]
            _measure(running, done, launches, lambda text: tell(f"{name}: {text}"))
            peak = memory("VmHWM", running.process_id) / (1 << 20)
        while len(starts) < STARTS and starts[0] < SLOW_START_MS:
            with start() as again:
                starts.append(again.start_ms)
    except MissingError as missing:
        return {"missing": str(missing)}
    except (BuildError, StartError, TopicError, KafkaError, OSError) as error:
        return {"error": str(error)}
    return {
        "version": running.version,
        "start_ms": statistics.median(starts),
        "peak_mib": peak,
        "cells": [cell.as_json() for cell in done],
    }


def _measure(
    running: Running, cells: Sequence[Cell], launches: Mapping[str, Launch], tell: Callable[[str], None]
) -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        benches: dict[float, Bench] = {}
        for cell in cells:
            partitions = int(cell.options["partitions"])
            if partitions not in benches:
                bench = Bench(running.bootstrap, Settings(partitions=partitions), Path(folder), running.process_id)
                stack.callback(bench.close)
                bench.warm_up()
                benches[partitions] = bench
            tell(str(cell))
            try:
                cell.rounds.append(benches[partitions].run(cell, launches[cell.client]))
            except CellError as error:
                cell.error = str(error)

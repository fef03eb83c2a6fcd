"""Runs the cells: each in a fresh process, in turn, in rounds, so that a slow minute of the machine hits all alike."""

from __future__ import annotations

import json
import secrets
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.clients import CLIENTS
from benchmarks.topics import Fill, Topics
from benchmarks.work import Kind, Settings, Work

ROOT = Path(__file__).resolve().parents[1]
CELL_SECONDS = 600.0
AWAITED_SHARE = 100
"""An awaited send takes a round trip: so many times fewer of them are measured."""
LEAST_AWAITED = 100
WARM_UP = Fill(messages=60_000, value=bytes(100), batch_bytes=1024)
"""Many small batches: a broker fresh from the start would else be slower for whoever comes first."""


@dataclass(frozen=True)
class Plan:
    """What is to be measured."""

    kinds: Sequence[Kind]
    clients: Sequence[str]
    sizes: Sequence[int]
    messages: int
    rounds: int
    settings: Settings = field(default_factory=Settings)

    def count(self, kind: Kind) -> int:
        if kind == "latency":
            return min(self.messages, max(self.messages // AWAITED_SHARE, LEAST_AWAITED))
        return self.messages


@dataclass
class Cell:
    """One client's way to do one kind of work, and what each round measured."""

    client: str
    kind: Kind
    way: str
    size: int
    messages: int
    rounds: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.size} B: {self.client} {self.way}"

    def per_message(self, what: str) -> list[float]:
        """Seconds, ``cpu`` or ``wall``, per message in each round."""
        return [done[what] / self.messages for done in self.rounds]

    def median(self, what: str) -> float | None:
        return statistics.median(self.per_message(what)) if self.rounds else None

    def latency(self, percentile: str) -> float | None:
        return statistics.median(done["latency"][percentile] for done in self.rounds) if self.rounds else None


class CellError(Exception):
    """A cell ended without a result; has the last line it wrote to stderr."""


def describe(plan: Plan) -> tuple[list[dict[str, Any]], list[Cell]]:
    """The clients, each with version and settings, or ``missing``, or ``error``; and the cells that can be measured."""
    found = []
    for name in plan.clients:
        try:
            found.append(_cell("describe", name, settings=plan.settings))
        except CellError as error:
            found.append({"client": name, "error": str(error)})
    cells = [
        Cell(client["client"], kind, way, size, plan.count(kind))
        for size in plan.sizes
        for kind in plan.kinds
        for client in found
        for way in client.get("ways", {}).get(kind, [])
        # The time of a round trip says little about values, and takes long to measure.
        if kind != "latency" or size == plan.sizes[0]
    ]
    return found, cells


def measure(plan: Plan, cells: Sequence[Cell], bootstrap: str, tell: Callable[[str], None]) -> None:
    """Run every cell once per round; results go into the cells. One that failed is not run again."""
    topics = Topics(bootstrap)
    filled: dict[int, str] = {}
    try:
        tell("warming up the broker")
        with _topic(topics, plan.settings) as name:
            topics.fill(name, WARM_UP)
        for size in {cell.size for cell in cells if cell.kind == "consume"}:
            tell(f"filling a topic with {plan.messages:,} values of {size} B")
            filled[size] = _new_topic(topics, plan.settings)
            value = Work(bootstrap, "", 0, size).value
            topics.fill(filled[size], Fill(plan.messages, value, plan.settings.batch_bytes))
        for number in range(1, plan.rounds + 1):
            # There and back again: no cell always comes first, or always after the same other one.
            for cell in cells if number % 2 else reversed(cells):
                if cell.error is not None:
                    continue
                tell(f"round {number} of {plan.rounds}: {cell}")
                try:
                    cell.rounds.append(_run(cell, plan.settings, bootstrap, topics, filled))
                except CellError as error:
                    cell.error = str(error)
    finally:
        for name in filled.values():
            topics.delete(name)
        topics.close()


def _run(cell: Cell, settings: Settings, bootstrap: str, topics: Topics, filled: dict[int, str]) -> dict[str, Any]:
    if cell.kind == "consume":
        return _measured(cell, filled[cell.size], settings, bootstrap)
    with _topic(topics, settings) as name:
        result = _measured(cell, name, settings, bootstrap)
        # One more each time that a producer connects.
        sent, there = cell.messages + result["warm_up"] + 2, topics.count(name)
        if sent != there:
            raise CellError(f"{there} messages are in the topic, {sent} were sent")
        return result


def _measured(cell: Cell, topic: str, settings: Settings, bootstrap: str) -> dict[str, Any]:
    options = {"bootstrap": bootstrap, "topic": topic, "messages": cell.messages, "size": cell.size}
    return _cell("run", cell.client, cell.kind, cell.way, settings=settings, **options)


def _new_topic(topics: Topics, settings: Settings) -> str:
    name = f"benchmarks-{secrets.token_hex(4)}"
    topics.create(name, settings.partitions)
    return name


@contextmanager
def _topic(topics: Topics, settings: Settings) -> Iterator[str]:
    name = _new_topic(topics, settings)
    try:
        yield name
    finally:
        topics.delete(name)


def _cell(*arguments: str, settings: Settings, **options: object) -> dict[str, Any]:
    named = {**asdict(settings), **options}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in named.items()]
    command = [sys.executable, "-m", "benchmarks.cell", *arguments, *flags]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=CELL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise CellError(f"not done in {CELL_SECONDS:g} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it wrote nothing"]
        raise CellError(f"exit code {done.returncode}: {lines[-1]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def baseline(cells: Sequence[Cell], like: Cell) -> Cell | None:
    """The cell to compare with: ours, the first way, of the same kind and size."""
    ours = next(iter(CLIENTS))
    same = (cell for cell in cells if cell.client == ours and (cell.kind, cell.size) == (like.kind, like.size))
    return next(same, None)

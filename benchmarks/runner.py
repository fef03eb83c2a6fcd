"""Runs the cells: each in a fresh process, in turn, in rounds, so that a slow minute of the machine hits all alike."""

from __future__ import annotations

import json
import os
import random
import secrets
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import values
from benchmarks.clients import CLIENTS, Launch
from benchmarks.clients.programs import BuildError, MissingError
from benchmarks.extras import EXTRAS
from benchmarks.extras.topics import names
from benchmarks.topics import Fill, Topics
from benchmarks.work import IN_TRANSACTION, Data, Kind, Security, Settings
from tests.kafka.cluster import KafkaCluster

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / ".cache" / "bench"
CELL_SECONDS = 900.0
AWAITED_SHARE = 100
"""An awaited send takes a round trip: so many times fewer of them are measured."""
LEAST_AWAITED = 100
TRANSACTED_SHARE = 10
"""So many times fewer messages are written in transactions, each of which waits for several round trips."""
ONCE_ONLY = ("latency", "transact", "start")
"""Kinds of work that depend little on values, and are measured with the first data alone."""
CROWD = "many"
WARM_UP = Fill(messages=60_000, values=(bytes(100),), batch_bytes=1024)
"""Many small batches: a broker that has just started would be slower for the first client."""


@dataclass(frozen=True)
class Plan:
    """The measurements of a run.

    Attributes:
        data: Of plain data every way is measured; of compressed or encrypted data the first way of each client.
        extras: Names of `EXTRAS`.
    """

    kinds: Sequence[Kind]
    clients: Sequence[str]
    data: Sequence[Data]
    messages: int
    rounds: int
    extras: Sequence[str] = ()
    settings: Settings = field(default_factory=Settings)

    def count(self, kind: Kind) -> int:
        if kind == "start":
            return 1
        if kind == "latency":
            return min(self.messages, max(self.messages // AWAITED_SHARE, LEAST_AWAITED))
        if kind == "transact":
            return min(self.messages, max(self.messages // TRANSACTED_SHARE, IN_TRANSACTION))
        return self.messages


@dataclass
class Cell:
    """One client's way to do one kind of work, and the results of each round."""

    client: str
    kind: str
    way: str
    data: Data
    messages: int
    options: Mapping[str, float] = field(default_factory=dict)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.data}: {self.client} {self.way}"

    def as_json(self) -> dict[str, Any]:
        """Everything, and the medians of the rounds; times per message in microseconds, latencies in milliseconds."""
        return {**asdict(self), "median": self._median()}

    def _per(self) -> dict[str, tuple[str, float]]:
        """What a round measured → its label in the medians, and what it is divided by."""
        micro = self.messages / 1e6
        return {
            "cpu": ("cpu_us", micro),
            "wall": ("wall_us", micro),
            "broker_cpu": ("broker_cpu_us", micro),
            "peak_bytes": ("peak_mib", 1 << 20),
        }

    def _median(self) -> dict[str, float]:
        median = {}
        for name, (label, per) in self._per().items():
            found = [done[name] / per for done in self.rounds if done.get(name) is not None]
            if found:
                median[label] = statistics.median(found)
        for label in self.rounds[0]["figures"] if self.rounds else ():
            median[label] = statistics.median(done["figures"][label] for done in self.rounds)
        return median


class CellError(Exception):
    """A cell ended without a result; has the last line it wrote to stderr."""


def describe(plan: Plan) -> tuple[list[dict[str, Any]], list[Cell], dict[str, Launch]]:
    """The clients, each with version and settings, or ``missing``, or ``error``; the cells; how clients are started."""
    found: list[dict[str, Any]] = []
    launches: dict[str, Launch] = {}
    for name in plan.clients:
        try:
            launches[name] = CLIENTS[name]()
            said = _ask(launches[name], {"command": "describe", "settings": asdict(plan.settings)})
        except MissingError as missing:
            said = {"missing": str(missing)}
        except (CellError, BuildError) as error:
            said = {"error": str(error)}
        found.append({"client": name, **said})
    return found, [*_cells(plan, found), *_extra_cells(plan, found)], launches


def _cells(plan: Plan, clients: Sequence[dict[str, Any]]) -> Iterator[Cell]:
    for data in plan.data:
        for kind in plan.kinds:
            if kind in ONCE_ONLY and data != plan.data[0]:
                continue
            for client in clients:
                ways = client.get("ways", {}).get(kind, [])
                for way in ways if data.compression == "none" and data.protocol == "PLAINTEXT" else ways[:1]:
                    yield Cell(client["client"], kind, way, data, plan.count(kind))


def _extra_cells(plan: Plan, clients: Sequence[dict[str, Any]]) -> Iterator[Cell]:
    for kind in plan.extras:
        extra = EXTRAS[kind]
        for data in extra.data:
            for options in extra.options:
                for client in clients:
                    if client.get("asyncio") and (not extra.clients or client["client"] in extra.clients):
                        yield Cell(client["client"], kind, "", data, extra.messages, options)


def measure(
    plan: Plan,
    cells: Sequence[Cell],
    launches: Mapping[str, Launch],
    bootstrap: str,
    tell: Callable[[str], None],
    security: Callable[[str], Security] | None = None,
) -> None:
    """Run every cell once a round, the extra ones in the first, until it fails; results go into the cells."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bench = Bench(bootstrap, plan.settings, folder, security=security)
        stack.callback(bench.close)
        tell("warming up the broker")
        bench.warm_up()
        for number in range(1, plan.rounds + 1):
            for cell in shuffled(cells, number):
                if cell.error is not None or (cell.kind in EXTRAS and number > 1):
                    continue
                tell(f"round {number} of {plan.rounds}: {cell}")
                try:
                    cell.rounds.append(bench.run(cell, launches[cell.client]))
                except CellError as error:
                    cell.error = str(error)


def shuffled(cells: Sequence[Cell], number: int) -> list[Cell]:
    """The cells in a round's own order. None is often first of its kind: what the cell before has left the broker to
    do, files to write and to delete, would count as that one's slowness."""
    order = list(cells)
    random.Random(number).shuffle(order)
    return order


class Bench:
    """The environment of the cells: the broker, its topics, the values."""

    def __init__(
        self,
        bootstrap: str,
        settings: Settings,
        folder: Path,
        broker_process: int | None = None,
        security: Callable[[str], Security] | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._security = security
        self._broker_process = broker_process
        self._settings = settings
        self._folder = folder
        self._topics = Topics(bootstrap)
        self._filled: dict[tuple[Data, int], str] = {}
        self._crowds: dict[int, str] = {}
        self._stack = ExitStack()

    def close(self) -> None:
        with self._stack:
            for name in self._filled.values():
                self._topics.delete(name)
            self._topics.close()

    def warm_up(self) -> None:
        with self._topic() as name:
            self._topics.fill(name, WARM_UP)

    def run(self, cell: Cell, launch: Launch) -> dict[str, Any]:
        extra = EXTRAS.get(cell.kind)
        if extra is not None and extra.crowded:
            return self._measured(cell, launch, self._crowded(int(cell.options["topics"])), CROWD)
        if cell.kind == "consume" or (extra is not None and extra.reads):
            return self._measured(cell, launch, self._bootstrap, self._full_topic(cell.data, cell.messages))
        with self._topic() as name:
            result = self._measured(cell, launch, self._bootstrap, name)
            there = self._topics.count(name)
            # Every transaction adds a marker to each partition that it wrote to.
            if result["sent"] > there or (cell.kind != "transact" and result["sent"] != there):
                raise CellError(f"{there} messages are in the topic, {result['sent']} were sent")
            return result

    def _crowded(self, topics: int) -> str:
        """The address of a broker with so many topics; it runs until all is done, for every client."""
        if topics not in self._crowds:
            cluster = self._stack.enter_context(KafkaCluster(1, heap="1g"))
            crowd = Topics(cluster.bootstrap_servers)
            self._stack.callback(crowd.close)
            crowd.create_all(names(CROWD, topics))
            self._crowds[topics] = cluster.bootstrap_servers
        return self._crowds[topics]

    def _measured(self, cell: Cell, launch: Launch, bootstrap: str, topic: str) -> dict[str, Any]:
        protocol = cell.data.protocol
        security = Security(bootstrap) if protocol == "PLAINTEXT" or not self._security else self._security(protocol)
        if security.protocol != protocol:
            raise CellError(f"the cluster has no listener for {protocol} that the benchmarks know")
        work = {
            "bootstrap": security.address,
            "security": asdict(security),
            "topic": topic,
            "messages": cell.messages,
            **asdict(cell.data),
            "values_path": str(values.write(self._folder, cell.data.size)),
            "settings": asdict(self._settings),
            "options": cell.options,
            "broker_process": self._broker_process,
        }
        result = _ask(launch, {"command": "run", "kind": cell.kind, "way": cell.way, "work": work})
        if cell.kind not in EXTRAS and result["settled"] < cell.messages:
            raise CellError(f"{result['settled']} of {cell.messages} messages were settled")
        result["figures"] |= percentiles(result.pop("latencies") or [])
        return result

    def _full_topic(self, data: Data, messages: int) -> str:
        if (data, messages) not in self._filled:
            name = self._filled[data, messages] = self._new_topic()
            rows = tuple(values.rows(data.size))
            self._topics.fill(name, Fill(messages, rows, self._settings.batch_bytes, data.compression))
        return self._filled[data, messages]

    def _new_topic(self) -> str:
        name = f"benchmarks-{secrets.token_hex(4)}"
        self._topics.create(name, self._settings.partitions)
        return name

    @contextmanager
    def _topic(self) -> Iterator[str]:
        name = self._new_topic()
        try:
            yield name
        finally:
            self._topics.delete(name)


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Nearest-rank percentiles and the maximum in milliseconds, or nothing without latencies."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {name: ordered[min(last, int(len(ordered) * share))] * 1e3 for name, share in _SHARES.items() if ordered}


_SHARES = {"p50 ms": 0.5, "p99 ms": 0.99, "max ms": 1.0}


def _ask(launch: Launch, job: Mapping[str, Any]) -> dict[str, Any]:
    """Start a client's process, give it a job, and return what it found."""
    try:
        done = subprocess.run(
            launch.command,
            cwd=ROOT,
            env=os.environ | dict(launch.environment),
            input=json.dumps(job),
            capture_output=True,
            text=True,
            timeout=CELL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CellError(f"not done in {CELL_SECONDS:g} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it wrote nothing"]
        raise CellError(f"exit code {done.returncode}: {lines[-1]}")
    # A profiler around the process writes lines of its own.
    line = next((line for line in reversed(done.stdout.splitlines()) if line.startswith("{")), None)
    if line is None:
        raise CellError("it wrote no result")
    result: dict[str, Any] = json.loads(line)
    return result

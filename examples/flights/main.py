"""The main use on real data: 336,776 flights into Kafka, out through a consumer group, and through Spark to Parquet.

A report of them, made by Spark, goes back to Kafka.

``make demo`` runs it on the embedded broker; ``BOOTSTRAP=host:port make demo`` on that cluster. It checks itself and
exits with 1, saying what differs, if a single flight is lost, doubled or changed. ``--flights N`` takes only the first.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import lake
from dataset import ROWS, Flight, fetch, read
from group import Tally, read_all
from ingest import create_topic, send_all
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text
from server import embedded_broker

PARTITIONS = 6
CACHE = Path(__file__).parents[2] / ".cache" / "flights"

console = Console(highlight=False, soft_wrap=True)


class Rate(ProgressColumn):
    """Records a second."""

    def render(self, task: Task) -> Text:
        """The rate as text."""
        speed = task.finished_speed or task.speed
        return Text(f"{speed:10,.0f} records/s" if speed else "", style="cyan")


class Report:
    """The duration of each step, and the problems found."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int, float]] = []
        self.problems: list[str] = []

    def step(self, name: str, records: int, since: float) -> None:
        """Note a step that began at ``since`` on the clock of ``time.perf_counter``."""
        self.steps.append((name, records, time.perf_counter() - since))


async def through_kafka(bootstrap: str, topic: str, flights: list[Flight], report: Report) -> dict[int, list[bytes]]:
    """Produce, then consume as a group; returns what each partition must hold."""
    await create_topic(bootstrap, topic, PARTITIONS)
    columns = (TextColumn("{task.description:8}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        began = time.perf_counter()
        sent = await send_all(bootstrap, topic, flights, progress)
        report.step("produce, acknowledged", len(flights), began)
        began = time.perf_counter()
        sizes = {partition: len(values) for partition, values in sent.items()}
        tally = await read_all(bootstrap, topic, sizes, progress)
        report.step("consume, 2 to 3 members", tally.total, began)
    check_group(flights, tally, report)
    return sent


def check_group(flights: list[Flight], tally: Tally, report: Report) -> None:
    """The group must have read every flight exactly once."""
    expected = Counter(flight.key.decode() for flight in flights)
    for carrier in sorted(expected | tally.carriers):
        if expected[carrier] != tally.carriers[carrier]:
            text = f"carrier {carrier}: {expected[carrier]} flights were sent, {tally.carriers[carrier]} were read"
            report.problems.append(text)
    if tally.again():
        report.problems.append(f"{tally.again()} records were read more than once")
    members = ", ".join(f"{name} {count:,}" for name, count in tally.members.items())
    console.print(f"group: {members}; {len(expected)} carriers, every count exact: {expected == tally.carriers}")
    if len(tally.members) < 3:
        report.problems.append(f"three members should have read, these did: {members}")


def through_spark(bootstrap: str, topic: str, out: Path, sent: dict[int, list[bytes]], report: Report) -> None:
    """Load the topic, compare the files with what was sent, and print the report."""
    with console.status("starting Spark"):
        spark = lake.session()
    try:
        count = sum(len(values) for values in sent.values())
        began = time.perf_counter()
        with console.status("Spark: topic to Parquet"):
            result = lake.load(spark, bootstrap, topic, out)
        report.step("Spark: topic to Parquet", result.rows, began)
        began = time.perf_counter()
        with console.status("comparing the files with what was sent"):
            report.problems += lake.differences(out, sent)
        report.step("compare with what was sent", count, began)
        began = time.perf_counter()
        with console.status("Spark: mean delays"):
            worst = lake.worst_arrivals(spark, out)
        report.step("Spark: report", count, began)
        began = time.perf_counter()
        with console.status("Spark: report to Kafka"):
            asyncio.run(create_topic(bootstrap, f"{topic}-delays", 1))
            lake.publish(spark, bootstrap, f"{topic}-delays", worst)
            if lake.published(spark, bootstrap, f"{topic}-delays") != worst:
                report.problems.append(f"{topic}-delays does not have the report that was written")
        report.step("Spark: report to Kafka and back", len(worst), began)
    finally:
        spark.stop()
    table = Table(title="Worst mean arrival delays, New York 2013", title_justify="left")
    table.add_column("carrier")
    table.add_column("flights", justify="right")
    table.add_column("minutes late", justify="right")
    for carrier, flights, late in worst:
        table.add_row(carrier, f"{flights:,}", f"{late:.2f}")
    console.print(table)


def main() -> int:
    """Run everything; returns the exit code."""
    parser = argparse.ArgumentParser(description="Flights through Kafka and Spark.")
    parser.add_argument("--flights", type=int, default=ROWS, help="how many of them (default: all)")
    limit = parser.parse_args().flights
    began = time.perf_counter()
    report = Report()
    out = CACHE / "parquet"
    shutil.rmtree(out, ignore_errors=True)
    topic = f"flights-{uuid4().hex[:8]}"
    with ExitStack() as stack:
        bootstrap = os.environ.get("BOOTSTRAP") or stack.enter_context(embedded_broker())
        console.print(f"broker {bootstrap}, topic {topic}, {PARTITIONS} partitions")
        since = time.perf_counter()
        flights = read(fetch(CACHE))[:limit]
        report.step("read the CSV", len(flights), since)
        sent = asyncio.run(through_kafka(bootstrap, topic, flights, report))
        through_spark(bootstrap, topic, out, sent, report)
    table = Table(title="Steps", title_justify="left")
    table.add_column("step")
    for name in ("records", "seconds", "records/s"):
        table.add_column(name, justify="right")
    for name, records, seconds in report.steps:
        table.add_row(name, f"{records:,}", f"{seconds:.2f}", f"{records / seconds:,.0f}")
    console.print(table)
    console.print(f"output: {out}")
    if report.problems:
        for problem in report.problems[:20]:
            console.print(f"[red]wrong:[/red] {problem}")
        return 1
    console.print(
        f"verified: {len(flights):,} flights, each once; offsets contiguous in every partition; Parquet equal "
        f"to the source; {time.perf_counter() - began:.1f} s in all"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

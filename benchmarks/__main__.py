"""``python -m benchmarks``: produce and consume beside other clients, against one broker, then the codec."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from benchmarks import codec, report, runner, tables
from benchmarks.brokers import measure as brokers
from benchmarks.clients import CLIENTS, MAIN
from benchmarks.extras import EXTRAS, imports
from benchmarks.secured import SecuredKafka
from benchmarks.topics import TopicError
from benchmarks.work import KINDS, Data, Security, Settings
from tests.kafka.cluster import KafkaError
from tools.setup.project import kafka_version

DATA = (
    Data(100),
    Data(1024),
    Data(1024, "lz4"),
    Data(1024, "zstd"),
    Data(1024, protocol="SSL"),
    Data(1024, protocol="SASL_SSL"),
)
PARTS = (*KINDS, "extras", "brokers", "imports", "codec")
MESSAGES, ROUNDS = 200_000, 3
QUICK_MESSAGES, QUICK_ROUNDS = 20_000, 1
QUICK_DATA = (Data(100), Data(1024, "lz4"))
QUICK_PARTS = ("produce", "latency", "consume", "codec")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--messages", type=int, metavar="N", help=f"of each cell (default {MESSAGES})")
    add("--rounds", type=int, metavar="N", help=f"of all cells (default {ROUNDS})")
    add("--quick", action="store_true", help="one round of few messages and main clients, in under a minute")
    add("--long", action="store_true", help="also what takes minutes: ten million messages, ten thousand topics")
    add("--bootstrap", metavar="HOST:PORT", help="use this cluster instead of starting real Kafka")
    add("--json", action="store_true", help="print the results as JSON instead of tables")
    add("--only", choices=PARTS, action="append", help="these parts (may be repeated)")
    add("--extras", nargs="+", choices=EXTRAS, help="of the extras, these")
    add("--clients", nargs="+", choices=CLIENTS, help="these clients")
    add("--data", nargs="+", type=_data, metavar="SIZE[:CODEC[:PROTOCOL]]", help="of values, such as 1024:lz4:SSL")
    add("--ratio-to", choices=CLIENTS, metavar="CLIENT", help="ratios are to this client (default the first)")
    add("--results", type=Path, default=runner.RESULTS, metavar="DIR", help="where the JSON is kept")
    defaults = Settings()
    add("--linger-ms", type=int, default=defaults.linger_ms, help="(default %(default)s)")
    add("--batch-bytes", type=int, default=defaults.batch_bytes, help="(default %(default)s)")
    add("--partitions", type=int, default=defaults.partitions, help="(default %(default)s)")
    return parser.parse_args()


def _data(text: str) -> Data:
    size, compression, protocol = [*text.split(":"), "", ""][:3]
    return Data(int(size), compression or "none", protocol or "PLAINTEXT")


def plan_of(arguments: argparse.Namespace, parts: tuple[str, ...]) -> runner.Plan:
    quick = arguments.quick
    extras = [name for name, extra in EXTRAS.items() if arguments.long or not extra.long]
    return runner.Plan(
        kinds=[kind for kind in KINDS if kind in parts],
        clients=arguments.clients or (MAIN if quick else tuple(CLIENTS)),
        data=arguments.data or (QUICK_DATA if quick else DATA),
        messages=arguments.messages or (QUICK_MESSAGES if quick else MESSAGES),
        rounds=arguments.rounds or (QUICK_ROUNDS if quick else ROUNDS),
        extras=(arguments.extras or extras) if "extras" in parts else (),
        settings=Settings(
            partitions=arguments.partitions, linger_ms=arguments.linger_ms, batch_bytes=arguments.batch_bytes
        ),
    )


def main() -> int:
    arguments = parse()
    parts = tuple(arguments.only or (QUICK_PARTS if arguments.quick else PARTS))
    plan = plan_of(arguments, parts)
    results: dict[str, Any] = {
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "whole": not (arguments.quick or arguments.only or arguments.extras or arguments.clients or arguments.data),
        "machine": report.machine(),
        "plan": asdict(plan),
        "ratio_to": arguments.ratio_to or plan.clients[0],
    }
    out = tables.console(to_stderr=arguments.json)
    out.print(report.how(results), style="dim")
    try:
        if plan.kinds or plan.extras:
            results |= _measure_clients(arguments.bootstrap, plan)
    except (KafkaError, TopicError, OSError) as error:
        print(f"no broker to measure against: {error}", file=sys.stderr)
        return 1
    if "brokers" in parts:
        results["brokers"] = _measure_brokers()
    if "imports" in parts:
        results["imports_ms"] = imports.measure(quick=arguments.quick)
    if "codec" in parts:
        results["codec"] = codec.measure(quick=arguments.quick)
    _show(out, results)
    path = _save(arguments.results, results)
    if arguments.json:
        print(json.dumps(results))
    out.print(f"results: {path}", style="dim")
    return int(bool(report.failures(results)))


def _measure_clients(bootstrap: str | None, plan: runner.Plan) -> dict[str, Any]:
    if bootstrap is not None:
        plan = replace(plan, data=[data for data in plan.data if data.protocol == "PLAINTEXT"])
    with broker_at(bootstrap) as (address, name, security), tables.console(to_stderr=True).status("") as status:
        clients, cells, launches = runner.describe(plan)
        runner.measure(plan, cells, launches, address, lambda text: status.update(escape(text)), security)
    return {"broker": name, "clients": clients, "cells": [cell.as_json() for cell in cells]}


def _measure_brokers() -> list[dict[str, Any]]:
    with tables.console(to_stderr=True).status("") as status:
        return brokers.measure(lambda text: status.update(escape(text)))


@contextmanager
def broker_at(bootstrap: str | None) -> Iterator[tuple[str, str, Callable[[str], Security] | None]]:
    """Where the broker is, what to call it, and how to connect by each security protocol."""
    if bootstrap is not None:
        yield bootstrap, f"the cluster at {bootstrap}", None
        return
    cluster = SecuredKafka(heap="1g")
    with cluster:
        name = f"Apache Kafka {kafka_version()}, one broker on the same machine"
        yield cluster.bootstrap_servers, name, cluster.security


def _show(out: Console, results: dict[str, Any]) -> None:
    out.print(escape(report.where(results)), style="bold")
    for table in report.tables(results):
        tables.show(out, table)
    if "codec" in results:
        for table in codec.tables(results["codec"]):
            tables.show(out, table)
    for failure in report.failures(results):
        out.print(f"failed: {escape(failure)}", style="red")


def _save(folder: Path, results: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{results['at'].replace(':', '').replace('+0000', 'Z')}.json"
    path.write_text(json.dumps(results, indent=1))
    return path


if __name__ == "__main__":
    sys.exit(main())

"""``python -m benchmarks``: produce and consume beside other clients, against one broker, then the codec."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import codec, report, runner
from benchmarks.clients import CLIENTS
from benchmarks.topics import TopicError
from benchmarks.work import KINDS, Settings
from tests.kafka.cluster import KafkaCluster, KafkaError
from tools.setup.project import kafka_version

RESULTS = runner.ROOT / ".cache" / "bench"
QUICK_MESSAGES = 20_000


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--messages", type=int, default=200_000, metavar="N", help="of each cell (default 200000)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="of all cells (default 3)")
    parser.add_argument("--quick", action="store_true", help="one round of few messages, in under a minute")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="use this cluster instead of starting real Kafka")
    parser.add_argument("--json", action="store_true", help="print the results as JSON instead of tables")
    parser.add_argument("--only", choices=[*KINDS, "codec"], action="append", help="these parts (may be repeated)")
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=list(CLIENTS), help="these clients")
    parser.add_argument("--sizes", nargs="+", type=int, default=[100, 1024], help="of values (default 100 1024)")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where the JSON is kept")
    defaults = Settings()
    parser.add_argument("--linger-ms", type=int, default=defaults.linger_ms, help="(default %(default)s)")
    parser.add_argument("--batch-bytes", type=int, default=defaults.batch_bytes, help="(default %(default)s)")
    parser.add_argument("--partitions", type=int, default=defaults.partitions, help="(default %(default)s)")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.messages, arguments.rounds = min(arguments.messages, QUICK_MESSAGES), 1
    return arguments


def main() -> int:
    arguments = parse()
    parts = arguments.only or [*KINDS, "codec"]
    plan = runner.Plan(
        kinds=[kind for kind in KINDS if kind in parts],
        clients=arguments.clients,
        sizes=arguments.sizes,
        messages=arguments.messages,
        rounds=arguments.rounds,
        settings=Settings(
            partitions=arguments.partitions, linger_ms=arguments.linger_ms, batch_bytes=arguments.batch_bytes
        ),
    )
    results: dict[str, Any] = {"at": datetime.now(timezone.utc).isoformat(timespec="seconds")}
    out = report.console(to_stderr=arguments.json)
    failed = False
    if plan.kinds:
        try:
            failed = _measure_clients(arguments.bootstrap, plan, out, results)
        except (KafkaError, TopicError, OSError) as error:
            print(f"no broker to measure against: {error}", file=sys.stderr)
            return 1
    if "codec" in parts:
        results["codec"] = codec.measure(quick=arguments.quick)
        codec.show(out, results["codec"])
    path = _save(arguments.results, results)
    if arguments.json:
        print(json.dumps(results))
    out.print(f"results: {path}", style="dim")
    return int(failed)


def _measure_clients(bootstrap: str | None, plan: runner.Plan, out: Console, results: dict[str, Any]) -> bool:
    """Measure, show, and add to the results; whether a client or a cell failed."""
    clients, cells = runner.describe(plan)
    with _broker(bootstrap) as (address, name), report.console(to_stderr=True).status("") as status:
        runner.measure(plan, cells, address, status.update)
    results |= report.as_json(plan, clients, cells, name)
    report.show(out, plan, clients, cells, name)
    return any("error" in client for client in clients) or any(cell.error is not None for cell in cells)


@contextmanager
def _broker(bootstrap: str | None) -> Iterator[tuple[str, str]]:
    """Where the broker is, and what to call it."""
    if bootstrap is not None:
        yield bootstrap, f"the cluster at {bootstrap}"
        return
    with KafkaCluster(1, heap="1g") as cluster:
        yield cluster.bootstrap_servers, f"Apache Kafka {kafka_version()}, one broker on the same machine"


def _save(folder: Path, results: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{results['at'].replace(':', '').replace('+0000', 'Z')}.json"
    path.write_text(json.dumps(results, indent=1))
    return path


if __name__ == "__main__":
    sys.exit(main())

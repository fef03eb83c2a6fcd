"""One measurement in a process of its own: prints one line of JSON.

``python -m benchmarks.cell describe CLIENT`` says what there is to measure, ``… run`` measures it.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from benchmarks.clients import CLIENTS, load
from benchmarks.work import KINDS, Settings, Work

WARM_UP = 2000
PACKAGES = {"aiokafka", "confluent_kafka", "kafka"}
"""What the other clients install."""


def describe(name: str, settings: Settings) -> dict[str, Any]:
    """What a client is and can do; only that it is missing, where it is not installed."""
    try:
        client = load(name)
    except ModuleNotFoundError as error:
        # A client that lacks a part of its own is broken, which is another matter.
        if error.name not in PACKAGES:
            raise
        return {"client": name, "missing": f"{error.name} is not installed"}
    return {
        "client": name,
        "version": client.version(),
        "stated": dict(client.stated(settings)),
        "ways": {kind: list(client.ways(kind)) for kind in KINDS},
    }


def run(arguments: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    """Do the work once for few messages, so that all is imported and Python has specialised the code; then for all."""
    way = load(arguments.client).ways(arguments.kind)[arguments.way]
    work = Work(arguments.bootstrap, arguments.topic, arguments.messages, arguments.size, settings)
    warm_up = work.warm_up(WARM_UP)
    way(warm_up)
    way(work)
    if work.settled != work.messages:
        raise RuntimeError(f"{work.settled} of {work.messages} messages were settled")
    return {
        "cpu": work.meter.cpu,
        "wall": work.meter.wall,
        "latency": percentiles(work.latencies),
        "warm_up": warm_up.settled,
        "max_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024),
    }


def percentiles(seconds: Sequence[float]) -> dict[str, float] | None:
    """Nearest-rank percentiles, or None of nothing."""
    if not seconds:
        return None
    ordered = sorted(seconds)
    return {name: ordered[min(len(ordered) - 1, int(len(ordered) * share))] for name, share in _SHARES.items()}


_SHARES = {"p50": 0.5, "p99": 0.99}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cell", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    describing, running = commands.add_parser("describe"), commands.add_parser("run")
    for command in (describing, running):
        command.add_argument("client", choices=CLIENTS)
        for option in fields(Settings):
            command.add_argument(f"--{option.name.replace('_', '-')}", type=int, default=option.default)
    running.add_argument("kind", choices=KINDS)
    running.add_argument("way")
    running.add_argument("--bootstrap", required=True)
    running.add_argument("--topic", required=True)
    running.add_argument("--messages", type=int, required=True)
    running.add_argument("--size", type=int, required=True)
    arguments = parser.parse_args()
    settings = Settings(**{option.name: getattr(arguments, option.name) for option in fields(Settings)})
    if arguments.command == "describe":
        found = describe(arguments.client, settings)
    else:
        found = run(arguments, settings)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()

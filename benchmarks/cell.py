"""One measurement in a process of its own: ``python -m benchmarks.cell MODULE`` for the client of that module.

A job is read from stdin and what was found is written to stdout, both as JSON::

    {"command": "describe", "settings": {...}}                          what there is to measure
    {"command": "run", "kind": "produce", "way": "...", "work": {...}}  the figures of one way

The programs around clients in other languages speak the same.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from functools import partial
from typing import Any, cast

from benchmarks.clients import Client, Run, load
from benchmarks.extras import EXTRAS
from benchmarks.loops import in_loop
from benchmarks.work import KINDS, Kind, Security, Settings, Work, memory

WARM_UP = 2000
PACKAGES = {"aiokafka", "confluent_kafka", "kafka"}
"""What the other clients install."""


def describe(module: str, settings: Settings) -> dict[str, Any]:
    """What a client is and can do; only that it is missing, where it is not installed."""
    try:
        client = load(module)
    except ModuleNotFoundError as error:
        # A client that lacks a part of its own is broken, which is another matter.
        if error.name not in PACKAGES:
            raise
        return {"missing": f"{error.name} is not installed"}
    return {
        "version": client.version(),
        "stated": asdict(client.stated(settings)),
        "ways": {kind: list(client.ways(kind)) for kind in KINDS},
        "asyncio": client.asyncio is not None,
    }


def run(client: Client, kind: str, way: str, work: Work) -> dict[str, Any]:
    """Do the work once for few messages, so that all is imported and Python has specialised the code; then for all."""
    do = _way(client, kind, way)
    sent = 0
    if kind in KINDS and kind != "start":
        warm_up = work.warm_up(WARM_UP)
        do(warm_up)
        sent += warm_up.settled + warm_up.connecting
    do(work)
    return {
        "cpu": work.meter.cpu,
        "wall": work.meter.wall,
        "broker_cpu": work.meter.broker_cpu,
        "settled": work.settled,
        "sent": sent + work.settled + work.connecting,
        "latencies": work.latencies,
        "figures": work.figures,
        "peak_bytes": memory("VmHWM"),
    }


def _way(client: Client, kind: str, way: str) -> Run:
    if kind not in EXTRAS:
        return client.ways(cast("Kind", kind))[way]
    if client.asyncio is None:
        raise ValueError(f"{kind} is for clients in an event loop")
    return in_loop(partial(EXTRAS[kind].run, client.asyncio))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cell", description=__doc__)
    parser.add_argument("module", help="of benchmarks.clients")
    module = parser.parse_args().module
    job = json.load(sys.stdin)
    if job["command"] == "describe":
        found = describe(module, Settings(**job["settings"]))
    else:
        given = job["work"]
        parsed = {"settings": Settings(**given["settings"]), "security": Security(**given["security"])}
        work = Work(**given | parsed)
        found = run(load(module), job["kind"], job["way"], work)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()

"""How long imports take: CPU time of whole interpreter runs, bytecode there."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EVERY_MESSAGE = (
    "from aiokproto.codec import registry\n"
    "for key in registry.api_keys(): registry.request(key), registry.response(key)"
)
IMPORTS = {
    "python (nothing)": "pass",
    "asyncio": "import asyncio",
    "aiokproto": "import aiokproto",
    "aiokproto: one message": "import aiokproto.codec.messages.metadata",
    "aiokproto: every message": EVERY_MESSAGE,
    "aiokproto: every message and payload": (
        f"{EVERY_MESSAGE}\nfor name in registry.payload_names(): registry.lookup(name)"
    ),
    "aiokproto: Producer and Consumer": "from aiokproto import Consumer, Producer",
    "aiokafka": "import aiokafka",
    "confluent-kafka": "import confluent_kafka",
    "confluent-kafka-aio": "import confluent_kafka.aio",
    "kafka-python": "import kafka",
    "kio: one message": "import kio.schema.metadata.v12.response, kio.serial",
}
REPEAT = 7


def measure(*, quick: bool = False) -> dict[str, float | None]:
    """Milliseconds, the interpreter's start included; medians. None of what cannot be imported."""
    return {name: _milliseconds(code, 2 if quick else REPEAT) for name, code in IMPORTS.items()}


def labelled(found: Mapping[str, float | None]) -> dict[str, dict[str, float]]:
    """As the tables have it: by name, what could be imported, with its unit."""
    return {name: {"CPU ms": took} for name, took in found.items() if took is not None}


def _milliseconds(code: str, repeat: int) -> float | None:
    # The first writes the bytecode that all later ones read, as an installed package has it.
    times = [_cpu_seconds(code) for _ in range(repeat + 1)][1:]
    known = [seconds * 1e3 for seconds in times if seconds is not None]
    return statistics.median(known) if known else None


def _cpu_seconds(code: str) -> float | None:
    """CPU seconds of a process that runs ``code``, or None if it cannot."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT, env=environment, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return None if done.returncode else after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

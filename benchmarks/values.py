"""Values to write: rows like those of a flight schedule, from a seed, the same for every client and every run."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

SEED = 1903
ROWS = 1000
"""Different values; a cell begins again when it has written all of them."""
AIRPORTS = (
    "ATL",
    "DXB",
    "DFW",
    "LHR",
    "HND",
    "DEN",
    "IST",
    "ORD",
    "DEL",
    "CDG",
    "PEK",
    "LAX",
    "FRA",
    "AMS",
    "SIN",
    "ICN",
)
STATES = ("scheduled", "boarding", "departed", "delayed", "landed", "cancelled")


def rows(size: int) -> list[bytes]:
    """Values of exactly ``size`` bytes: events as JSON, one after the other, truncated at that size.

    Of batches of them lz4 leaves two fifths, zstd a quarter: about what it leaves of the events that programs write.
    """
    chance = random.Random(SEED)
    return [_row(chance, size) for _ in range(ROWS)]


def write(folder: Path, size: int) -> Path:
    """Put all values of a size, one behind the other, into a file that every client can read."""
    path = folder / f"values-{size}"
    if not path.exists():
        path.write_bytes(b"".join(rows(size)))
    return path


def read(path: Path, size: int) -> list[bytes]:
    data = path.read_bytes()
    return [data[start : start + size] for start in range(0, len(data), size)]


def _row(chance: random.Random, size: int) -> bytes:
    text = ""
    while len(text) < size:
        text += json.dumps(_event(chance), separators=(",", ":"))
    return text[:size].encode()


def _event(chance: random.Random) -> dict[str, Any]:
    return {
        "flight": f"{chance.choice('ABEKLQSU')}{chance.choice('AFKLRZ')} {chance.randrange(1, 9999)}",
        "from": chance.choice(AIRPORTS),
        "to": chance.choice(AIRPORTS),
        "state": chance.choice(STATES),
        "at": 1_760_000_000_000 + chance.randrange(10_000_000_000),
        "position": [round(chance.uniform(-90, 90), 5), round(chance.uniform(-180, 180), 5)],
        "altitude_ft": chance.randrange(0, 41_000, 25),
        "aircraft": f"{chance.getrandbits(24):06x}",
    }

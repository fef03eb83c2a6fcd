"""Reading a batch takes bounded memory, and bounded work of the event loop, however large it gets.

Each reader is a process, which reads all bombs one after the other: two to six seconds of one core.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.memory.reading_bombs import CONSUMING
from tests.records.bombs import MIB, bombs

pytest.importorskip("pyarrow")

MOST = 64 * MIB
"""By how many bytes the memory of the process may grow."""


def read_bombs(reader: str, *count: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.memory.reading_bombs", reader, *count]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def check(reader: str, count: int | None = None) -> None:
    found = read_bombs(reader, *([] if count is None else [str(count)]))
    grown = found["grown"]
    assert len(grown) == count or (count is None and len(grown) >= 22)
    assert {name: size // MIB for name, size in grown.items() if size > MOST} == {}
    # With the other readers the application iterates by itself, in one step.
    if reader in ("poll", "iterate", "run", "share", "search", "load"):
        assert found["quick"], found["steps"]


@pytest.mark.extended
def test_bombs_are_small() -> None:
    assert max(len(data) for name, data in bombs() if "not compressed" not in name) < 6 * MIB


def test_polling_bombs_takes_little_memory_and_short_steps() -> None:
    # Many records, and many headers in one.
    check("poll", 2)


@pytest.mark.extended
@pytest.mark.parametrize("reader", [*CONSUMING, "run", "share", "spark"])
def test_every_reader_takes_little_memory(reader: str) -> None:
    check(reader)


@pytest.mark.extended
@pytest.mark.parametrize("reader", ["produce", "search", "load", "tool"])
def test_the_broker_and_the_command_line_take_little_memory(reader: str) -> None:
    check(reader)

"""A function on rows that kills (-9) a process of the cluster under it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Victim = Literal["executor", "worker"]
"""The Java process that runs the tasks of half the cluster, or the Python process that runs this function."""


class KillOnce:
    """Returns each value as it is; the first task that has passed ``rows`` of them kills the victim under it.

    Attributes:
        marker: A file. The process that creates it kills the victim.
        victim: The process to kill.
        rows: The number of rows that are passed on before.
    """

    def __init__(self, marker: Path, victim: Victim, rows: int) -> None:
        self.marker = marker
        self.victim = victim
        self.rows = rows
        # Spark gives each task a copy.
        self._passed = 0

    def __call__(self, value: bytes) -> bytes:
        self._passed += 1
        if self._passed == self.rows and _created(self.marker):
            os.kill(_executor() if self.victim == "executor" else os.getpid(), signal.SIGKILL)
        return value

    def on(self, rows: DataFrame) -> DataFrame:
        """Pass the column ``value`` through this function."""
        from pyspark.sql import functions

        # Spark may otherwise call it twice for a row, or not at all.
        passed = functions.udf(self, "binary", useArrow=False).asNondeterministic()
        return rows.withColumn("value", passed("value"))

    @property
    def done(self) -> bool:
        """Whether something was killed."""
        return self.marker.exists()


def _created(marker: Path) -> bool:
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _executor() -> int:
    """The nearest Java process that this one descends from."""
    process = os.getppid()
    while Path(f"/proc/{process}/comm").read_text().strip() != "java":
        status = Path(f"/proc/{process}/status").read_text()
        process = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:"))
    return process

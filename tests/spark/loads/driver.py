"""A driver of Spark in a process of its own, that loads, and is killed (-9) where a test says.

Run as ``python -m tests.spark.loads.driver '{"out": …}'``; it writes the number of rows that were loaded.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import fsspec
from fsspec.implementations.local import LocalFileSystem

from aiokproto.spark import load, rerun
from aiokproto.spark.loads import load as loading
from aiokproto.spark.loads.attempt import Counted
from aiokproto.spark.loads.manifest import LoadedPartition
from aiokproto.spark.loads.opening import open_storage
from tests.patience import PATIENCE
from tests.spark.loads.scene import Steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[3]
STEPS = ("while tasks write", "once files are written", "once they are counted")
"""The steps of a load that are none of its storage."""


class Local(LocalFileSystem):  # type: ignore[misc]
    """Files that are created exclusively, which fsspec's own are not."""

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: object) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with Path(path).open("xb" if mode == "create" else "wb") as file:
            file.write(value)


@dataclass(frozen=True)
class Driver:
    """What the process does, and where it is killed.

    Attributes:
        out: The output.
        topic: What to load.
        bootstrap_servers: From where.
        run_id: What is to be run again; None for a load.
        at: Before which call of the storage it is killed, or at which one of ``STEPS``; None: it is not.
        settings: Further settings of the session.
    """

    out: str
    topic: str
    bootstrap_servers: str
    run_id: str | None = None
    at: int | str | None = None
    settings: dict[str, str] = field(default_factory=dict)

    def run(self) -> tuple[int, str]:
        """Run it to its end; the exit status (minus the signal that killed it), and what it said."""
        command = [sys.executable, "-m", "tests.spark.loads.driver", json.dumps(asdict(self))]
        # Its Java process ends with it, but not at once.
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        try:
            process.wait(4 * PATIENCE)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
        return process.returncode, said


def main(told: Driver) -> None:
    from tests.spark.session import start_session

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def fault(step: int, call: str, name: str) -> None:
        if step == told.at:
            die()

    def storage(out: str, spark: SparkSession) -> Steps:
        return Steps(open_storage(out, spark), lambda: None, fault)

    def count(spark: SparkSession, uri: str, partitions: Sequence[LoadedPartition]) -> Counted:
        if told.at == "once files are written":
            die()
        found = counted(spark, uri, partitions)
        if told.at == "once they are counted":
            die()
        return found

    counted = loading._count
    transform = killing(os.getpid()) if told.at == "while tasks write" else None
    # What Java has of this name is in the session's settings.
    fsspec.register_implementation("lying", Local)
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(loading, "open_storage", storage),
        patch.object(loading, "_count", count),
    ):
        spark = start_session(Path(folder), told.settings)
        if told.run_id is None:
            done = load(spark, told.topic, told.out, bootstrap_servers=told.bootstrap_servers, transform=transform)
        else:
            done = rerun(spark, told.out, told.run_id, bootstrap_servers=told.bootstrap_servers, transform=transform)
        sys.stdout.write(f"{done.rows}\n")
        spark.stop()


def killing(driver: int) -> Any:
    """A transformation in whose midst the driver is killed: a part of the rows are with the writer by then."""

    def seen(offset: int) -> int:
        if offset % 3 == 2:
            os.kill(driver, signal.SIGKILL)
        return offset

    def transform(frame: DataFrame) -> DataFrame:
        from pyspark.sql.functions import udf

        return frame.withColumn("seen", udf(seen, "long", useArrow=False)("offset"))

    return transform


if __name__ == "__main__":
    main(Driver(**json.loads(sys.argv[1])))

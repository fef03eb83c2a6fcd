"""A Spark driver in its own process, which runs a load, and is killed (-9) at a chosen step.

Run as ``python -m tests.spark.loads.driver '{"out": …}' WAREHOUSE``; it writes the number of rows that were loaded.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import fsspec
from fsspec.implementations.local import LocalFileSystem

from aiokproto.spark import load, rerun
from aiokproto.spark.loads import load as loading
from aiokproto.spark.loads.attempt import Counted
from aiokproto.spark.loads.job import SparkJob
from aiokproto.spark.loads.opening import open_storage
from tests.spark.loads.harness import Steps
from tests.timeouts import LONG_TIMEOUT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[3]
STEPS = ("while tasks write", "once files are written", "once they are counted")
"""The steps of a load that make no call of its storage."""


class Local(LocalFileSystem):  # type: ignore[misc]
    """Files that are created exclusively. fsspec's own aren't."""

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix("faulty://")

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: object) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with Path(path).open("xb" if mode == "create" else "wb") as file:
            file.write(value)


@dataclass(frozen=True)
class Driver:
    """The work of the process, and the call at which it is killed.

    Attributes:
        out: The output.
        topic: What to load.
        bootstrap_servers: From where.
        run_id: The run to repeat; None for a load.
        at: The call of the storage before which it's killed, or one of ``STEPS``; None if it isn't.
        settings: Further settings of the session.
    """

    out: str
    topic: str
    bootstrap_servers: str
    run_id: str | None = None
    at: int | str | None = None
    settings: dict[str, str] = field(default_factory=dict)

    def run(self) -> tuple[int, str]:
        """Run it to its end; the exit status (minus the signal that killed it), and what it printed."""
        # If it's killed, it can't remove its own folder.
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tests.spark.loads.driver", json.dumps(asdict(self)), folder]
            # Its Java process ends with it, but not at once.
            process = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
            )
            try:
                process.wait(4 * LONG_TIMEOUT)
            finally:
                os.killpg(process.pid, signal.SIGKILL)
                printed, _ = process.communicate()
            return process.returncode, printed


def main(driver: Driver, warehouse: Path) -> None:
    from tests.spark.session import start_session

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def fault(step: int, call: str, name: str) -> None:
        if step == driver.at:
            die()

    def storage(out: str, spark: SparkSession) -> Steps:
        return Steps(open_storage(out, spark), lambda: None, fault)

    def count(job: SparkJob, directory: str) -> Counted:
        if driver.at == "once files are written":
            die()
        counted = original_count(job, directory)
        if driver.at == "once they are counted":
            die()
        return counted

    original_count = SparkJob.count
    transform = killing(os.getpid()) if driver.at == "while tasks write" else None
    # Java finds its class for this scheme in the settings of the session.
    fsspec.register_implementation("faulty", Local)
    with (
        patch.object(loading, "open_storage", storage),
        patch.object(SparkJob, "count", count),
    ):
        spark = start_session(warehouse, driver.settings)
        if driver.run_id is None:
            done = load(
                spark, driver.topic, driver.out, bootstrap_servers=driver.bootstrap_servers, transform=transform
            )
        else:
            done = rerun(
                spark, driver.out, driver.run_id, bootstrap_servers=driver.bootstrap_servers, transform=transform
            )
        sys.stdout.write(f"{done.rows}\n")
        spark.stop()


def killing(driver: int) -> Any:
    """A transformation during which the driver is killed, after part of the rows reached the writer."""

    def seen(offset: int) -> int:
        if offset % 3 == 2:
            os.kill(driver, signal.SIGKILL)
        return offset

    def transform(frame: DataFrame) -> DataFrame:
        from pyspark.sql.functions import udf

        return frame.withColumn("seen", udf(seen, "long", useArrow=False)("offset"))

    return transform


if __name__ == "__main__":
    main(Driver(**json.loads(sys.argv[1])), Path(sys.argv[2]))

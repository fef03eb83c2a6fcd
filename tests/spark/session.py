"""A session for tests: small, quiet, and for this machine alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.class_archive import archive_options, keep_archive
from tests.timeouts import LONG_TIMEOUT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT = "SPARK_CONNECT"
"""The environment variable with the address of a server of Spark Connect, on which tests then have their sessions."""

QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of Java for tests, which end before the second compiler and more threads of a collector pay."""


def start_session(
    warehouse: Path, settings: Mapping[str, str] | None = None, *, writes_archive: bool = False
) -> SparkSession:
    """Start one; the caller stops it, with :func:`stop_session` if it writes the archive of classes."""
    from pyspark.sql import SparkSession

    from aiokproto.spark import register

    if CONNECT in os.environ:
        return SparkSession.builder.remote(os.environ[CONNECT]).getOrCreate()
    # Workers would otherwise run the first `python3` on PATH, which may lack pyarrow.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Spark's scripts start a Java process that only prints the command line of the other one.
    os.environ["SPARK_LAUNCHER_OPTS"] = " ".join(QUICK)
    builder = SparkSession.builder.master("local[2]").appName("tests")
    own = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": java_options(writes_archive=writes_archive),
        "spark.driver.host": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in {**own, **(settings or {})}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    register(session)
    return session


def java_options(*, writes_archive: bool = False) -> str:
    """Return the options of Java for tests."""
    return " ".join([*QUICK, *archive_options(may_write=writes_archive)])


def stop_session(session: SparkSession) -> None:
    """Stop a session and its Java process, which then may have written the archive of classes."""
    if CONNECT in os.environ:
        session.stop()
        return
    context: Any = type(session.sparkContext)
    gateway = context._gateway
    session.stop()
    # PySpark would keep Java for the next session, so Java would end after this process.
    context._gateway = context._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(4 * LONG_TIMEOUT)
    finally:
        gateway.proc.kill()
    keep_archive()

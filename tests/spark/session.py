"""A session for tests: small, quiet, and for this machine alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT = "SPARK_CONNECT"
"""The environment variable with the address of a server of Spark Connect, on which tests then have their sessions."""


def start_session(warehouse: Path, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start one; the caller stops it."""
    from pyspark.sql import SparkSession

    from aiokproto.spark import register

    if CONNECT in os.environ:
        return SparkSession.builder.remote(os.environ[CONNECT]).getOrCreate()
    # Else workers run whatever `python3` is first on PATH, and find no pyarrow there.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("tests")
    own = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in {**own, **(settings or {})}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    register(session)
    return session

"""A job with secrets in its options: it writes, reads, streams and loads, and prints all that Spark shows of its plans.

Run as ``python -m tests.spark.secured_job '{"kafka.bootstrap.servers": …}' topic folder``.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiokproto.security import UnsecuredToken
from aiokproto.spark import load, read, runs
from tests.patience import PATIENCE
from tests.spark.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = 50

token = UnsecuredToken("etl")
"""A function, for all processes of a job."""


def run(options: Mapping[str, str], topic: str, folder: Path) -> dict[str, Any]:
    """Return how many rows each way of the data source has seen."""
    settings = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": (folder / "events").as_uri()}
    # Compressed ones cannot be searched.
    settings |= {"spark.eventLog.compress": "false", "spark.log.level": "INFO"}
    spark = start_session(folder / "warehouse", settings)
    spark.sparkContext.setLogLevel("INFO")
    rows = spark.range(ROWS).selectExpr("cast(id AS string) AS value")
    rows.write.format("aiokproto").options(**options, topic=topic).mode("append").save()

    def frame() -> DataFrame:
        return spark.read.format("aiokproto").options(**options, subscribe=topic).load()

    for mode in ("simple", "extended", "codegen", "cost", "formatted"):
        frame().explain(mode=mode)
    found: dict[str, Any] = {"batch": frame().count()}
    listed = ", ".join(f"`{name}` '{value}'" for name, value in {**options, "subscribe": topic}.items())
    spark.sql(f"CREATE TEMPORARY VIEW v USING aiokproto OPTIONS ({listed})")
    found["view"] = spark.table("v").count()
    spark.sql("DESCRIBE EXTENDED v").show(100, truncate=False)
    query = (
        spark.readStream.format("aiokproto")
        .options(**options, subscribe=topic, startingOffsets="earliest")
        .load()
        .selectExpr("value")
        .writeStream.format("aiokproto")
        .options(**options, topic=topic, checkpointLocation=str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(int(4 * PATIENCE))
    query.explain(extended=True)
    found["stream"] = frame().count()
    servers = options["kafka.bootstrap.servers"]
    others = {name: value for name, value in options.items() if name != "kafka.bootstrap.servers"}
    load(spark, topic, folder / "out", bootstrap_servers=servers, options=others)
    found["load"] = read(spark, folder / "out").count()
    sys.stdout.write(f"{runs(folder / 'out')}\n")
    for wrong in ({"kafka.ssl.cafile": "/absent"}, {"kafka.client.id": "\n"}, {"kafka.request.timeout.ms": "x"}):
        with contextlib.suppress(Exception):
            spark.read.format("aiokproto").options(**{**options, **wrong}, subscribe=topic).load().count()
    spark.stop()
    return found


if __name__ == "__main__":
    given, name, place = sys.argv[1:]
    Path(place, "events").mkdir()
    sys.stdout.write(f"FOUND {json.dumps(run(json.loads(given), name, Path(place)))}\n")

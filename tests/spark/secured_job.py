"""Jobs with secrets in their options: they write, read, stream and load, and print all that Spark shows of their plans.
Then statements of SQL with secrets in their text, in a session with the redaction that the documentation has.

Run as ``python -m tests.spark.secured_job '[[{"kafka.bootstrap.servers": …}, topic], …]' folder secret``.
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
from tests.spark.session import start_session
from tests.timeouts import LONG_TIMEOUT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 50

token = UnsecuredToken("etl")
"""A function, for all processes of a job."""


REDACTION = "(?i)secret|password|token|access[.]?key|jaas|passphrase|user[.]info|keystore[.]key"
"""The setting in the documentation for what Spark leaves out of plans. The default is the part before ``jaas``."""
IN_SQL = (
    "kafka.sasl.jaas.config",
    "kafka.sasl.oauthbearer.assertion.private.key.passphrase",
    "kafka.sasl.password",
    "kafka.ssl.keystore.key",
    "schema.registry.basic.auth.user.info",
    "schema.registry.bearer.auth.token",
    "schema.registry.url",
)
"""Options with secrets that statements have in their text."""


def logged_session(folder: Path, more: Mapping[str, str] | None = None) -> SparkSession:
    """Start a session that logs all it does."""
    events = folder / "events"
    events.mkdir()
    settings = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri()}
    # Compressed events can't be searched.
    settings |= {"spark.eventLog.compress": "false", "spark.log.level": "INFO", **(more or {})}
    spark = start_session(folder / "warehouse", settings)
    spark.sparkContext.setLogLevel("INFO")
    return spark


def run(spark: SparkSession, options: Mapping[str, str], topic: str, folder: Path) -> dict[str, Any]:
    """Return how many rows each way of the data source has seen."""
    rows = spark.range(ROWS).selectExpr("cast(id AS string) AS value")
    rows.write.format("aiokproto").options(**options, topic=topic).mode("append").save()

    def frame() -> DataFrame:
        return spark.read.format("aiokproto").options(**options, subscribe=topic).load()

    for mode in ("simple", "extended", "codegen", "cost", "formatted"):
        frame().explain(mode=mode)
    found: dict[str, Any] = {"batch": frame().count()}
    listed = ", ".join(f"`{name}` '{value}'" for name, value in {**options, "subscribe": topic}.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING aiokproto OPTIONS ({listed})")
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
    assert query.awaitTermination(int(4 * LONG_TIMEOUT))
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
    return found


def run_sql(spark: SparkSession, secret: str) -> None:
    """Create views with options that have the secret; nothing connects."""
    for option in IN_SQL:
        view = "CREATE OR REPLACE TEMPORARY VIEW v USING aiokproto OPTIONS (`kafka.bootstrap.servers` 'h:1', subscribe"
        view += f" 't', `{option}` '{secret}')"
        for statement in (view, f"EXPLAIN EXTENDED {view}", "DESCRIBE EXTENDED v"):
            with contextlib.suppress(Exception):
                spark.sql(statement).show(100, truncate=False)


def main(jobs: list[tuple[dict[str, str], str]], folder: Path, secret: str) -> None:
    spark = logged_session(folder)
    for options, topic in jobs:
        sys.stdout.write(f"FOUND {json.dumps(run(spark, options, topic, folder / topic))}\n")
    spark.stop()
    (folder / "sql").mkdir()
    spark = logged_session(folder / "sql", {"spark.redaction.regex": REDACTION})
    run_sql(spark, secret)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])

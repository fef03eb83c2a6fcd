"""Queries of a stranger, who can run SQL and nothing else, in a session that an administrator has started.

Run as ``python -m tests.spark.strangers_job host:port topic folder``. It prints what each query ended with.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from aiokproto.spark.permissions import EVERYTHING, VARIABLES
from tests.spark.session import start_session

SETTING = f"spark.executorEnv.{VARIABLES}"


def main(servers: str, topic: str, folder: Path) -> dict[str, str]:
    """Return the results by the name of the variable that the query refers to."""
    spark = start_session(folder / "warehouse", {SETTING: "ETL_.*"})
    spark.sql(f"SET {SETTING} = .*")
    for name, value in EVERYTHING.items():
        spark.sql(f"SET {name} = {value}")
    results: dict[str, str] = {}
    for variable in ("ETL_CLIENT", "STRANGERS_AIM"):
        options = f"`kafka.bootstrap.servers` '{servers}', subscribe '{topic}', `kafka.client.id` '${{env:{variable}}}'"
        view = f"v_{variable.lower()}"
        try:
            # Spark's own substitution of variables in SQL would change the reference.
            spark.sql("SET spark.sql.variable.substitute = false")
            spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {view} USING aiokproto OPTIONS ({options})")
            results[variable] = str(spark.sql(f"SELECT count(*) FROM {view}").first()[0])  # type: ignore[index]
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the result
            results[variable] = str(error)
    spark.stop()
    return results


if __name__ == "__main__":
    sys.stdout.write(f"{json.dumps(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))}\n")

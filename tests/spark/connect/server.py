"""A server of Spark Connect, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue

from tests.spark.session import QUICK, java_options
from tests.timeouts import LONG_TIMEOUT

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
STARTED = re.compile(r"Spark Connect server started at: (\S+)")


@contextmanager
def connect_server(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Run a server of the installed PySpark, with further environment variables; yields its address.

    It ends with the block, and then ``folder`` has its ``events``, and what it printed, as ``log``.
    """
    events = folder / "events"
    events.mkdir()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": java_options(),
        "spark.driver.host": "127.0.0.1",
        # Compressed events can't be searched.
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
    }
    home = _home()
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--class", SERVER]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    variables = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, **environment}
    variables["SPARK_LAUNCHER_OPTS"] = " ".join(QUICK)
    with subprocess.Popen(
        command, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        addresses: SimpleQueue[str] = SimpleQueue()
        reader = threading.Thread(target=_read, args=(process, folder / "log", addresses), name="tests-connect-log")
        reader.start()
        try:
            address = addresses.get(timeout=LONG_TIMEOUT)
            assert address, (folder / "log").read_text()[-3000:]
            yield f"sc://{address}"
        finally:
            process.terminate()
            reader.join()


def _read(process: subprocess.Popen[str], log: Path, addresses: SimpleQueue[str]) -> None:
    """Copy what a server prints, to its end; the first address, or an empty text, goes into the queue."""
    assert process.stdout is not None
    with log.open("w") as file:
        for line in process.stdout:
            file.write(line)
            file.flush()
            if match := STARTED.search(line):
                addresses.put(match[1])
    addresses.put("")


def _home() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent

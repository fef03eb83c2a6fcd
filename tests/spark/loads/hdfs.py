"""Loads into a small HDFS, in a process of its own: ``python -m tests.spark.loads.hdfs JAR SERVERS TOPIC``.

HDFS runs in the driver's Java process, whose classes a session that has started cannot be given.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiokproto.spark import load, read, rerun, runs, vacuum
from aiokproto.spark.loads.opening import open_storage
from tests.spark.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def running_hdfs(jar: str, folder: Path) -> Iterator[tuple[SparkSession, str]]:
    """A session, and the address of a file system of one node in its JVM."""
    spark = start_session(folder, {"spark.driver.extraClassPath": jar})
    jvm: Any = spark._jvm
    context: Any = spark._jsc
    hadoop = jvm.org.apache.hadoop
    settings = hadoop.conf.Configuration(context.hadoopConfiguration())
    settings.set("hdfs.minidfs.basedir", str(folder / "hdfs"))
    cluster = hadoop.hdfs.MiniDFSCluster.Builder(settings).numDataNodes(1).build()
    try:
        cluster.waitActive()
        yield spark, str(cluster.getURI())
    finally:
        cluster.shutdown()
        spark.stop()


def check_storage(spark: SparkSession, uri: str) -> None:
    """Check the guarantees that commits depend on."""
    there = open_storage(f"{uri}/with space", spark)
    there.check()
    there.check()
    assert there.read("_a/b") is None
    with ThreadPoolExecutor(8) as threads:
        created = list(threads.map(lambda number: there.create("_a/b", b"%d" % number * 1000), range(8)))
    assert sum(created) == 1
    assert there.read("_a/b") == b"%d" % created.index(True) * 1000
    there.write("_a/b", b"another")
    assert there.read("_a/b") == b"another"
    there.write("run=1/deep/part", b"123")
    assert [(folder.name, folder.size) for folder in there.folders()] == [("run=1", 3)]
    there.remove("run=1")
    there.remove("run=1")
    assert list(there.folders()) == []


def check_loads(spark: SparkSession, out: str, servers: str, topic: str) -> None:
    """A load, and a rerun of it."""
    first = load(spark, topic, out, bootstrap_servers=servers)
    assert first.run_id is not None
    assert load(spark, topic, out, bootstrap_servers=servers).run_id is None
    assert rerun(spark, out, first.run_id, bootstrap_servers=servers) == first
    assert read(spark, out).count() == first.rows > 0
    assert [manifest.attempt for manifest in runs(out, spark)] == [2]
    assert len(vacuum(out, older_than=timedelta(0), spark=spark)) == 1
    assert read(spark, out).count() == first.rows


def main(jar: str, servers: str, topic: str) -> None:
    with tempfile.TemporaryDirectory() as folder, running_hdfs(jar, Path(folder)) as (spark, uri):
        check_storage(spark, uri)
        check_loads(spark, f"{uri}/out", servers, topic)


if __name__ == "__main__":
    main(*sys.argv[1:])

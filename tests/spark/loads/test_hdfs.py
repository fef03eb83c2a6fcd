"""Loads into HDFS, by the classes of the session's Hadoop."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.fetching import fetched, maven_copy
from tests.spark.kafka import Kafka
from tests.spark.loads.output import numbered
from tools.setup.project import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.thorough, pytest.mark.slow]


def cluster_jar() -> Path:
    """A whole HDFS, of the release that PySpark has the client of."""
    (client,) = Path(pyspark.__file__).with_name("jars").glob("hadoop-client-api-*.jar")
    match = re.search(r"-(\d[\d.]*)\.jar", client.name)
    assert match is not None
    folder = fetched(f"hdfs-{match[1]}", maven_copy(f"org.apache.hadoop:hadoop-client-minicluster:{match[1]}"))
    (jar,) = folder.glob("*.jar")
    return jar


def test_loads_into_hdfs(kafka: Kafka, topic: str) -> None:
    jar = cluster_jar()
    kafka.create_topic(topic, 1)
    kafka.produce(topic, 0, numbered(10))
    command = [sys.executable, "-m", "tests.spark.loads.hdfs", str(jar), kafka.bootstrap_servers, topic]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

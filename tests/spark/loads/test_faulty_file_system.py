"""Spark writes through a file system that moves by copying, does not delete, and lists late."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pyspark
import pytest

from aiokproto.spark import runs
from tests.spark.loads.driver import Driver
from tests.spark.loads.output import Output, expected, numbered
from tools.setup.project import MESSAGES_RELEASES, messages_jars
from tools.setup.system import find_java

pytestmark = [pytest.mark.spark, pytest.mark.java, pytest.mark.thorough]

SOURCE = Path(__file__).with_name("java") / "FaultyFileSystem.java"
JARS = Path(pyspark.__file__).with_name("jars")


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    compiler = next(messages_jars(MESSAGES_RELEASES[0]).glob("ecj-*.jar"))
    libraries = os.pathsep.join(map(str, JARS.glob("hadoop-client-*.jar")))
    command = [str(find_java()), "-jar", str(compiler), "-17", "-cp", libraries, "-d", str(folder), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def driver(output: Output, classes: Path, fault: str) -> Driver:
    settings = {
        "spark.driver.extraClassPath": str(classes),
        "spark.hadoop.fs.faulty.impl": "FaultyFileSystem",
        "spark.hadoop.fs.faulty.fault": fault,
    }
    return Driver(f"faulty://{output.path}", output.topic, output.kafka.bootstrap_servers, settings=settings)


@pytest.mark.parametrize("fault", ["", "copies"])
def test_moves_that_do_not_remove_their_source(output: Output, classes: Path, fault: str) -> None:
    status, printed = driver(output, classes, fault).run()
    assert status == 0, printed
    assert output.rows() == expected(10, 5)
    assert output.load().run_id is None


@pytest.mark.parametrize(
    ("fault", "text"),
    [("fails", "copied, and could not delete"), ("late", "Spark wrote 19 rows .* its files have")],
)
def test_incomplete_files_are_not_committed(output: Output, classes: Path, fault: str, text: str) -> None:
    output.kafka.add_partitions(output.topic, 4)
    for partition in (2, 3):
        output.kafka.produce(output.topic, partition, numbered(2))
    status, printed = driver(output, classes, fault).run()
    assert status == 1
    assert re.search(text, printed), printed
    assert runs(output.path) == []
    output.load()
    assert output.rows() == expected(10, 5, 2, 2)

"""Spark's own connector, in the session that all tests with Spark share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fetching import fetched, maven_copy_dependencies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


POM = Path(__file__).with_name("pom.xml")


@pytest.fixture(scope="session")
def official(spark: SparkSession) -> SparkSession:
    """The session, which now has ``format("kafka")`` too. Jars cannot be taken away again: nothing else uses them."""
    match = re.search(r"<connector\.version>(.+?)</connector\.version>", POM.read_text())
    assert match is not None, "the pom names the release"
    for jar in sorted(fetched(f"spark-connector-{match[1]}", maven_copy_dependencies(POM)).glob("*.jar")):
        spark.sql(f"ADD JAR '{jar}'")
    return spark

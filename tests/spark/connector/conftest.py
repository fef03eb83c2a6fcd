"""Spark's own connector, in the session that all tests with Spark share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.connector.jars import fetched_connector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def official(spark: SparkSession) -> SparkSession:
    """The session, which now has ``format("kafka")`` too. Jars can't be removed again, but nothing else uses them."""
    for jar in sorted(fetched_connector().glob("*.jar")):
        spark.sql(f"ADD JAR '{jar}'")
    return spark

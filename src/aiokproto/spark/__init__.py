"""Kafka for PySpark, without a jar: a data source named ``aiokproto``, and loads that know their offsets.

::

    from aiokproto.spark import register

    register(spark)
    flights = (
        spark.read.format("aiokproto")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("subscribe", "flights")
        .load()
    )

Needs the ``spark`` extra. Where this package is installed Spark finds the source by itself, and :func:`register` is not
needed, save for sessions that were started before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make ``format("aiokproto")`` known to a session."""
    from aiokproto.spark.source import KafkaDataSource

    spark.dataSource.register(KafkaDataSource)

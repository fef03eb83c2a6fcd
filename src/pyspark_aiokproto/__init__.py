"""Where PySpark looks for data sources by itself: ``DefaultSource`` in every installed module named ``pyspark_*``."""

from __future__ import annotations

from aiokproto.spark.source import KafkaDataSource as DefaultSource

__all__ = ["DefaultSource"]

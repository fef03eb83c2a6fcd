"""Kafka for PySpark, without a jar: a data source named ``aiokproto``, and loads that commit files with their offsets.

::

    from aiokproto.spark import load, register

    register(spark)
    flights = (
        spark.read.format("aiokproto")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("subscribe", "flights")
        .load()
    )
    load(spark, "flights", "/data/flights", bootstrap_servers="localhost:9092")

It needs the ``spark`` extra. Spark finds the data source of an installed package by itself, so only sessions that were
started before the installation need :func:`register`.
"""

from __future__ import annotations

import logging
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from aiokproto.spark.loads.commits import CommitUncertainError
    from aiokproto.spark.loads.history import ConflictError, SchemaError
    from aiokproto.spark.loads.load import LoadResult, load, read, rerun, runs
    from aiokproto.spark.loads.manifest import Manifest, ManifestError
    from aiokproto.spark.loads.storage import StorageError
    from aiokproto.spark.loads.vacuum import vacuum
    from aiokproto.spark.offsets import DataLossError
    from aiokproto.spark.payloads.columns import PayloadError
    from aiokproto.spark.payloads.registry import RegistryError, UnknownSchemaError
    from aiokproto.spark.planning import TopicChangedError
    from aiokproto.spark.sink.exactly_once.protocol import StateError, TransactionLossError
    from aiokproto.spark.sink.tasks import WriteError
    from aiokproto.spark.stream.group_offsets import GroupOffsets, commit_group_offsets
    from aiokproto.spark.stream.offsets import CheckpointError
    from aiokproto.spark.truncation import TruncationError

logger = logging.getLogger("aiokproto.spark")

__all__ = [
    "CheckpointError",
    "CommitUncertainError",
    "ConflictError",
    "DataLossError",
    "GroupOffsets",
    "LoadResult",
    "Manifest",
    "ManifestError",
    "PayloadError",
    "RegistryError",
    "SchemaError",
    "StateError",
    "StorageError",
    "TopicChangedError",
    "TransactionLossError",
    "TruncationError",
    "UnknownSchemaError",
    "WriteError",
    "commit_group_offsets",
    "load",
    "read",
    "register",
    "rerun",
    "runs",
    "vacuum",
]

_MODULES = {
    "CheckpointError": "stream.offsets",
    "CommitUncertainError": "loads.commits",
    "ConflictError": "loads.history",
    "DataLossError": "offsets",
    "GroupOffsets": "stream.group_offsets",
    "LoadResult": "loads.load",
    "Manifest": "loads.manifest",
    "ManifestError": "loads.manifest",
    "PayloadError": "payloads.columns",
    "RegistryError": "payloads.registry",
    "SchemaError": "loads.history",
    "StateError": "sink.exactly_once.protocol",
    "StorageError": "loads.storage",
    "TopicChangedError": "planning",
    "TransactionLossError": "sink.exactly_once.protocol",
    "TruncationError": "truncation",
    "UnknownSchemaError": "payloads.registry",
    "WriteError": "sink.tasks",
    "commit_group_offsets": "stream.group_offsets",
    "load": "loads.load",
    "read": "loads.load",
    "rerun": "loads.load",
    "runs": "loads.load",
    "vacuum": "loads.vacuum",
}


def _require_pyspark() -> None:
    # Don't import pyspark here, which takes a second.
    if find_spec("pyspark") is None:
        raise ImportError('pyspark is not installed: pip install "aiokproto[spark]"', name="pyspark")


def __getattr__(name: str) -> Any:
    # Import on access: executors import this package, too, and don't need the modules of the driver.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _require_pyspark()
    return getattr(import_module(f"aiokproto.spark.{_MODULES[name]}"), name)


def register(spark: SparkSession, *, pushdown: bool = False) -> None:
    """Register ``format("aiokproto")`` in a session. This has no effect if the session already has it.

    Args:
        spark: The session.
        pushdown: Whether batch reads skip records that the filters of the query exclude by ``topic``, ``partition``,
            ``offset`` or ``timestamp``. This sets ``spark.sql.python.filterPushdown.enabled`` in the session, for all
            Python data sources. Before Spark 4.1 it has no effect: Spark itself filters the rows. Load a separate
            DataFrame for each use, even within one query: Spark up to 4.3 reuses a filtered DataFrame, so its other
            uses lack the rows that the filter removed. A warning says so.
    """
    _require_pyspark()
    from pyspark.errors import AnalysisException

    from aiokproto.spark.source import KafkaDataSource, PushdownDataSource

    if pushdown:
        # Warn now: Spark doesn't call this package for the later query, so that query can't be refused.
        logger.warning(
            "filter pushdown: load a DataFrame for each use, also within one query; Spark keeps what a filter has left "
            "of a DataFrame, and its other uses miss the other rows"
        )
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        spark.dataSource.register(PushdownDataSource if pushdown else KafkaDataSource)
    except AnalysisException as error:
        # Spark 4.0 refuses to register a data source that it has already found by itself; later releases register it
        # again.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise

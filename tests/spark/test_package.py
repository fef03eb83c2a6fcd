"""Importing the package, without a Spark session."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest


def test_spark_finds_the_source_by_itself() -> None:
    """PySpark finds the source by the name of its module alone."""
    from aiokproto.spark.source import KafkaDataSource
    from pyspark_aiokproto import DefaultSource

    assert DefaultSource is KafkaDataSource
    assert DefaultSource.name() == "aiokproto"


def test_the_package_alone_does_not_load_spark() -> None:
    heavy = ("pyspark", "pyarrow", "numpy")
    for module in ("aiokproto", "aiokproto.spark", "aiokproto.spark.loads.load", "aiokproto.spark.reading"):
        code = f"import sys, {module}; print(*[name for name in {heavy!r} if name in sys.modules])"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert found.stdout.split() == [], module


def test_a_missing_pyspark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import aiokproto.spark

    monkeypatch.setitem(sys.modules, "pyspark", None)
    session: Any = None
    with pytest.raises(ImportError, match=r'pyspark is not installed: pip install "aiokproto\[spark\]"'):
        aiokproto.spark.register(session)
    with pytest.raises(ImportError, match="pyspark is not installed"):
        aiokproto.spark.load  # noqa: B018

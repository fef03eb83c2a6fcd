"""``python -m benchmarks.spark``: PySpark with this package, and with Spark's own connector and other clients."""

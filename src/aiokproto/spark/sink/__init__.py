"""The sink: ``df.write.format("aiokproto")`` and ``df.writeStream.format("aiokproto")``.

Rows are written at least once. Each task has an idempotent producer, so a retried request doesn't duplicate records.
But if Spark runs a task again, after a failure or as a speculative copy, the task writes its rows again.

The driver parses the options (``options``), checks the schema (``rows``), and creates a writer (``writers``), which
Spark pickles into its tasks. A task turns Arrow batches into one table per topic (``rows``) and passes the tables to
the producer (``tasks``), which its process keeps for its next task (:mod:`aiokproto.spark.worker`). A task ends when
each of its rows is acknowledged, or fails with the first row that isn't.
"""

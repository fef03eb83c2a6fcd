"""The sink: ``df.write.format("aiokproto")`` and ``df.writeStream.format("aiokproto")``.

Rows are written at least once. Each task has a producer, which is idempotent, so a retried request duplicates nothing;
but a task that Spark runs again, after a failure or as a speculative copy, writes its rows again.

The driver parses the options (``options``) and checks the schema (``rows``), in ``batch_writer`` and ``stream_writer``,
which Spark pickles into its tasks. A task turns Arrow batches into one table per topic (``rows``) and passes these to
the producer (``tasks``), which its process keeps for its next task (:mod:`aiokproto.spark.worker`). A task ends when
each of its rows is acknowledged, or fails with the first row that is not.
"""

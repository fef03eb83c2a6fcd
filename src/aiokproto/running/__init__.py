"""Calling a handler for records, several at a time: ``run()`` of consumers and share consumers.

* :class:`~aiokproto.running.scheduler.Scheduler` decides what may start next and what is finished. Pure.
* :class:`~aiokproto.running.runner.Runner` owns the tasks, and ends them: drain, signals, timeouts, failures.
* It has two subclasses: a consumer commits up to the first unfinished record
  (:mod:`aiokproto.consumer.running.runner`), a share consumer acknowledges each record (:mod:`aiokproto.share.runner`).
"""

"""Calling a handler for each record: :meth:`Consumer.run <aiokproto.consumer.Consumer.run>`.

* :class:`~aiokproto.running.scheduler.Scheduler` decides what may start next and what is finished. Pure.
* :class:`~aiokproto.consumer.running.retry.Retry` decides whether a failed call is made again, and when. Pure.
* :class:`~aiokproto.consumer.running.failed.Failures` decides where the record goes otherwise: to a retry topic or the
  dead-letter topic.
* :class:`~aiokproto.consumer.running.runner.ConsumerRunner` owns the tasks, and ends them.

During a run, the assignment refers to the runner, which knows how far offsets can be committed, and which partitions
are busy.
"""

from __future__ import annotations

from aiokproto.consumer.running.options import DeadLetters
from aiokproto.consumer.running.retry import PermanentError, Retry
from aiokproto.consumer.running.retry_topics import RetryTopics
from aiokproto.running.summary import PartitionProgress, RunStats, RunStatus, RunSummary, TopicCounts

__all__ = [
    "DeadLetters",
    "PartitionProgress",
    "PermanentError",
    "Retry",
    "RetryTopics",
    "RunStats",
    "RunStatus",
    "RunSummary",
    "TopicCounts",
]

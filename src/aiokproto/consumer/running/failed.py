"""Decides what to do with records that the handler has failed on."""

from __future__ import annotations

import logging
from typing import Literal

from aiokproto.application.calls import calling
from aiokproto.consumer.running.options import RunOptions
from aiokproto.consumer.running.retry import PermanentError
from aiokproto.group.config import GroupConfig
from aiokproto.running.runner import NotAwaitableError
from aiokproto.running.scheduler import Work
from aiokproto.runtime import uniform
from aiokproto.texts import counted, repr_of

log = logging.getLogger("aiokproto.consumer")


class Failures:
    """Decides what to do with failed records: first retries in place, then retry topics, then the dead-letter topic."""

    def __init__(self, options: RunOptions, group: GroupConfig | None) -> None:
        self._retry = options.retry
        self._topics = options.retry_topics
        self._dead_letters = options.dead_letter
        self._group = group.group_id if group else None

    def pause(self, work: Work, error: Exception) -> float | None:
        """Return the seconds until the call is repeated; None if it isn't."""
        if isinstance(error, NotAwaitableError) or not self._retry.again(error, work.attempts):
            return None
        return self._retry.pause(work.attempts, uniform(0, 1))

    def splits(self, work: Work, error: Exception) -> bool:
        """Return whether the records of a batch are handled one at a time, to give up only on the bad records."""
        elsewhere = self._topics is not None or self._dead_letters is not None
        several = isinstance(work.item, list) and len(work.item) > 1
        return elsewhere and several and not isinstance(error, NotAwaitableError)

    async def give_up(self, work: Work, error: Exception) -> Literal["retried", "dead-lettered"]:
        """Write a record to a retry topic, or to the dead-letter topic. Raise the error if there is neither.

        Raises:
            KafkaError: The record couldn't be written.
        """
        if isinstance(error, NotAwaitableError):
            raise error
        (record,) = work.records if len(work.records) == 1 else (None,)
        if record is None:
            raise error
        if self._topics is not None and not isinstance(error, PermanentError):
            topic = self._topics.next(record)
            if topic is not None:
                with calling("RetryTopics(producer)", awaited=True):
                    await self._topics.write(topic, record, error)
                log.info("run: %s: written to %s: %s", work, topic, repr_of(error))
                return "retried"
        letters = self._dead_letters
        if letters is None:
            raise error
        with calling("dead_letter.write", awaited=True):
            await letters.write(record, error, group=self._group, delivery_count=work.attempts)
        log.warning("run: %s: a dead letter after %s: %s", work, counted(work.attempts, "attempt"), repr_of(error))
        return "dead-lettered"

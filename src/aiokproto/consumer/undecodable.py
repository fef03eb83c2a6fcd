"""The policy for records that cannot be decoded: ``on_undecodable``.

There are two kinds. If a deserializer fails on a record, the deserializing reader finds that when it delivers the
record. If a whole batch is damaged, the reader finds that when it opens the batch, and replaces the batch with one
:class:`~aiokproto.types.UndecodableRecord`.

With ``"raise"`` and ``"return"`` the application decides, so, like any other record, it counts as processed once the
next one is requested. With the other policies, the consumer deals with the record itself before the position moves past
it: it logs the record, or waits until its dead letter is acknowledged. If the process is killed in between, the record
is read again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any, Literal

from aiokproto.application.calls import calling
from aiokproto.consumer.dead_letters import DeadLetterTopic
from aiokproto.errors import ConfigurationError, KafkaError, said_of
from aiokproto.types import Record

log = logging.getLogger("aiokproto.consumer")

LOGGED_EVERY = 10.0
"""Minimum number of seconds between log lines about skipped records."""

Policy = Literal["raise", "skip", "return"] | DeadLetterTopic

_NAMES = ("raise", "skip", "return")


def to_policy(option: object) -> Policy:
    """Check ``on_undecodable``.

    Raises:
        ConfigurationError: It isn't a policy.
    """
    if isinstance(option, DeadLetterTopic):
        return option
    for name in _NAMES:
        if option == name:
            return name  # type: ignore[return-value]
    raise ConfigurationError(f"on_undecodable={option!r}: expected {', '.join(map(repr, _NAMES))} or a DeadLetterTopic")


class Undecodable:
    """The policy, and a count of how often it was applied.

    Attributes:
        policy: The option.
        count: Records and damaged batches that couldn't be decoded so far.
    """

    def __init__(self, policy: Policy, group: str | None) -> None:
        self.policy = policy
        self.count = 0
        self._group = group
        # Dead letters that were sent, until the position moves past their records. If a call is cancelled, the next
        # call uses them, so no letter is written twice.
        self._letters: dict[Record[Any, Any], Awaitable[Any]] = {}
        self._log_at = float("-inf")
        self._unlogged = 0

    @property
    def removes(self) -> bool:
        """Whether the application never sees such records."""
        return self.policy == "skip" or isinstance(self.policy, DeadLetterTopic)

    @property
    def skips(self) -> bool:
        """Whether such records are only logged."""
        return self.policy == "skip"

    @property
    def awaited(self) -> bool:
        """Whether :meth:`write_dead_letter` has to wait."""
        return isinstance(self.policy, DeadLetterTopic)

    async def write_dead_letter(self, record: Record[Any, Any], error: Exception) -> None:
        """Write the record's dead letter, if that's the policy, before the position moves past the record. Call
        :meth:`removed` afterwards.

        Raises:
            KafkaError: The dead letter couldn't be written. The record stays.
        """
        if not isinstance(self.policy, DeadLetterTopic):
            return
        if record not in self._letters:
            # The deserializer's own error is more informative than the error that wraps it.
            cause = error.__cause__ or error
            with calling("DeadLetterTopic(producer)", awaited=True):
                self._letters[record] = await self.policy.post(record, cause, group=self._group)
        try:
            with calling("DeadLetterTopic(producer)", awaited=True):
                await self._letters[record]
        except KafkaError as failure:
            del self._letters[record]
            raise said_of(failure, self.policy.unwritten(record)) from failure

    def removed(self, error: Exception) -> None:
        """Count a record that the position has moved past, and log it."""
        self.count += 1
        # Also forget the letters of records that a seek or a rebalance has dropped: these records are read again.
        self._letters.clear()
        now = asyncio.get_running_loop().time()
        if now - self._log_at < LOGGED_EVERY:
            self._unlogged += 1
            return
        what = "skipped" if self.policy == "skip" else "written to the dead-letter topic"
        more = f" (and {self._unlogged} more since the last message)" if self._unlogged else ""
        log.warning("consumer: %s%s: %s", what, more, error)
        self._log_at, self._unlogged = now, 0

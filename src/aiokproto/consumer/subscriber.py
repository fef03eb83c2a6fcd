"""What a consumer reads: topics that a group or the consumer itself divides into partitions, or partitions."""

from __future__ import annotations

import re

from aiokproto.application.foreign_calls import foreign_subscribe, named_after
from aiokproto.consumer.part import ConsumerPart
from aiokproto.consumer.subscription import Listener, SubscriptionState, check_listener, to_pattern, to_topics
from aiokproto.errors import ConfigurationError
from aiokproto.group.arguments import to_partition
from aiokproto.types import TopicPartition


@named_after("Consumer")
class Subscriber(ConsumerPart):
    """Sets and reports what the consumer reads."""

    @foreign_subscribe
    def subscribe(
        self,
        *topics: str,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Replace the subscription.

        The callbacks are functions or coroutine functions of a list of partitions. They can commit and seek; reading
        records in them raises. The rebalance waits for them. An exception in one of them ends the consumer.

        Args:
            topics: Topic names.
            pattern: A regular expression, instead of ``topics``, that a whole topic name has to match; new topics are
                found within ``metadata_max_age_ms``. Internal topics never match. With the consumer protocol the broker
                matches it, if it is written in what Python and RE2 have in common, and finds new topics by itself.
            on_assigned: Called with new partitions before any of them is read.
            on_revoked: Called with partitions that the member gives up, while their offsets can still be committed.
            on_lost: Called with partitions that other members may own already; by default ``on_revoked`` is called.

        Raises:
            ConfigurationError: Neither or both are given, or partitions are assigned by :meth:`assign`.
        """
        if self._engine.subscription.partitions is not None:
            raise ConfigurationError("partitions are assigned: await unsubscribe() first")
        names = to_topics(topics, "subscribe")
        if bool(names) == (pattern is not None):
            raise ConfigurationError(
                'subscribe() takes either topics or a pattern: subscribe("a", "b"), or subscribe(pattern="a.*")'
            )
        compiled = None if pattern is None else to_pattern(pattern)
        for name, listener in (("on_assigned", on_assigned), ("on_revoked", on_revoked), ("on_lost", on_lost)):
            check_listener(name, listener)
        self._engine.set_subscription(
            SubscriptionState(
                topics=names, pattern=compiled, on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost
            )
        )

    def assign(self, *partitions: tuple[str, int]) -> None:
        """Replace the assignment; partitions that stay assigned keep their positions.

        With a ``group_id`` offsets are committed to that group, but the group does not distribute the partitions.

        Raises:
            ConfigurationError: Topics are subscribed, or the group is not left yet since they were.
        """
        if self._engine.subscription.by_topic:
            raise ConfigurationError("topics are subscribed: await unsubscribe() first")
        if self._engine.member is not None and not self._engine.member.outside:
            raise ConfigurationError("the group is not left yet: await unsubscribe() first")
        chosen = frozenset(to_partition(partition) for partition in partitions)
        self._engine.set_subscription(SubscriptionState(partitions=chosen))

    async def unsubscribe(self, timeout_ms: float | None = None) -> None:
        """Stop reading, commit what is processed (with ``enable_auto_commit``), and leave the group.

        After a cancellation or a timeout this continues in the background.

        Args:
            timeout_ms: How long to wait for it; by default ``default_api_timeout_ms``.

        Raises:
            RuntimeError: It is called in a rebalance callback, or in a handler of :meth:`run`, for which it would wait.
            DeadlineError: It has not finished in time.
        """
        if self._engine.rebalancing.in_callback():
            raise RuntimeError("unsubscribe() would wait for this rebalance callback, in which it is called")
        if self._assignment.handling is not None:
            self._assignment.handling.check_outside("unsubscribe()")
        # Before the subscription goes: its offsets are committed with the revocation.
        self._assignment.mark_processed()
        old = self._engine.subscription
        self._engine.set_subscription(
            SubscriptionState(on_assigned=old.on_assigned, on_revoked=old.on_revoked, on_lost=old.on_lost)
        )
        # The revocation waits for the application to request the next record, which this task does not.
        self._engine.reader.give_up_waiting()
        if self._engine.running:
            await self._engine.unsubscribed(self._seconds(timeout_ms))

    def enforce_rebalance(self, reason: str = "the application asks for it") -> None:
        """Have the group rebalance (KIP-568), for an assignor of your own whose input has changed.

        Returns at once; the rebalance follows while records are read. With the consumer protocol it is only logged: the
        broker rebalances whenever there is a cause.

        Args:
            reason: For the logs of this client and of the broker.

        Raises:
            ConfigurationError: There is no group.
        """
        self._group()
        assert self._engine.member is not None, "there is a group"
        self._engine.member.enforce_rebalance(reason)

    def subscription(self) -> frozenset[str]:
        """Return the topics subscribed by name."""
        return self._engine.subscription.topics

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        return frozenset(self._assignment.cursors)

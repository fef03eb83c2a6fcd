"""Calling a handler for each record, as a part of the consumer's API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, Literal, overload

from aiokproto.application.foreign_calls import named_after
from aiokproto.application.gates import RUN
from aiokproto.consumer.deserializing import DeserializingReader
from aiokproto.consumer.part import ConsumerPart
from aiokproto.consumer.running import DeadLetters, Retry, RetryTopics, RunStatus, RunSummary
from aiokproto.consumer.running.options import RunOptions
from aiokproto.consumer.running.runner import ConsumerRunner
from aiokproto.errors import ConfigurationError
from aiokproto.types import K, Record, V

Order = Literal["partition", "key", "none"] | Callable[[Record[K, V]], Hashable]
"""Which records are handled one after the other."""


@named_after("Consumer")
class Runs(ConsumerPart, Generic[K, V]):
    """Calls a handler for each record."""

    _deserializing: DeserializingReader[K, V]
    _run: ConsumerRunner | None = None

    @overload
    async def run(
        self,
        handler: Callable[[Record[K, V]], Awaitable[object]],
        *,
        concurrency: int = ...,
        order: Order[K, V] = ...,
        retry: Retry | None = ...,
        retry_topics: RetryTopics | None = ...,
        dead_letter: DeadLetters | None = ...,
        max_pending_records: int = ...,
        max_pending_bytes: int = ...,
        handler_timeout_ms: float | None = ...,
        drain_timeout_ms: float = ...,
        handle_signals: bool = ...,
        batch: None = ...,
        batch_wait_ms: Literal[0] = ...,
    ) -> RunSummary: ...

    @overload
    async def run(
        self,
        handler: Callable[[list[Record[K, V]]], Awaitable[object]],
        *,
        concurrency: int = ...,
        order: Literal["partition", "none"] = ...,
        retry: Retry | None = ...,
        retry_topics: RetryTopics | None = ...,
        dead_letter: DeadLetters | None = ...,
        max_pending_records: int = ...,
        max_pending_bytes: int = ...,
        handler_timeout_ms: float | None = ...,
        drain_timeout_ms: float = ...,
        handle_signals: bool = ...,
        batch: int,
        batch_wait_ms: float = ...,
    ) -> RunSummary: ...

    async def run(
        self,
        handler: Callable[[Any], Awaitable[object]],
        *,
        concurrency: int = 16,
        order: Order[K, V] = "partition",
        retry: Retry | None = None,
        retry_topics: RetryTopics | None = None,
        dead_letter: DeadLetters | None = None,
        max_pending_records: int = 10_000,
        max_pending_bytes: int = 64 * 1024 * 1024,
        handler_timeout_ms: float | None = None,
        drain_timeout_ms: float = 10_000,
        handle_signals: bool = False,
        batch: int | None = None,
        batch_wait_ms: float = 0,
    ) -> RunSummary:
        """Call a handler for each record, several at a time, until :meth:`stop_run`, a failure, or a cancellation.

        ::

            async def handle(record: Record) -> None: ...

            summary = await consumer.run(handle, concurrency=50, order="key", retry=Retry(attempts=5))

        **At least once.** Only records before the first unfinished one of their partition are committed: at each
        ``auto_commit_interval_ms``, when partitions are revoked, and at the end, with ``enable_auto_commit``. A record
        is finished when the handler returns, or when it was written to a retry topic or the dead-letter topic. If the
        handler fails for good and there is neither, the run ends with the handler's exception. After a rebalance, a
        failure or a crash the first unfinished record of a partition comes again, and with it the finished ones behind
        it: at most ``max_pending_records``; with ``order="partition"`` there are none.

        **Deserializers** are applied before the handler is called, and ``on_undecodable`` applies; a record with
        ``record.error`` is handled as any other. With ``"raise"`` the run ends with the error, and the record is
        unfinished. ``order="key"`` compares keys as they were stored.

        **Progress.** Each call of the handler has ``max_poll_interval_ms``; while calls end within it, the member stays
        in its group, however long records wait. Writing the call's dead letter is a part of it. A call that takes 30 s
        is logged, with its record.

        **The end.** No further call starts. Running ones have ``drain_timeout_ms`` to end, then they are cancelled;
        their records are not committed. When partitions are revoked the same holds for their records; calls for
        partitions that were lost are cancelled at once. A second cancellation or signal cancels the calls at once.
        Afterwards the consumer can be read, or run again, from the first unfinished records on.

        Args:
            handler: A coroutine function of a record; with ``batch``, of a list of records of one partition.
            concurrency: How many calls run at a time.
            order: ``"partition"``: the records of a partition one after the other. ``"key"``: those of a partition with
                the same key; without key in any order. ``"none"``: in any order. Or a function of a record that returns
                what takes the place of the key.
            retry: When a call that raised is made again; by default never.
            retry_topics: Where a record waits that the retries did not help.
            dead_letter: Where it is written finally.
            max_pending_records: Most records that were taken and are not finished, divided equally among the
                partitions. Also most records of a partition from its first unfinished one on.
            max_pending_bytes: Most bytes of them, likewise; exceeded by at most one batch of each partition.
            handler_timeout_ms: A call that takes longer is cancelled, and has failed with ``TimeoutError``.
            drain_timeout_ms: How long running calls may take when the run ends or partitions are revoked.
            handle_signals: Whether SIGTERM and SIGINT end the run, in place of what handled them before, which does so
                again afterwards: handlers of :mod:`signal` on every event loop, those of ``loop.add_signal_handler``
                where the loop shows them, as asyncio's own loops do. With others, such as uvloop, that is logged, and
                the signal then has its default effect until you add the handler again. Several runs of one event loop
                all end, and the last one restores. Needs the main thread.
            batch: Most records of one call. A batch that fails for good is handled record by record, in lists of one,
                if there are retry topics or a dead-letter topic.
            batch_wait_ms: How long a batch waits to have as many, from its first record on; 0: it has those that are
                there. It waits no longer when ``max_pending_records`` or ``max_pending_bytes`` let no more be taken,
                and is handled as it is; when the run ends it is not handled.

        Returns:
            What was done, by topic, if :meth:`stop_run`, a signal or :meth:`close` ended the run.

        Raises:
            ConfigurationError: An argument is invalid; retry topics are not subscribed; the consumer belongs to an
                :class:`~aiokproto.exactly_once.ExactlyOnce`.
            RuntimeError: The consumer runs already, another task reads it, or it is called in a rebalance callback.
            Exception: What a handler, writing a dead letter, or reading raised. Reading raises the errors of
                ``async for``.
        """
        given = {
            "concurrency": concurrency,
            "order": order,
            "retry": retry,
            "retry_topics": retry_topics,
            "dead_letter": dead_letter,
            "max_pending_records": max_pending_records,
            "max_pending_bytes": max_pending_bytes,
            "handler_timeout_ms": handler_timeout_ms,
            "drain_timeout_ms": drain_timeout_ms,
            "handle_signals": handle_signals,
            "batch": batch,
            "batch_wait_ms": batch_wait_ms,
        }
        options = RunOptions.parse(handler, given)
        engine = self._engine
        engine.admit(RUN)
        engine.check()
        if engine.reader.waiting or engine.reader.awaited is not None:
            raise RuntimeError("another task is waiting for records of this consumer; only one can at a time")
        if retry_topics is not None:
            self._check_read(retry_topics.topics)
        self._run = ConsumerRunner(engine, options, self._deserializing if self._deserializing.needed else None)
        engine.runs.begin(self._run)
        return await self._run.run()

    def stop_run(self) -> None:
        """End :meth:`run`: it starts no further call, waits for running ones, and returns. No effect without a run."""
        if self._run is not None:
            self._run.stop()

    def run_status(self) -> RunStatus | None:
        """Return what :meth:`run` is doing, or what the last one did; None before the first. No I/O."""
        return None if self._run is None else self._run.status()

    def _check_read(self, topics: tuple[str, ...]) -> None:
        """Raise if some of these topics are not read: their records would never be handled again."""
        subscription = self._engine.subscription
        if subscription.partitions is not None:
            read = {partition.topic for partition in subscription.partitions}
        elif subscription.pattern is not None:
            read = set(subscription.matching(topics))
        else:
            read = set(subscription.topics)
        if missing := [topic for topic in topics if topic not in read]:
            raise ConfigurationError(
                f"the consumer does not read the retry topics {', '.join(missing)}: subscribe to them too, as in "
                'Consumer("orders", *retry_topics.topics)'
            )

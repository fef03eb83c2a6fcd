"""The share consumer's public API."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

from aiokproto.application.async_context import AsyncContext
from aiokproto.application.gates import READ, RUN, SHARE_CONSUMER, Use, gated
from aiokproto.application.hints import METHODS, Hints
from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig, ConnectionOptions
from aiokproto.config.values import at_most, boolean, duration, integer, one_of, positive, seconds
from aiokproto.errors import ConfigurationError
from aiokproto.group.arguments import to_topic
from aiokproto.observe.health import Health
from aiokproto.running.runner import Plan
from aiokproto.running.summary import RunStatus, RunSummary
from aiokproto.runtime.coroutines import is_async
from aiokproto.security.tracebacks import hiding_options
from aiokproto.share.acknowledgement import Acknowledgement, AcknowledgeOutcome
from aiokproto.share.config import ShareConfig, refuse_consumer_options
from aiokproto.share.engine import ShareEngine
from aiokproto.share.ledger import ShareRecord
from aiokproto.share.report import ShareConsumerStats, health_of, stats_of
from aiokproto.share.runner import ErrorPolicy, Handler, ShareOptions, ShareRunner
from aiokproto.types import TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class ShareBatch:
    """Records of one partition that were acquired together and are stored in the same record batch, in order. It's
    never empty.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        records: The records. Their offsets can have gaps: other members have the records in between.
    """

    __slots__ = ("partition", "records", "topic")

    def __init__(self, records: Sequence[ShareRecord]) -> None:
        self.topic = records[0].topic
        self.partition = records[0].partition
        self.records = records

    def __iter__(self) -> Iterator[ShareRecord]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    @property
    def lock_deadline(self) -> float:
        """When the first of the records' acquisition locks ends, on the event loop's clock."""
        return min(record.lock_deadline for record in self.records)

    def __repr__(self) -> str:
        first, last = self.records[0].offset, self.records[-1].offset
        return (
            f"ShareBatch(topic={self.topic!r}, partition={self.partition}, first_offset={first}, "
            f"last_offset={last}, records={len(self.records)})"
        )


Acquired = ShareRecord | ShareBatch | Iterable[ShareRecord]
"""What can be acknowledged."""

_CLOSE_TIMEOUT_MS = 30_000


@gated(SHARE_CONSUMER)
class ShareConsumer(AsyncContext, Hints, hints=METHODS["ShareConsumer"]):
    """Read records as a member of a share group: a queue whose records are acknowledged individually (KIP-932).

    ::

        async with ShareConsumer("jobs", bootstrap_servers="localhost:9092", group_id="workers") as consumer:
            async for record in consumer:
                await work(record)

    The members of a share group read the same partitions. Each record is *acquired* by one of them, under a lock that
    expires (after 30 s by default; a group option). The member accepts the record, releases it for another delivery, or
    rejects it. Records that it doesn't acknowledge in time are delivered again, up to ``share.delivery.count.limit``
    (5) times in total. Records aren't delivered in order.

    **Implicit** acknowledgement: a record is accepted when the loop requests the next one, or leaves with ``break`` and
    the ``async with`` block ends. If the block ends with an exception, the current record is released. A batch, or a
    list from :meth:`poll`, counts as a whole. Before that, you can acknowledge individual records differently, with
    :meth:`release` or :meth:`reject`.

    **Explicit**: you acknowledge each record, in any order and from any task. Records that you haven't acknowledged
    when you request the next one stay yours: their locks are renewed until ``max_processing_ms`` has passed.

    **At least once.** An accepted record can be delivered again only if its acknowledgement failed, which its outcome
    reports: see :meth:`commit` and ``on_acknowledged``.

    **Cancelling** a call loses no record: acquired records stay in the buffer for the next call. Only one task at a
    time may wait for records. Share groups need Kafka 4.1.

    A consumer can be created without an event loop. It binds to one in :meth:`start`, which ``async with`` calls.

    Args:
        topics: Topics to read; :meth:`subscribe` can set them later.
        group_id: The share group. The group's options on the broker say where it starts to read, which records of
            transactions it reads, how long locks last and how often records are delivered.
        acknowledgement_mode: ``"implicit"``: a record is accepted when the next one is requested. ``"explicit"``: you
            acknowledge each record.
        on_acknowledged: A function that is called with a list of :class:`~aiokproto.share.AcknowledgeOutcome`,
            successes and failures, soon after the broker has responded. If it raises, the consumer ends. If there is no
            function, failures are logged.
        share_acquire_mode: ``"batch_optimized"`` acquires whole record batches, and can exceed ``max_poll_records`` by
            the rest of a batch; ``"record_limit"`` never exceeds it (KIP-1206, Kafka 4.2).
        max_poll_records: Maximum number of records to acquire with one request to a broker. While the application is so
            slow that records expire in the buffer, the consumer acquires fewer records, and doesn't acquire whole
            batches.
        acknowledge_linger_ms: How long acknowledgements wait, to be sent together with others or with a fetch.
        renew_locks: Whether the locks of delivered records are renewed until they are acknowledged (KIP-1222, Kafka
            4.2). The locks of buffered records aren't: other members may be idle.
        max_processing_ms: How long after its acquisition a record's lock is renewed.
        corrupt_records: How to acknowledge damaged records, which can't be delivered: ``"reject"`` or ``"release"``.
            The ``cause`` of their outcome is the damage.
        fetch_min_bytes: The broker delays a response until it has this many bytes ...
        fetch_max_wait_ms: ... or until this time has passed, at most a quarter of the lock's duration.
        fetch_max_bytes: Maximum size of a response in bytes. A response's first batch is sent even if it's larger.
        check_crcs: Whether the checksums of batches are verified.
        max_decompressed_bytes: Maximum size of a record batch after decompression (1 GiB). It limits the time that a
            few kilobytes can take to decompress. It doesn't affect memory, because batches are decoded in slices.
        max_record_bytes: Maximum size of one decompressed record, plus 192 bytes for each header: about what it takes
            as an object (50 MiB, the default limit of a response). It also limits a batch that a C client has
            compressed with snappy, which can't be decompressed in part. A batch that exceeds a limit is handled like a
            damaged one.
        connection: See :class:`~aiokproto.config.ConnectionOptions`; ``bootstrap_servers`` is required.

    Raises:
        ConfigurationError: An option is unknown or invalid; the message names it.
    """

    @hiding_options
    def __init__(
        self,
        *topics: str,
        group_id: str,
        acknowledgement_mode: Literal["implicit", "explicit"] = "implicit",
        on_acknowledged: Callable[[Sequence[AcknowledgeOutcome]], object] | None = None,
        share_acquire_mode: Literal["batch_optimized", "record_limit"] = "batch_optimized",
        max_poll_records: int = 500,
        acknowledge_linger_ms: float = 100,
        renew_locks: bool = True,
        max_processing_ms: float = 300_000,
        corrupt_records: Literal["reject", "release"] = "reject",
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: float = 500,
        fetch_max_bytes: int = 50 * 1024 * 1024,
        check_crcs: bool = True,
        max_decompressed_bytes: int = 1024 * 1024 * 1024,
        max_record_bytes: int = 50 * 1024 * 1024,
        **connection: Unpack[ConnectionOptions],
    ) -> None:
        config = ShareConfig.parse(
            {
                "group_id": group_id,
                "acknowledgement_mode": acknowledgement_mode,
                "on_acknowledged": on_acknowledged,
                "share_acquire_mode": share_acquire_mode,
                "max_poll_records": max_poll_records,
                "acknowledge_linger_ms": acknowledge_linger_ms,
                "renew_locks": renew_locks,
                "max_processing_ms": max_processing_ms,
                "corrupt_records": corrupt_records,
                "fetch_min_bytes": fetch_min_bytes,
                "fetch_max_wait_ms": fetch_max_wait_ms,
                "fetch_max_bytes": fetch_max_bytes,
                "check_crcs": check_crcs,
                "max_decompressed_bytes": max_decompressed_bytes,
                "max_record_bytes": max_record_bytes,
            }
        )
        names = _topic_names(topics, "ShareConsumer")
        refuse_consumer_options(connection)
        cluster = ClusterClient(ClusterConfig.parse(connection, own=OPTIONS))
        self._explicit = config.explicit
        self._most = config.fetch.max_records
        self._engine = ShareEngine(cluster, config, names)
        self._reader = self._engine.reader
        self._current: Sequence[ShareRecord] = ()
        self._run: ShareRunner | None = None

    # -- lifecycle

    async def start(self) -> None:
        """Connect and join the group. ``async with`` calls it.

        Raises:
            BootstrapError, NotKafkaError, AuthenticationError: The cluster cannot be reached.
            UnknownTopicError, InvalidTopicError, AuthorizationError: A topic cannot be read.
            ClientClosedError: The consumer was started before, or was closed while starting.
        """
        await self._engine.start()

    def close(self, timeout_ms: float = _CLOSE_TIMEOUT_MS) -> Coroutine[Any, Any, None]:
        """Send all acknowledgements, release all other records and leave the group, within ``timeout_ms``.

        With implicit acknowledgement the current record is accepted, unless the caller is handling an exception, as in
        ``finally`` or an ``async with`` block that an exception ends. If :meth:`run` is running, its handlers have half
        of the time to end. Cancelling the call disconnects immediately, which releases records too; the request to
        leave the group is still sent, without waiting for the response. Calling it again has no effect.

        Raises:
            RuntimeError: A handler of :meth:`run` calls it.
        """
        # Check it now instead of in the coroutine: in a task that runs the coroutine, the caller's exception isn't
        # visible.
        return self._close(seconds("timeout_ms", timeout_ms), finished=sys.exc_info()[0] is None)

    async def _close(self, timeout: float, *, finished: bool) -> None:
        self._engine.cluster.check_loop()
        self._finish_current(Acknowledgement.ACCEPT if finished else Acknowledgement.RELEASE)
        await self._engine.close(timeout)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def _leave(self, error: BaseException | None) -> None:
        await self._close(_CLOSE_TIMEOUT_MS / 1000, finished=error is None)

    def _admit(self, use: Use) -> None:
        self._engine.admit(use)

    # -- subscription

    def subscribe(self, *topics: str) -> None:
        """Replace the subscription. Buffered records of other topics are released.

        Raises:
            ConfigurationError: No topic is given, or a name is invalid.
            ClientClosedError: The consumer is closed.
        """
        if not topics:
            raise ConfigurationError("subscribe() takes one or more topics; unsubscribe() ends the subscription")
        self._engine.set_subscription(_topic_names(topics, "subscribe"))

    def unsubscribe(self) -> None:
        """Stop reading. Buffered records are released; delivered records can still be acknowledged."""
        self._engine.set_subscription(frozenset())

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics."""
        return self._engine.subscription

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that the group has assigned to this member. They can be assigned to other members,
        too."""
        return self._engine.assignment

    # -- reading

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ShareRecord:
        """Return the next record. Its lock is held at this time.

        Raises:
            UnsupportedCompressionError: Records were released because their codec is not installed.
            UnknownTopicError, AuthorizationError: A topic or partition cannot be read. The next call continues with the
                other partitions; this one is tried again later.
            GroupError, AuthorizationError: The group rejects this member.
            ClientClosedError: The consumer is closed, or one of its tasks failed; that error is then the cause.
        """
        engine = self._engine
        # Call the gate only if it may raise: this code runs for every record.
        # guard: the records of a share group's run() are not read by others
        if engine.runner is not None or asyncio._get_running_loop() is not engine.cluster.home.loop:
            engine.admit(READ)
        self._finish_current(Acknowledgement.ACCEPT)
        while True:
            record = self._reader.next_record()
            if record is not None:
                self._current = (record,)
                return record
            await self._reader.open()

    async def poll(
        self, timeout_ms: float = 500, max_records: int | None = None, *, min_records: int = 1
    ) -> list[ShareRecord]:
        """Return up to ``max_records`` (default ``max_poll_records``) records as soon as there are ``min_records``, or
        whatever there is after ``timeout_ms``.

        ``poll(T, n)`` returns with the first records; ``poll(T, n, min_records=n)`` collects records until there are
        ``n`` or ``T`` ms have passed. Their locks are renewed during the wait (see ``renew_locks``); if they aren't
        renewed, it returns what there is when a quarter of the first lock's duration is left. A record whose lock is
        lost, for example with its broker's connection, isn't returned. If the call is cancelled or raises, the
        collected records stay for the next call.

        With ``timeout_ms=0`` it returns buffered records; if there are none, it lets the consumer fetch in the
        background. Raises the same errors as ``async for``.

        Args:
            timeout_ms: The maximum wait.
            max_records: Maximum number of records.
            min_records: How many records to wait for.

        Raises:
            ConfigurationError: An argument is invalid, or ``min_records`` is more than ``max_records``.
        """
        most = self._most if max_records is None else integer("max_records", max_records, 1)
        limit = "max_poll_records" if max_records is None else "max_records"
        least = at_most("min_records", integer("min_records", min_records, 1), limit, most)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds("timeout_ms", timeout_ms)
        self._finish_current(Acknowledgement.ACCEPT)
        records: list[ShareRecord] = []
        try:
            while len(records) < least:
                until = min((record._lock.deliver_by for record in records), default=deadline)
                opened = await self._reader.open(min(until, deadline))
                # Keep the records whose locks have survived the wait.
                records = self._reader.held(records)
                if opened:
                    records += self._reader.take_open(most - len(records))
                    while len(records) < most and self._reader.open_at_once():
                        records += self._reader.take_open(most - len(records))
                elif loop.time() >= deadline or any(record._lock.deliver_by <= loop.time() for record in records):
                    break
        except BaseException:
            self._reader.keep(records)
            raise
        self._current = records
        return list(records)

    def batches(self) -> AsyncIterator[ShareBatch]:
        """Return an endless iterator of batches: records that were acquired together. Raises the same errors as
        ``async for``."""
        return _Batches(self)

    async def _next_batch(self) -> ShareBatch:
        self._engine.admit(READ)
        self._finish_current(Acknowledgement.ACCEPT)
        while True:
            await self._reader.open()
            if records := self._reader.take_open(sys.maxsize):
                self._current = records
                return ShareBatch(records)

    # -- calling a handler

    async def run(
        self,
        handler: Handler,
        *,
        concurrency: int = 1,
        max_in_flight_bytes: int = 64 * 1024 * 1024,
        on_error: ErrorPolicy = "release",
        redelivery_backoff_ms: float = 1000,
        handler_timeout_ms: float | None = None,
        drain_timeout_ms: float = 30_000,
        handle_signals: bool = False,
    ) -> RunSummary:
        """Call ``await handler(record)`` for each record, until :meth:`stop_run`, a failure, or a cancellation.

        A record whose handler returns is accepted. If it raises, the error is logged, and ``on_error`` decides. A
        handler can also acknowledge its record itself. Locks are renewed as long as the handlers are running (see
        ``renew_locks``); records are acquired as handlers become free. None of this depends on
        ``acknowledgement_mode``.

        **The end.** No more calls start. Running calls have ``drain_timeout_ms`` to end, then they are cancelled, and
        their records released. A call that doesn't end within another second is left alone, and logged. A second
        cancellation or signal cancels the calls immediately.

        Args:
            handler: A coroutine function of a record. If it raises a ``CancelledError`` without being cancelled, that's
                a failure like any other: ``on_error`` gets a :class:`~aiokproto.application.calls.CallbackError`.
            concurrency: Maximum number of concurrent handlers.
            max_in_flight_bytes: No more handlers are started once running handlers have this many bytes of keys and
                values. The last record can exceed it.
            on_error: ``"release"``: deliver the record again, to any member, up to the group's limit on deliveries;
                ``"reject"``: never deliver it again; or a function of the record and the error that returns one of
                these or ``"accept"``. If the function raises, the run ends.
            redelivery_backoff_ms: How long a record waits before it's released, while counting towards ``concurrency``.
                It doubles with each delivery, up to 30 s. Without it, brokers deliver a released record again
                immediately.
            handler_timeout_ms: A call that takes longer is cancelled, and fails with ``TimeoutError``.
            drain_timeout_ms: How long running calls may take when the run ends.
            handle_signals: Whether SIGTERM and SIGINT end the run, as in
                :meth:`Consumer.run() <aiokproto.consumer.Consumer.run>`.

        Returns:
            The counts by topic, if :meth:`stop_run`, a signal or :meth:`close` ended the run: ``retried`` counts
            releases, ``dead_lettered`` rejections.

        Raises:
            ConfigurationError: An argument, or the result of ``on_error``, is invalid.
            RuntimeError: The consumer is already in ``run()``.
            KafkaError: The same errors as ``async for``, raised after running handlers have ended.
            Exception: Any error that ``on_error`` raised.
        """
        if not callable(handler):
            raise ConfigurationError(f"run({handler!r}): expected a coroutine function of a record")
        if not callable(on_error):
            one_of("on_error", on_error, ("release", "reject"))
        elif is_async(on_error):
            raise ConfigurationError(f"on_error={on_error!r}: a coroutine function is not awaited here")
        timeout = handler_timeout_ms
        options = ShareOptions(
            Plan(
                handler=handler,
                running=positive("concurrency", concurrency),
                drain_timeout=seconds("drain_timeout_ms", drain_timeout_ms),
                handler_timeout=None if timeout is None else duration("handler_timeout_ms", timeout),
                handle_signals=boolean("handle_signals", handle_signals),
            ),
            max_bytes=positive("max_in_flight_bytes", max_in_flight_bytes),
            on_error=on_error,
            backoff=seconds("redelivery_backoff_ms", redelivery_backoff_ms),
        )
        self._engine.admit(RUN)
        self._engine.check()
        self._finish_current(Acknowledgement.ACCEPT)
        self._run = ShareRunner(self._engine, options)
        self._engine.runs.start(self._run)
        return await self._run.run()

    def stop_run(self) -> None:
        """End :meth:`run`: it starts no more calls, waits for running ones, and returns. If there's no run, this has no
        effect."""
        if self._run is not None:
            self._run.stop()

    def run_status(self) -> RunStatus | None:
        """Return what :meth:`run` is doing, or what the last run did; None before the first run. No I/O."""
        return None if self._run is None else self._run.status()

    def _finish_current(self, kind: Acknowledgement) -> None:
        """Acknowledge the last delivered records: the application is done with them."""
        current, self._current = self._current, ()
        if not self._explicit and current:
            self._engine.acknowledge_rest(current, kind)

    # -- acknowledgements

    def accept(self, *acquired: Acquired) -> bool:
        """Acknowledge records as processed: they are never delivered again. The acknowledgement is sent later.

        Args:
            acquired: Records, batches, or lists of records of this consumer.

        Returns:
            Whether all of the records could still be acknowledged. A record can't be acknowledged if its lock has
            expired or was lost with the connection or the partition's leader; :meth:`commit` and ``on_acknowledged``
            report the reason. It also can't if it was acknowledged before, except that an acknowledgement that hasn't
            been sent yet can be replaced.

        Raises:
            ConfigurationError: Something other than records of this consumer was passed.
            ClientClosedError: The consumer is closed.
        """
        return self._acknowledge("accept", acquired, Acknowledgement.ACCEPT)

    def release(self, *acquired: Acquired) -> bool:
        """Give records back, to be delivered again to any member, unless their delivery count has reached the limit.

        Otherwise like :meth:`accept`.
        """
        return self._acknowledge("release", acquired, Acknowledgement.RELEASE)

    def reject(self, *acquired: Acquired) -> bool:
        """Acknowledge records as impossible to process: they are never delivered again. Otherwise like
        :meth:`accept`."""
        return self._acknowledge("reject", acquired, Acknowledgement.REJECT)

    def renew(self, *acquired: Acquired) -> bool:
        """Start the locks of records over (KIP-1222). Use it for records that ``renew_locks`` doesn't renew, or no
        longer renews.

        A renewed record still has to be acknowledged like any other. This needs Kafka 4.2 and the group option
        ``share.renew.acknowledge.enable``; if they're missing, the outcome contains an error. Otherwise like
        :meth:`accept`.
        """
        return self._acknowledge("renew", acquired, Acknowledgement.RENEW)

    def _acknowledge(self, call: str, acquired: Iterable[Acquired], kind: Acknowledgement) -> bool:
        engine = self._engine
        # Check all of them before acknowledging any.
        records = [record for each in acquired for record in self._records(call, each)]
        done = [engine.acknowledge(record, kind) for record in records]
        return all(done)

    def _records(self, call: str, acquired: Acquired) -> Iterator[ShareRecord]:
        if isinstance(acquired, ShareRecord):
            if acquired._lock.acquired.owner is not self._engine:
                raise ConfigurationError(f"{call}: {acquired!r} was delivered by another consumer")
            yield acquired
        elif isinstance(acquired, ShareBatch | list | tuple | set | frozenset):
            for item in acquired:
                yield from self._records(call, item)
        else:
            raise ConfigurationError(f"{call}({acquired!r}): expected records of this consumer, as it delivered them")

    async def commit(self, timeout_ms: float | None = None) -> list[AcknowledgeOutcome]:
        """Send all acknowledgements, and return their outcomes.

        With implicit acknowledgement, everything that was delivered is accepted first. If a fetch is in flight, the
        call waits for it, for at most ``fetch_max_wait_ms``. If the call is cancelled, the acknowledgements are still
        sent.

        Args:
            timeout_ms: By default ``default_api_timeout_ms``.

        Returns:
            One outcome for each range of records with the same outcome. They cover all acknowledgements that had none
            yet, and the failures since the last commit. Failures aren't raised: check ``outcome.error``.

        Raises:
            DeadlineError: Some acknowledgements got no outcome in time. The next commit waits for them.
            ClientClosedError: The consumer is closed, or one of its tasks failed; that error is then the cause.
        """
        timeout = self._engine.cluster.config.api_timeout if timeout_ms is None else seconds("timeout_ms", timeout_ms)
        self._finish_current(Acknowledgement.ACCEPT)
        return await self._engine.commit(timeout)

    # -- statistics

    def stats(self) -> ShareConsumerStats:
        """Return the consumer's statistics: partitions, fetches, delivery, acknowledgements, connections.

        No I/O. It loops over the partitions.
        """
        return stats_of(self._engine)

    def health(self) -> Health:
        """Return whether the consumer is working, and if not, what is wrong. No I/O.

        Findings are, for example, that no broker can be reached, that a partition has no leader or cannot be read, or
        that the member is joining the group. A topic without new records isn't a finding.
        """
        return health_of(self._engine)


class _Batches:
    """The iterator of :meth:`ShareConsumer.batches`. It isn't a generator, because a cancellation would end a
    generator."""

    def __init__(self, consumer: ShareConsumer) -> None:
        self._consumer = consumer

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ShareBatch:
        return await self._consumer._next_batch()


def _topic_names(topics: tuple[str, ...], call: str) -> frozenset[str]:
    for topic in topics:
        if not isinstance(topic, str) or not topic:
            raise ConfigurationError(f"{call}({topic!r}): expected topic names (str), each as an argument of its own")
    return frozenset(map(to_topic, topics))


OPTIONS = tuple(name for name in signature(ShareConsumer).parameters if name not in ("topics", "connection"))
"""The names of the share consumer's own options."""

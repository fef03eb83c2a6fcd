"""The share consumer: public API."""

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
    """Records of one partition that were acquired together and stored in one record batch, in order; not empty.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        records: The records. Offsets can have gaps: other members have those.
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
        """When the first acquisition lock of the records ends, on the event loop's clock."""
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
    """Read records as a member of a share group: a queue whose records are acknowledged one by one (KIP-932).

    ::

        async with ShareConsumer("jobs", bootstrap_servers="localhost:9092", group_id="workers") as consumer:
            async for record in consumer:
                await work(record)

    The members of a share group read the same partitions. Each record is *acquired* by one of them, under a lock of
    limited time (30 s by default, a group option). The member accepts it, releases it for another delivery, or rejects
    it. Records that it doesn't acknowledge in time are delivered again, up to ``share.delivery.count.limit`` (5)
    deliveries. Records aren't delivered in order.

    **Implicit** acknowledgement: a record is accepted when the loop requests the next one, or leaves with ``break`` and
    the ``async with`` block ends. If an exception leaves the block, the current record is released. A batch, or a list
    from :meth:`poll`, counts as a whole. You can acknowledge single records otherwise before, with :meth:`release` or
    :meth:`reject`.

    **Explicit**: you acknowledge each record, in any order and from any task. Records that you haven't acknowledged
    when you request the next one stay yours: their locks are renewed until ``max_processing_ms`` have passed.

    **At least once.** An accepted record can be delivered again only if its acknowledgement failed; the outcome says
    so: see :meth:`commit` and ``on_acknowledged``.

    **Cancelling** a call loses no record: acquired records stay in the buffer for the next call. Only one task at a
    time may wait for records. Share groups need Kafka 4.1.

    The consumer binds to an event loop in :meth:`start`, which ``async with`` calls, and can be created without one.

    Args:
        topics: Topics to read; :meth:`subscribe` can set them later.
        group_id: The share group. Its own options say where it starts to read, which records of transactions it reads,
            how long locks last and how often records are delivered.
        acknowledgement_mode: ``"implicit"``: a record is accepted when the next one is requested. ``"explicit"``: you
            acknowledge each record.
        on_acknowledged: A function that is called with a list of
            :class:`~aiokproto.share.AcknowledgeOutcome`, successes and failures, soon after the broker has answered.
            An exception in it ends the consumer. Without it, failures are logged.
        share_acquire_mode: ``"batch_optimized"`` acquires whole record batches, and can exceed ``max_poll_records`` by
            the rest of one; ``"record_limit"`` does not (KIP-1206, Kafka 4.2).
        max_poll_records: Most records to acquire with one request to a broker. While the application is so slow that
            records expire in the buffer, the consumer acquires fewer, and no whole batches.
        acknowledge_linger_ms: How long acknowledgements wait for others, or for a fetch to go with.
        renew_locks: Whether the locks of delivered records are renewed until they are acknowledged (KIP-1222, Kafka
            4.2). The buffer's locks are not: other members may be idle.
        max_processing_ms: For how long after its acquisition a record's lock is renewed.
        corrupt_records: How damaged records, which can't be delivered, are acknowledged: ``"reject"`` or ``"release"``.
            Their outcome has the damage as its ``cause``.
        fetch_min_bytes: The broker delays a response until it has this many bytes ...
        fetch_max_wait_ms: ... or until this time has passed, at most a quarter of the lock's duration.
        fetch_max_bytes: Most bytes in a response; a first batch that is larger is sent nevertheless.
        check_crcs: Whether the checksums of batches are verified.
        max_decompressed_bytes: Most bytes that a record batch may become when it is decompressed (1 GiB). It bounds the
            time that a few kilobytes can take; memory doesn't depend on it, because batches are decoded in slices.
        max_record_bytes: Most bytes of one record, decompressed, with 192 for each header: about what it takes as an
            object (50 MiB, as much as a response has by default). It also limits a batch that a C client has compressed
            with snappy, because that can't be decompressed in part. A batch beyond a limit is handled like a damaged
            one.
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
            ClientClosedError: The consumer was started before, or closed while it starts.
        """
        await self._engine.start()

    def close(self, timeout_ms: float = _CLOSE_TIMEOUT_MS) -> Coroutine[Any, Any, None]:
        """Send all acknowledgements, release all other records, leave the group; within ``timeout_ms``.

        With implicit acknowledgement the current record is accepted, unless the caller is handling an exception, as in
        ``finally`` or an ``async with`` block that an exception ends. While :meth:`run` runs, its handlers may end
        within half of the time. Cancelling the call disconnects immediately, which releases records too; the request to
        leave the group is still sent, and its response not waited for. Calling it again has no effect.

        Raises:
            RuntimeError: A handler of :meth:`run` calls it.
        """
        # Check it at the call and not at the await. A task that runs the coroutine wouldn't see the caller's exception.
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
            ConfigurationError: There is no topic, or an invalid name.
            ClientClosedError: The consumer is closed.
        """
        if not topics:
            raise ConfigurationError("subscribe() takes one or more topics; unsubscribe() ends the subscription")
        self._engine.set_subscription(_topic_names(topics, "subscribe"))

    def unsubscribe(self) -> None:
        """Stop reading. Buffered records are released; delivered ones can still be acknowledged."""
        self._engine.set_subscription(frozenset())

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics."""
        return self._engine.subscription

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that the group has assigned to this member; other members can have them too."""
        return self._engine.assignment

    # -- reading

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ShareRecord:
        """Return the next record, of which the lock is held now.

        Raises:
            UnsupportedCompressionError: Records were released because their codec is not installed.
            UnknownTopicError, AuthorizationError: A topic or partition cannot be read. The next call goes on with the
                others, and later with it.
            GroupError, AuthorizationError: The group rejects this member.
            ClientClosedError: The consumer is closed, or one of its tasks failed, which is then the cause.
        """
        engine = self._engine
        # Ask the gate only if it may refuse. This runs for every record.
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
        what there is after ``timeout_ms``.

        ``poll(T, n)`` returns with the first records; ``poll(T, n, min_records=n)`` collects ``n`` records or for ``T``
        ms, whichever ends first. Their locks are renewed meanwhile, see ``renew_locks``; without that, it returns what
        there is when a quarter of the first lock's duration is left. A record whose lock is lost, with its broker's
        connection for example, is not returned. A call that is cancelled, or raises, keeps the collected records for
        the next one.

        With ``timeout_ms=0`` it returns buffered records; if there are none, it lets the consumer fetch in the
        background. Raises the errors of ``async for``.

        Args:
            timeout_ms: How long it may wait.
            max_records: Most records.
            min_records: How many it waits for.

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
        """Return an endless iterator of batches: records that were acquired together. Raises the errors of ``async
        for``."""
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
        handler can acknowledge its record itself instead. Locks are renewed as long as the handlers run, see
        ``renew_locks``; records are acquired as handlers become free. This does not depend on ``acknowledgement_mode``.

        **The end.** No further call starts. Running ones have ``drain_timeout_ms`` to end, then they are cancelled, and
        their records released. One that does not end within a second more is left alone, which is logged. A second
        cancellation or signal cancels the calls at once.

        Args:
            handler: A coroutine function of a record. If it raises a ``CancelledError`` although it wasn't cancelled,
                that's a failure like any other: ``on_error`` gets a
                :class:`~aiokproto.application.calls.CallbackError`.
            concurrency: How many handlers run at a time.
            max_in_flight_bytes: Bytes of keys and values with handlers beyond which no more are started; the last
                record can exceed it.
            on_error: ``"release"``: deliver the record again, to any member, until the group's limit of deliveries;
                ``"reject"``: never again; or a function of the record and the error that returns one of them or
                ``"accept"``. What the function raises ends the run.
            redelivery_backoff_ms: How long a record waits before it is released, without another handler in its place;
                doubles with each delivery, up to 30 s. Brokers deliver a released record again at once.
            handler_timeout_ms: A call that takes longer is cancelled, and has failed with ``TimeoutError``.
            drain_timeout_ms: How long running calls may take when the run ends.
            handle_signals: Whether SIGTERM and SIGINT end the run, as of :meth:`Consumer.run()
                <aiokproto.consumer.Consumer.run>`.

        Returns:
            What was done, by topic, if :meth:`stop_run`, a signal or :meth:`close` ended the run: ``retried`` counts
            releases, ``dead_lettered`` rejections.

        Raises:
            ConfigurationError: An argument is invalid, or what ``on_error`` returned.
            RuntimeError: It runs already.
            KafkaError: As ``async for``; handlers are waited for first.
            Exception: What ``on_error`` raised.
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
        """End :meth:`run`: it starts no further call, waits for running ones, and returns. No effect without a run."""
        if self._run is not None:
            self._run.stop()

    def run_status(self) -> RunStatus | None:
        """Return what :meth:`run` is doing, or what the last one did; None before the first. No I/O."""
        return None if self._run is None else self._run.status()

    def _finish_current(self, kind: Acknowledgement) -> None:
        """Acknowledge the records that were delivered last, because the application is done with them."""
        current, self._current = self._current, ()
        if not self._explicit and current:
            self._engine.acknowledge_rest(current, kind)

    # -- acknowledgements

    def accept(self, *acquired: Acquired) -> bool:
        """Acknowledge records as processed: they are never delivered again. Nothing is sent before this returns.

        Args:
            acquired: Records, batches, or lists of records of this consumer.

        Returns:
            Whether all of them can still be acknowledged. A record cannot if its lock has expired or was lost with the
            connection or the partition's leader; :meth:`commit` and ``on_acknowledged`` have the reason. Or it was
            acknowledged before. An acknowledgement that is not sent yet can be replaced by another.

        Raises:
            ConfigurationError: Something other than records of this consumer was passed.
            ClientClosedError: The consumer is closed.
        """
        return self._acknowledge("accept", acquired, Acknowledgement.ACCEPT)

    def release(self, *acquired: Acquired) -> bool:
        """Give records back, to be delivered again to any member, unless their delivery count has reached the limit.

        Otherwise as :meth:`accept`.
        """
        return self._acknowledge("release", acquired, Acknowledgement.RELEASE)

    def reject(self, *acquired: Acquired) -> bool:
        """Acknowledge records as impossible to process: they are never delivered again. Otherwise as :meth:`accept`."""
        return self._acknowledge("reject", acquired, Acknowledgement.REJECT)

    def renew(self, *acquired: Acquired) -> bool:
        """Start the locks of records again (KIP-1222). Use it for records that ``renew_locks`` doesn't renew, or
        doesn't renew any more.

        The record stays delivered, and is acknowledged as any other afterwards. Needs Kafka 4.2, and the group's option
        ``share.renew.acknowledge.enable``; otherwise the outcome has an error. Otherwise as :meth:`accept`.
        """
        return self._acknowledge("renew", acquired, Acknowledgement.RENEW)

    def _acknowledge(self, call: str, acquired: Iterable[Acquired], kind: Acknowledgement) -> bool:
        engine = self._engine
        # Check all of them before acknowledging the first one.
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

        With implicit acknowledgement, everything that was delivered is accepted first. A fetch in flight is waited for,
        at most ``fetch_max_wait_ms``. After a cancellation the acknowledgements are sent nevertheless.

        Args:
            timeout_ms: By default ``default_api_timeout_ms``.

        Returns:
            One outcome for each range of records with the same outcome: of all acknowledgements that had none yet, and
            the failures since the last commit. The call raises nothing for them: look at ``outcome.error``.

        Raises:
            DeadlineError: Not all have an outcome in time. The next commit goes on with them.
            ClientClosedError: The consumer is closed, or one of its tasks failed, which is then the cause.
        """
        timeout = self._engine.cluster.config.api_timeout if timeout_ms is None else seconds("timeout_ms", timeout_ms)
        self._finish_current(Acknowledgement.ACCEPT)
        return await self._engine.commit(timeout)

    # -- statistics

    def stats(self) -> ShareConsumerStats:
        """Return the consumer's statistics: partitions, fetches, delivery, acknowledgements, connections.

        No I/O. It costs a loop over the partitions.
        """
        return stats_of(self._engine)

    def health(self) -> Health:
        """Return whether the consumer works, and what is wrong. No I/O.

        Findings are, for example, that no broker can be reached, that a partition has no leader or cannot be read, or
        that the member is joining the group. A topic without new records is no finding.
        """
        return health_of(self._engine)


class _Batches:
    """The iterator of :meth:`ShareConsumer.batches`. It isn't a generator, because a cancellation would end that."""

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
"""Names of the options that only the share consumer has."""

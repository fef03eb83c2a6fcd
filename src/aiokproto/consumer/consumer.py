"""The consumer: its options, lifecycle, and reading. The other parts of its API are base classes, one per subject."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from inspect import signature
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from aiokproto.async_context import AsyncContext
from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig, ConnectionOptions, integer, seconds
from aiokproto.consumer.batch import FetchedBatch
from aiokproto.consumer.committer import Committer
from aiokproto.consumer.config import ConsumerConfig
from aiokproto.consumer.delivery import RecordIterator
from aiokproto.consumer.engine import Engine
from aiokproto.consumer.log_offsets import LogOffsets
from aiokproto.consumer.positions import Positions
from aiokproto.consumer.report import Report
from aiokproto.consumer.subscriber import Subscriber
from aiokproto.consumer.subscription import (
    SubscriptionState,
    to_topics,
)
from aiokproto.foreign_calls import (
    CONSUMER_METHODS,
    ForeignCalls,
    foreign_close,
    foreign_poll,
)
from aiokproto.group.assignors import Assignor
from aiokproto.types import Record

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


_CLOSE_TIMEOUT_MS = 30_000


class Consumer(Subscriber, Positions, Committer, LogOffsets, Report, AsyncContext, ForeignCalls):
    """Read records from topics, alone or as a member of a group.

    ::

        async with Consumer("flights", bootstrap_servers="localhost:9092", group_id="report") as consumer:
            async for record in consumer:
                print(record.offset, record.value)

    **At least once.** A record is *processed* once the loop requests the next one, or leaves with ``break`` and the
    ``async with`` block ends. Automatic commits (``enable_auto_commit``) cover processed records only: at every
    interval, before partitions are revoked, and on close. If the loop body raises, the current record is not committed.
    A batch, or a list from :meth:`poll`, counts as a whole.

    **Cancelling** a call neither loses nor repeats a record. Only one task at a time may wait for records.

    **With a group**, the members share the partitions of the topics. **Without one**, the consumer reads all
    partitions, commits nothing, and starts where ``auto_offset_reset`` says. :meth:`assign` selects partitions instead
    of topics.

    The consumer binds to an event loop in :meth:`start`, which ``async with`` calls, and can be created without one.

    Args:
        topics: Topics to read; :meth:`subscribe` or :meth:`assign` can set them later.
        group_id: The consumer group to join; None for none.
        group_instance_id: A name that survives restarts. A member that returns with it within the session timeout gets
            its partitions back without a rebalance (static membership, KIP-345).
        auto_offset_reset: Where to start if the group has committed no offset, and where to continue if the offset is
            not in the log: ``"latest"`` (new records only), ``"earliest"``, or ``"none"`` (raise).
        enable_auto_commit: Whether processed records are committed automatically.
        auto_commit_interval_ms: How often.
        session_timeout_ms: The coordinator removes a member that it has not heard from for this long.
        heartbeat_interval_ms: How often the member sends a heartbeat.
        max_poll_interval_ms: A member that requests no record for this long leaves the group, and rejoins when it does.
            A rebalance waits as long for members to process what was delivered.
        partition_assignment_strategy: One or more of ``"range"``, ``"roundrobin"``, ``"sticky"``,
            ``"cooperative-sticky"``, or your own :class:`~aiokproto.group.assignors.Assignor`; the members of a group
            need one in common.
        isolation_level: ``"read_committed"`` skips records of aborted transactions, and waits for open ones.
        fetch_min_bytes: The broker delays a response until it has this many bytes ...
        fetch_max_wait_ms: ... or until this time has passed.
        fetch_max_bytes: Most bytes in a response; a first batch that is larger is sent nevertheless.
        max_partition_fetch_bytes: The same per partition.
        fetch_buffer_bytes: Bytes fetched ahead, divided equally among the brokers; each may have one partition's fetch
            more.
        check_crcs: Whether the checksums of batches are verified.
        connection: See :class:`~aiokproto.config.ConnectionOptions`; ``bootstrap_servers`` is required.

    Raises:
        ConfigurationError: An option is unknown or invalid; the message names it.
    """

    foreign_methods = CONSUMER_METHODS

    def __init__(
        self,
        *topics: str,
        group_id: str | None = None,
        group_instance_id: str | None = None,
        auto_offset_reset: Literal["earliest", "latest", "none"] = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: float = 5000,
        session_timeout_ms: float = 45_000,
        heartbeat_interval_ms: float = 3000,
        max_poll_interval_ms: float = 300_000,
        partition_assignment_strategy: str | Assignor | Sequence[str | Assignor] = ("range", "cooperative-sticky"),
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: float = 500,
        fetch_max_bytes: int = 50 * 1024 * 1024,
        max_partition_fetch_bytes: int = 1024 * 1024,
        fetch_buffer_bytes: int = 64 * 1024 * 1024,
        check_crcs: bool = True,
        **connection: Unpack[ConnectionOptions],
    ) -> None:
        config = ConsumerConfig.parse(
            {
                "group_id": group_id,
                "group_instance_id": group_instance_id,
                "auto_offset_reset": auto_offset_reset,
                "enable_auto_commit": enable_auto_commit,
                "auto_commit_interval_ms": auto_commit_interval_ms,
                "session_timeout_ms": session_timeout_ms,
                "heartbeat_interval_ms": heartbeat_interval_ms,
                "max_poll_interval_ms": max_poll_interval_ms,
                "partition_assignment_strategy": partition_assignment_strategy,
                "isolation_level": isolation_level,
                "fetch_min_bytes": fetch_min_bytes,
                "fetch_max_wait_ms": fetch_max_wait_ms,
                "fetch_max_bytes": fetch_max_bytes,
                "max_partition_fetch_bytes": max_partition_fetch_bytes,
                "fetch_buffer_bytes": fetch_buffer_bytes,
                "check_crcs": check_crcs,
            },
            connection.get("client_rack", ""),
        )
        names = to_topics(topics, "Consumer")
        cluster = ClusterClient(ClusterConfig.parse(connection, own=OPTIONS))
        self._engine = Engine(cluster, config, SubscriptionState(topics=names))
        self._assignment = self._engine.assignment
        self._records = RecordIterator(self._assignment, self._engine.reader.open)

    # Lifecycle

    async def start(self) -> None:
        """Connect and start fetching. ``async with`` calls it.

        Raises:
            BootstrapError, NotKafkaError, AuthenticationError: The cluster cannot be reached.
            UnknownTopicError, InvalidTopicError, AuthorizationError: A topic cannot be read.
            ClientClosedError: The consumer was started before, or closed while it starts.
        """
        await self._engine.start()

    @foreign_close
    def close(self, timeout_ms: float = _CLOSE_TIMEOUT_MS) -> Coroutine[Any, Any, None]:
        """Commit what is processed (with ``enable_auto_commit``), leave the group, disconnect; within ``timeout_ms``.

        The current record counts as processed, unless the caller is handling an exception, as in ``finally`` or an
        ``async with`` block that an exception ends. Offsets that could not be committed are logged. Cancelling the call
        disconnects immediately. Calling it again has no effect.
        """
        # Checked at the call, not at the await: a task that runs the coroutine would not see the caller's exception.
        finished = sys.exc_info()[0] is None
        # The coroutine itself and not an `async def` of this class: see above.
        return self._engine.close(seconds("timeout_ms", timeout_ms), processed=finished)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # An exception in the block: the record that it was about is not processed.
        await self._engine.close(_CLOSE_TIMEOUT_MS / 1000, processed=kind is None)

    # Records

    def __aiter__(self) -> RecordIterator:
        self._engine.cluster.check_loop()
        return self._records

    def __anext__(self) -> Coroutine[Any, Any, Record]:
        """Return the next record.

        Raises:
            OffsetOutOfRangeError, CorruptRecordError, UnknownTopicError, AuthorizationError: A partition cannot be read
                any further; the message names it. The next call continues with the others, and after a seek with it.
            GroupError, FencedError: The group rejects this member.
            ClientClosedError: The consumer is closed, or one of its tasks failed, which is then the cause.
        """
        if asyncio._get_running_loop() is None:
            # In another thread, for run_coroutine_threadsafe(): the coroutine runs, and checks, in a loop.
            return self._next_record()
        self._engine.cluster.check_loop()
        return self._records.__anext__()

    async def _next_record(self) -> Record:
        self._engine.cluster.check_loop()
        return await self._records.__anext__()

    @foreign_poll
    async def poll(self, timeout_ms: float = 500, max_records: int = 500) -> list[Record]:
        """Return up to ``max_records`` records as soon as there is one, or none after ``timeout_ms``.

        With ``timeout_ms=0`` it returns what is buffered; if nothing is, other tasks run first. It can return fewer
        records than are buffered, so that other tasks run in between. All of them count as processed with the next
        call. Raises the errors of ``async for``.
        """
        integer("max_records", max_records, 1)
        timeout = seconds("timeout_ms", timeout_ms)
        assignment = self._assignment
        # It returns with records open, or not at all.
        if not await self._engine.reader.open(asyncio.get_running_loop().time() + timeout):
            return []
        # No await from here on: a cancellation would lose the records that were taken out.
        records = assignment.take(max_records)
        while len(records) < max_records and self._engine.reader.open_at_once():
            records += assignment.take(max_records - len(records))
        # All of them are being processed now, until the next call.
        assignment.current = records
        return records

    def batches(self, *, decompress: bool = True) -> AsyncIterator[FetchedBatch]:
        """Return an endless iterator of batches: records of one partition from one fetch, up to about a megabyte.

        Records are decoded when you iterate the batch; damage inside a batch is detected then. Raises the errors of
        ``async for``.

        Args:
            decompress: Whether large compressed batches are decompressed in a thread before they are delivered, so that
                iterating them does not block the event loop. False suits callers that pass batches on unread, as to
                :meth:`Producer.send_batch() <aiokproto.producer.Producer.send_batch>`; a batch that is read anyway is
                then decompressed in the event loop.
        """
        return _Batches(self._engine, decompress)


class _Batches:
    """The iterator of :meth:`Consumer.batches`. Not a generator: a cancellation would end that."""

    def __init__(self, engine: Engine, decompress: bool) -> None:
        self._engine = engine
        self._decompress = decompress

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FetchedBatch:
        batch = await self._engine.reader.batch(decompress=self._decompress)
        assert batch is not None
        return batch


OPTIONS = tuple(name for name in signature(Consumer).parameters if name not in ("topics", "connection"))
"""Names of the options that only the consumer has."""

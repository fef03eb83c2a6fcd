"""Hooks: calls about the events inside a client. Pure.

The granularity is franz-go's (``kgo.Hook``): a request, a batch or an event, but never a record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

from aiokproto.application.calls import check_not_awaitable, failure
from aiokproto.errors import ConfigurationError, KafkaError
from aiokproto.texts import repr_of
from aiokproto.types import TopicPartition

log = logging.getLogger("aiokproto.hooks")

RebalanceKind = Literal["assigned", "revoked", "lost"]


class ConnectionOpened(NamedTuple):
    """A connection to a broker is open, and its API versions are known.

    Attributes:
        node: The broker's id; negative for a bootstrap address.
        address: Broker and address, as in errors.
        channel: The purpose: ``"main"``, ``"fetch"`` or ``"group"``.
        latency: Seconds to connect, including TLS and ApiVersions.
    """

    node: int
    address: str
    channel: str
    latency: float


class ConnectionFailed(NamedTuple):
    """A broker couldn't be reached.

    Attributes:
        node: The broker's id.
        address: Broker and address.
        channel: The purpose of the connection.
        attempts: Failures in a row.
        error: The reason.
    """

    node: int
    address: str
    channel: str
    attempts: int
    error: KafkaError


class ConnectionClosed(NamedTuple):
    """A connection has ended, for any reason.

    Attributes:
        node: The broker's id.
        address: Broker and address.
        error: The reason.
    """

    node: int
    address: str
    error: KafkaError


class RequestSent(NamedTuple):
    """A request was written to a connection.

    Attributes:
        node: The broker's id.
        api: The API, as in ``"Produce"``.
        version: Its version.
        size: Bytes of the request.
        queue_time: Seconds that the client held it back for a throttle (KIP-219).
    """

    node: int
    api: str
    version: int
    size: int
    queue_time: float


class ResponseReceived(NamedTuple):
    """A request has its response, or will not get one.

    Attributes:
        node: The broker's id.
        api: The API.
        version: Its version.
        size: Bytes of the response; 0 without one.
        queue_time: Seconds before the request was written.
        latency: Seconds from then to the response.
        error: Why there is no response; None if there is one. Error codes in responses don't count.
    """

    node: int
    api: str
    version: int
    size: int
    queue_time: float
    latency: float
    error: KafkaError | None


class Throttled(NamedTuple):
    """A broker's quota makes the client wait (KIP-219).

    Attributes:
        node: The broker's id.
        api: The API whose response had the throttle time.
        pause: Seconds during which nothing is sent on that connection.
    """

    node: int
    api: str
    pause: float


class MetadataRefreshed(NamedTuple):
    """The cluster metadata was requested.

    Attributes:
        brokers: Number of brokers.
        topics: Number of topics that the client tracks.
        latency: Seconds for the request.
        error: Why it failed; None if it didn't.
    """

    brokers: int
    topics: int
    latency: float
    error: KafkaError | None


class RequestRetried(NamedTuple):
    """A call sends its request again.

    Attributes:
        api: The API, or what is looked up.
        attempt: Attempts so far.
        pause: Seconds until the next one.
        error: Why the last one failed.
    """

    api: str
    attempt: int
    pause: float
    error: KafkaError


class BatchWritten(NamedTuple):
    """A batch was acknowledged.

    Attributes:
        topic: The topic.
        partition: The partition.
        base_offset: Offset of the first record; -1 if unknown.
        records: Number of records.
        size: Bytes, as they were sent.
        uncompressed_size: Bytes before compression.
        attempts: How often it was sent.
        latency: Seconds since its first record was buffered.
    """

    topic: str
    partition: int
    base_offset: int
    records: int
    size: int
    uncompressed_size: int
    attempts: int
    latency: float


class BatchFailed(NamedTuple):
    """A batch was given up. It may be in the log if it was sent.

    Attributes:
        topic: The topic.
        partition: The partition.
        records: Number of records.
        attempts: How often it was sent.
        latency: Seconds since its first record was buffered.
        error: The reason.
    """

    topic: str
    partition: int
    records: int
    attempts: int
    latency: float
    error: KafkaError


class BatchRetried(NamedTuple):
    """A batch will be sent again.

    Attributes:
        topic: The topic.
        partition: The partition.
        records: Number of records.
        attempts: Attempts so far.
        error: Why the last one failed.
    """

    topic: str
    partition: int
    records: int
    attempts: int
    error: KafkaError


class BatchFetched(NamedTuple):
    """Records of a partition have arrived, and are buffered.

    Attributes:
        node: The broker's id.
        topic: The topic.
        partition: The partition.
        offset: The first offset.
        records: Number of records, from the batches' headers. In a compressed set of magic 0 or 1 offsets are counted.
        size: Bytes, as they were received.
    """

    node: int
    topic: str
    partition: int
    offset: int
    records: int
    size: int


class RecordsDelivered(NamedTuple):
    """The application has received records of a partition, which were decoded together.

    Attributes:
        topic: The topic.
        partition: The partition.
        records: Number of records; 0 for a batch of ``batches()``, which isn't decoded.
        next_offset: The offset after them.
    """

    topic: str
    partition: int
    records: int
    next_offset: int


class Rebalanced(NamedTuple):
    """Partitions were assigned, revoked or lost, and the application's callback has returned.

    Attributes:
        kind: ``"assigned"``, ``"revoked"`` or ``"lost"``.
        partitions: The partitions.
        latency: Seconds for processing, commit and callback.
    """

    kind: RebalanceKind
    partitions: Sequence[TopicPartition]
    latency: float


class Committed(NamedTuple):
    """Offsets were committed, or the commit failed.

    Attributes:
        partitions: Number of partitions.
        latency: Seconds.
        error: Why a partition wasn't committed; None if all were.
    """

    partitions: int
    latency: float
    error: KafkaError | None


class Acknowledged(NamedTuple):
    """The acknowledgement of consecutive records of a share group has an outcome.

    This includes records that the consumer itself acknowledges.

    Attributes:
        topic: The topic.
        partition: The partition.
        first_offset: The first offset.
        last_offset: The last offset, inclusive.
        acknowledgement: ``"accept"``, ``"release"``, ``"reject"``, ``"renew"`` or ``"gap"``.
        error: Why it had no effect, or an unknown one; None if it took effect.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    acknowledgement: str
    error: KafkaError | None


class OffsetReset(NamedTuple):
    """A position was no longer in the log, and the consumer has moved it.

    Attributes:
        topic: The topic.
        partition: The partition.
        reason: Out of range, the topic was created again, or the log was truncated.
        position: The position before.
        offset: Where the consumer continues.
        leader_epoch: The leader epoch of the record before ``position``; -1 if unknown.
    """

    topic: str
    partition: int
    reason: str
    position: int
    offset: int
    leader_epoch: int


class TransactionBegun(NamedTuple):
    """A transaction has started.

    Attributes:
        transactional_id: The transactional id.
    """

    transactional_id: str


class TransactionEnded(NamedTuple):
    """A transaction has ended.

    Attributes:
        transactional_id: The transactional id.
        committed: Whether it was committed.
        latency: Seconds since its start.
    """

    transactional_id: str
    committed: bool
    latency: float


class RunProgressed(NamedTuple):
    """``run()`` of a consumer has handled records of a topic. Each number is the change since the run's last event.

    Events come every five seconds, and when the run ends. Their sums are the totals, and the current numbers of pending
    records and running calls.

    Attributes:
        topic: The topic.
        processed: Records that the handler has finished.
        retried: Failed calls that were, or will be, made again; with a share consumer, released records.
        dead_lettered: Records written to the dead-letter topic; with a share consumer, rejected records.
        failed: Calls of the handler that raised or took too long.
        pending: Records that were taken and aren't finished.
        running: Calls of the handler that are running.
    """

    topic: str
    processed: int
    retried: int
    dead_lettered: int
    failed: int
    pending: int
    running: int


class Hooks:
    """A base class. Override the methods of the events that you want.

    ::

        class Slow(Hooks):
            def on_response_received(self, event: ResponseReceived) -> None:
                if event.latency > 1:
                    print(event.api, event.node, event.latency)

        producer = Producer(bootstrap_servers=bootstrap, hooks=Slow())

    Methods are called in the event loop, in the middle of the client's work, so return soon, and call no method of the
    client but ``stats()``. An exception is logged (the first, the tenth, the hundredth...), and has no other effect.
    """

    def on_connection_opened(self, event: ConnectionOpened) -> None:
        """A connection to a broker is open, and its API versions are known."""

    def on_connection_failed(self, event: ConnectionFailed) -> None:
        """A broker couldn't be reached."""

    def on_connection_closed(self, event: ConnectionClosed) -> None:
        """A connection has ended, for any reason."""

    def on_request_sent(self, event: RequestSent) -> None:
        """A request was written to a connection."""

    def on_response_received(self, event: ResponseReceived) -> None:
        """A request has its response, or will not get one."""

    def on_throttled(self, event: Throttled) -> None:
        """A broker's quota makes the client wait (KIP-219)."""

    def on_metadata_refreshed(self, event: MetadataRefreshed) -> None:
        """The cluster metadata was requested."""

    def on_request_retried(self, event: RequestRetried) -> None:
        """A call sends its request again."""

    def on_batch_written(self, event: BatchWritten) -> None:
        """A batch was acknowledged."""

    def on_batch_failed(self, event: BatchFailed) -> None:
        """A batch was given up. It may be in the log if it was sent."""

    def on_batch_retried(self, event: BatchRetried) -> None:
        """A batch will be sent again."""

    def on_batch_fetched(self, event: BatchFetched) -> None:
        """Records of a partition have arrived, and are buffered."""

    def on_records_delivered(self, event: RecordsDelivered) -> None:
        """The application has received records of a partition, which were decoded together."""

    def on_rebalanced(self, event: Rebalanced) -> None:
        """Partitions were assigned, revoked or lost, and the application's callback has returned."""

    def on_committed(self, event: Committed) -> None:
        """Offsets were committed, or the commit failed."""

    def on_acknowledged(self, event: Acknowledged) -> None:
        """The acknowledgement of records of a share group has an outcome."""

    def on_offset_reset(self, event: OffsetReset) -> None:
        """A position was no longer in the log, and the consumer has moved it."""

    def on_run_progressed(self, event: RunProgressed) -> None:
        """``run()`` has handled records. Events come every five seconds, and when it ends."""

    def on_transaction_begun(self, event: TransactionBegun) -> None:
        """A transaction has started."""

    def on_transaction_ended(self, event: TransactionEnded) -> None:
        """A transaction has ended."""


class HookCalls:
    """The hooks of a client, by event: a function that calls them all, or None if no object overrides the method.

    Callers test for None first, and create the event only if there is a hook.
    """

    __slots__ = (
        "acknowledged",
        "batch_failed",
        "batch_fetched",
        "batch_retried",
        "batch_written",
        "committed",
        "connection_closed",
        "connection_failed",
        "connection_opened",
        "metadata_refreshed",
        "offset_reset",
        "rebalanced",
        "records_delivered",
        "request_retried",
        "request_sent",
        "response_received",
        "run_progressed",
        "throttled",
        "transaction_begun",
        "transaction_ended",
    )

    connection_opened: Callable[[ConnectionOpened], None] | None
    connection_failed: Callable[[ConnectionFailed], None] | None
    connection_closed: Callable[[ConnectionClosed], None] | None
    request_sent: Callable[[RequestSent], None] | None
    response_received: Callable[[ResponseReceived], None] | None
    throttled: Callable[[Throttled], None] | None
    metadata_refreshed: Callable[[MetadataRefreshed], None] | None
    request_retried: Callable[[RequestRetried], None] | None
    batch_written: Callable[[BatchWritten], None] | None
    batch_failed: Callable[[BatchFailed], None] | None
    batch_retried: Callable[[BatchRetried], None] | None
    batch_fetched: Callable[[BatchFetched], None] | None
    records_delivered: Callable[[RecordsDelivered], None] | None
    rebalanced: Callable[[Rebalanced], None] | None
    committed: Callable[[Committed], None] | None
    acknowledged: Callable[[Acknowledged], None] | None
    offset_reset: Callable[[OffsetReset], None] | None
    run_progressed: Callable[[RunProgressed], None] | None
    transaction_begun: Callable[[TransactionBegun], None] | None
    transaction_ended: Callable[[TransactionEnded], None] | None

    def __init__(self, hooks: Iterable[Hooks] = ()) -> None:
        given = list(hooks)
        for name in self.__slots__:
            method = f"on_{name}"
            calls = [
                _guarded(getattr(hook, method))
                for hook in given
                if getattr(type(hook), method) is not getattr(Hooks, method)
            ]
            setattr(self, name, _call_all(calls) if calls else None)


NO_HOOKS = HookCalls()
"""The hooks of a client that has none."""


def parse_hooks(name: str, value: object) -> HookCalls:
    """Parse the option ``hooks``: None, one object, or several.

    Raises:
        ConfigurationError: An object in it isn't derived from :class:`Hooks`.
    """
    if value is None:
        return NO_HOOKS
    hooks: Iterable[object] = value if isinstance(value, list | tuple) else [value]
    for hook in hooks:
        if not isinstance(hook, Hooks):
            raise ConfigurationError(f"{name}={hook!r}: expected an object of a class derived from Hooks")
        _check_names(name, type(hook))
    return HookCalls(hook for hook in hooks if isinstance(hook, Hooks))


def _check_names(name: str, kind: type[Hooks]) -> None:
    """Raise ConfigurationError for a method that is probably a mistyped hook, and would never be called."""
    for method in dir(kind):
        if not method.startswith("on_") or hasattr(Hooks, method):
            continue
        # Accept methods of another base class, such as Interceptor.
        first = [base for base in kind.__mro__ if method in vars(base)][-1]
        if issubclass(first, Hooks) and (close := get_close_matches(method, vars(Hooks), n=1, cutoff=0.8)):
            raise ConfigurationError(f"{name}: {kind.__name__}.{method} is no hook; did you mean {close[0]!r}?")


def _call_all(calls: Sequence[Callable[[Any], None]]) -> Callable[[Any], None]:
    if len(calls) == 1:
        return calls[0]

    def call(event: object) -> None:
        for function in calls:
            function(event)

    return call


def _guarded(method: Callable[[Any], object]) -> Callable[[Any], None]:
    name = getattr(method, "__qualname__", repr(method))
    failures = FailureLog(name)

    def call(event: object) -> None:
        try:
            result = method(event)
            if result is not None:
                check_not_awaitable(result, name)
        except BaseException as error:  # noqa: BLE001 - the application's code; FailureLog logs it
            failures.log(error)

    return call


class FailureLog:
    """Logs the 1st, 10th, 100th... failure of one function of the application, so that the log stays readable."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._count = 0
        self._next = 1

    def log(self, raised: BaseException) -> None:
        """Count an error from a call that wasn't awaited, and log it if it's its turn.

        Raises:
            BaseException: The error itself, if it ends the program.
        """
        error = failure(raised, self._what)
        self._count += 1
        if self._count == self._next:
            self._next *= 10
            log.error("%s failed (%d so far): %s", self._what, self._count, repr_of(error), exc_info=error)

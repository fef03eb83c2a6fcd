"""Hooks: methods that are called when something happens inside a client. Pure.

The granularity is the same as in franz-go (``kgo.Hook``): requests, batches or events, but never individual records.
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
        attempts: Number of consecutive failures.
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
        queue_time: Seconds that the client held the request back because of a throttle (KIP-219).
    """

    node: int
    api: str
    version: int
    size: int
    queue_time: float


class ResponseReceived(NamedTuple):
    """A request got its response, or won't get one.

    Attributes:
        node: The broker's id.
        api: The API.
        version: Its version.
        size: Bytes of the response; 0 if there is none.
        queue_time: Seconds that the request was held back before it was written.
        latency: Seconds from writing the request to the response.
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
        api: The API whose response contained the throttle time.
        pause: Seconds during which nothing is sent over that connection.
    """

    node: int
    api: str
    pause: float


class MetadataRefreshed(NamedTuple):
    """The cluster metadata was requested.

    Attributes:
        brokers: Number of brokers.
        topics: Number of topics that the client tracks.
        latency: Seconds that the request took.
        error: Why it failed; None if it didn't.
    """

    brokers: int
    topics: int
    latency: float
    error: KafkaError | None


class RequestRetried(NamedTuple):
    """A request is being retried.

    Attributes:
        api: The API, or what is looked up.
        attempt: Number of attempts so far.
        pause: Seconds until the next attempt.
        error: Why the last attempt failed.
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
        size: Bytes, as sent.
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
    """The client gave up on a batch. If it was sent, it may still be in the log.

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
        attempts: Number of attempts so far.
        error: Why the last attempt failed.
    """

    topic: str
    partition: int
    records: int
    attempts: int
    error: KafkaError


class BatchFetched(NamedTuple):
    """Records of a partition have arrived and were buffered.

    Attributes:
        node: The broker's id.
        topic: The topic.
        partition: The partition.
        offset: The first offset.
        records: Number of records, according to the batches' headers. For a compressed message set of magic 0 or 1 it's
            computed from the offsets.
        size: Bytes, as received.
    """

    node: int
    topic: str
    partition: int
    offset: int
    records: int
    size: int


class RecordsDelivered(NamedTuple):
    """The application has received records of a partition that were decoded together.

    Attributes:
        topic: The topic.
        partition: The partition.
        records: Number of records; 0 for a batch of ``batches()``, which isn't decoded.
        next_offset: The offset after the last of them.
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
        latency: Seconds that processing, commit and callback took.
    """

    kind: RebalanceKind
    partitions: Sequence[TopicPartition]
    latency: float


class Committed(NamedTuple):
    """Offsets were committed, or the commit failed.

    Attributes:
        partitions: Number of partitions.
        latency: Seconds that the commit took.
        error: Why a partition wasn't committed; None if all partitions were.
    """

    partitions: int
    latency: float
    error: KafkaError | None


class Acknowledged(NamedTuple):
    """The outcome of acknowledging consecutive records of a share group is known.

    This includes records that the consumer acknowledges by itself.

    Attributes:
        topic: The topic.
        partition: The partition.
        first_offset: The first offset.
        last_offset: The last offset, inclusive.
        acknowledgement: ``"accept"``, ``"release"``, ``"reject"``, ``"renew"`` or ``"gap"``.
        error: Why it failed, or may have failed; None if it took effect.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    acknowledgement: str
    error: KafkaError | None


class OffsetReset(NamedTuple):
    """A position was no longer in the log, and the consumer moved it.

    Attributes:
        topic: The topic.
        partition: The partition.
        reason: What happened: the position is out of range, the topic was recreated, or the log was truncated.
        position: The previous position.
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
        latency: Seconds since it started.
    """

    transactional_id: str
    committed: bool
    latency: float


class RunProgressed(NamedTuple):
    """A consumer's ``run()`` has handled records of a topic. Each number is the change since the run's last event.

    There's an event every five seconds, and one when the run ends. Adding up all events gives the totals, and the
    current numbers of pending records and running calls.

    Attributes:
        topic: The topic.
        processed: Records that the handler finished.
        retried: Failed calls that were or will be repeated; for a share consumer, released records.
        dead_lettered: Records written to the dead-letter topic; for a share consumer, rejected records.
        failed: Calls of the handler that raised or took too long.
        pending: Records that were taken but aren't finished.
        running: Calls of the handler in progress.
    """

    topic: str
    processed: int
    retried: int
    dead_lettered: int
    failed: int
    pending: int
    running: int


class Hooks:
    """A base class. Override the methods for the events you're interested in.

    ::

        class Slow(Hooks):
            def on_response_received(self, event: ResponseReceived) -> None:
                if event.latency > 1:
                    print(event.api, event.node, event.latency)

        producer = Producer(bootstrap_servers=bootstrap, hooks=Slow())

    Methods are called in the event loop, in the middle of the client's work, so return quickly, and don't call any
    method of the client except ``stats()``. Exceptions are only logged (the first, the tenth, the hundredth...).
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
        """A request got its response, or won't get one."""

    def on_throttled(self, event: Throttled) -> None:
        """A broker's quota makes the client wait (KIP-219)."""

    def on_metadata_refreshed(self, event: MetadataRefreshed) -> None:
        """The cluster metadata was requested."""

    def on_request_retried(self, event: RequestRetried) -> None:
        """A request is being retried."""

    def on_batch_written(self, event: BatchWritten) -> None:
        """A batch was acknowledged."""

    def on_batch_failed(self, event: BatchFailed) -> None:
        """The client gave up on a batch. If it was sent, it may still be in the log."""

    def on_batch_retried(self, event: BatchRetried) -> None:
        """A batch will be sent again."""

    def on_batch_fetched(self, event: BatchFetched) -> None:
        """Records of a partition have arrived and were buffered."""

    def on_records_delivered(self, event: RecordsDelivered) -> None:
        """The application has received records of a partition that were decoded together."""

    def on_rebalanced(self, event: Rebalanced) -> None:
        """Partitions were assigned, revoked or lost, and the application's callback has returned."""

    def on_committed(self, event: Committed) -> None:
        """Offsets were committed, or the commit failed."""

    def on_acknowledged(self, event: Acknowledged) -> None:
        """The outcome of acknowledging records of a share group is known."""

    def on_offset_reset(self, event: OffsetReset) -> None:
        """A position was no longer in the log, and the consumer moved it."""

    def on_run_progressed(self, event: RunProgressed) -> None:
        """``run()`` has handled records. Called every five seconds, and when it ends."""

    def on_transaction_begun(self, event: TransactionBegun) -> None:
        """A transaction has started."""

    def on_transaction_ended(self, event: TransactionEnded) -> None:
        """A transaction has ended."""


class HookCalls:
    """A client's hooks.

    Each attribute is one event's hooks: a function that calls them all, or None if no object overrides the method.

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
"""For clients without hooks."""


def parse_hooks(name: str, value: object) -> HookCalls:
    """Parse the option ``hooks``: None, one object, or several.

    Raises:
        ConfigurationError: An object's class isn't derived from :class:`Hooks`.
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
    """Raise ConfigurationError if a method is probably a mistyped hook, which would never be called."""
    for method in dir(kind):
        if not method.startswith("on_") or hasattr(Hooks, method):
            continue
        # Accept methods that come from another base class, such as Interceptor.
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
    """Logs the 1st, 10th, 100th... failure of a function of the application, to keep the log readable."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._count = 0
        self._next = 1

    def log(self, raised: BaseException) -> None:
        """Count an error of a call that wasn't awaited, and log it if it's the 1st, 10th, 100th...

        Raises:
            BaseException: The error itself, if it ends the program.
        """
        error = failure(raised, self._what)
        self._count += 1
        if self._count == self._next:
            self._next *= 10
            log.error("%s failed (%d so far): %s", self._what, self._count, repr_of(error), exc_info=error)

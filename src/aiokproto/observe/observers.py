"""Observers: they count what the parts of a client do, and call hooks. Pure; the clock is passed in.

Each has one writer, the part that it observes. See the package's docstring.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from aiokproto.codec.registry import api_name
from aiokproto.errors import KafkaError
from aiokproto.hooks import (
    NO_HOOKS,
    BatchFailed,
    BatchFetched,
    BatchRetried,
    BatchWritten,
    Committed,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    HookCalls,
    MetadataRefreshed,
    OffsetReset,
    Rebalanced,
    RebalanceKind,
    RecordsDelivered,
    RequestRetried,
    RequestSent,
    ResponseReceived,
    Throttled,
    TransactionBegun,
    TransactionEnded,
)
from aiokproto.types import TopicPartition

# Creates the events that occur per request or batch: a NamedTuple's constructor is Python code, and takes twice as
# long.
_new_event = tuple.__new__

_API_AND_VERSION = Struct(">hh").unpack_from


class Timing:
    """Durations in seconds: their number, sum and maximum.

    Attributes:
        count: The number of durations.
        total: Their sum.
        max: The longest duration.
        recent_max: The longest duration since :meth:`forget_recent`.
    """

    __slots__ = ("count", "max", "recent_max", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = self.max = self.recent_max = 0.0

    def add(self, seconds: float) -> None:
        """Count a duration."""
        self.count += 1
        self.total += seconds
        if seconds > self.recent_max:
            self.recent_max = seconds
            self.max = max(self.max, seconds)

    def forget_recent(self) -> None:
        """Reset :attr:`recent_max`. Only the pushed metrics may do this."""
        self.recent_max = 0.0


class NodeObserver:
    """Counts requests to one broker and its responses, over all connections.

    Attributes:
        node: The broker's id.
        opened: Connections that were opened.
        closed: Connections that have ended.
        failed: Connections that couldn't be opened.
        requests: Requests that were written.
        errors: Requests that didn't get a response.
        bytes_sent: Bytes of requests.
        bytes_received: Bytes of responses.
        latency: Time from writing a request to its response.
        throttle: The pauses that the broker imposed (KIP-219).
    """

    __slots__ = (
        "bytes_received",
        "bytes_sent",
        "closed",
        "errors",
        "failed",
        "hooks",
        "latency",
        "node",
        "opened",
        "requests",
        "throttle",
    )

    def __init__(self, node: int, hooks: HookCalls) -> None:
        self.node = node
        self.hooks = hooks
        self.opened = self.closed = self.failed = self.requests = self.errors = 0
        self.bytes_sent = self.bytes_received = 0
        self.latency = Timing()
        self.throttle = Timing()

    def connected(self, address: str, channel: str, latency: float) -> None:
        """A connection was opened."""
        self.opened += 1
        if self.hooks.connection_opened is not None:
            self.hooks.connection_opened(ConnectionOpened(self.node, address, channel, latency))

    def not_connected(self, address: str, channel: str, attempts: int, error: KafkaError) -> None:
        """A connection couldn't be opened."""
        self.failed += 1
        if self.hooks.connection_failed is not None:
            self.hooks.connection_failed(ConnectionFailed(self.node, address, channel, attempts, error))

    def disconnected(self, address: str, error: KafkaError) -> None:
        """A connection has ended."""
        self.closed += 1
        if self.hooks.connection_closed is not None:
            self.hooks.connection_closed(ConnectionClosed(self.node, address, error))

    def sent(self, data: bytearray, queue_time: float) -> None:
        """A request was written."""
        self.requests += 1
        self.bytes_sent += len(data)
        if self.hooks.request_sent is not None:
            # Read both from the frame: on this hot path the caller doesn't pass them.
            api, version = _API_AND_VERSION(data, 4)
            self.hooks.request_sent(_new_event(RequestSent, (self.node, api_name(api), version, len(data), queue_time)))

    def received(self, api: int, version: int, size: int, queue_time: float, latency: float) -> None:
        """A response has arrived."""
        self.bytes_received += size
        self.latency.add(latency)
        if self.hooks.response_received is not None:
            fields = (self.node, api_name(api), version, size, queue_time, latency, None)
            self.hooks.response_received(_new_event(ResponseReceived, fields))

    def unanswered(self, api: int, version: int, queue_time: float, latency: float, error: KafkaError) -> None:
        """A request won't get a response, or its caller no longer waits for it."""
        self.errors += 1
        if self.hooks.response_received is not None:
            event = ResponseReceived(self.node, api_name(api), version, 0, queue_time, latency, error)
            self.hooks.response_received(event)

    def throttled(self, api: int, pause: float) -> None:
        """The broker imposes a pause."""
        self.throttle.add(pause)
        if self.hooks.throttled is not None:
            self.hooks.throttled(Throttled(self.node, api_name(api), pause))


class ClusterObserver:
    """Counts cluster-wide events, and holds the brokers' observers.

    Attributes:
        nodes: The brokers' observers, by id. Brokers that have left the cluster stay, so totals never decrease.
        refreshes: Metadata refreshes.
        failed_refreshes: Metadata refreshes that failed.
        retries: Requests that were sent again.
    """

    def __init__(self, hooks: HookCalls = NO_HOOKS) -> None:
        self.hooks = hooks
        self.nodes: dict[int, NodeObserver] = {}
        self.refreshes = self.failed_refreshes = self.retries = 0

    def node(self, node: int) -> NodeObserver:
        """Return a broker's observer."""
        found = self.nodes.get(node)
        if found is None:
            found = self.nodes[node] = NodeObserver(node, self.hooks)
        return found

    def refreshed(self, brokers: int, topics: int, latency: float, error: KafkaError | None = None) -> None:
        """The metadata was requested."""
        self.refreshes += 1
        if error is not None:
            self.failed_refreshes += 1
        if self.hooks.metadata_refreshed is not None:
            self.hooks.metadata_refreshed(MetadataRefreshed(brokers, topics, latency, error))

    def retried(self, api: str, attempt: int, pause: float, error: KafkaError) -> None:
        """A request is being retried."""
        self.retries += 1
        if self.hooks.request_retried is not None:
            self.hooks.request_retried(RequestRetried(api, attempt, pause, error))


class ProducerObserver:
    """Counts batches and transactions.

    Attributes:
        batches: Acknowledged batches.
        records: Records in acknowledged batches.
        bytes: Bytes of acknowledged batches, as sent.
        failed_batches: Batches that the client gave up on.
        failed_records: Records in these failed batches.
        retries: Batches that were sent again.
        queue_time: Time from a batch's first record to its first request.
        latency: Time from a batch's first record to its acknowledgement.
        throttle: The throttle time of each Produce response, including 0.
        committed: Transactions that were committed.
        aborted: Transactions that were aborted.
        clock: Returns the time (s) for durations; None before the start.
    """

    def __init__(self, hooks: HookCalls = NO_HOOKS) -> None:
        self.hooks = hooks
        self.clock: Callable[[], float] | None = None
        self.batches = self.records = self.bytes = 0
        self.failed_batches = self.failed_records = self.retries = 0
        self.committed = self.aborted = 0
        self.queue_time, self.latency, self.throttle = Timing(), Timing(), Timing()

    def written(
        self,
        partition: TopicPartition,
        base_offset: int,
        records: int,
        size: int,
        uncompressed: int,
        attempts: int,
        created: float,
    ) -> None:
        """A batch that was opened at ``created`` (s) was acknowledged."""
        latency = self._since(created)
        self.batches += 1
        self.records += records
        self.bytes += size
        self.latency.add(latency)
        if self.hooks.batch_written is not None:
            fields = (partition.topic, partition.partition, base_offset, records, size, uncompressed, attempts, latency)
            self.hooks.batch_written(_new_event(BatchWritten, fields))

    def failed(self, partition: TopicPartition, records: int, attempts: int, created: float, error: KafkaError) -> None:
        """The client gave up on a batch that was opened at ``created`` (s)."""
        latency = self._since(created)
        self.failed_batches += 1
        self.failed_records += records
        if self.hooks.batch_failed is not None:
            self.hooks.batch_failed(BatchFailed(*partition, records, attempts, latency, error))

    def retried(self, partition: TopicPartition, records: int, attempts: int, error: KafkaError) -> None:
        """A batch will be sent again."""
        self.retries += 1
        if self.hooks.batch_retried is not None:
            self.hooks.batch_retried(BatchRetried(*partition, records, attempts, error))

    def begun(self, transactional_id: str) -> None:
        """A transaction has started."""
        if self.hooks.transaction_begun is not None:
            self.hooks.transaction_begun(TransactionBegun(transactional_id))

    def ended(self, transactional_id: str, committed: bool, begun: float) -> None:
        """A transaction that started at ``begun`` (s) has ended."""
        if committed:
            self.committed += 1
        else:
            self.aborted += 1
        if self.hooks.transaction_ended is not None:
            self.hooks.transaction_ended(TransactionEnded(transactional_id, committed, self._since(begun)))

    def _since(self, when: float) -> float:
        return 0.0 if self.clock is None else self.clock() - when


class ConsumerObserver:
    """Counts fetches, delivery, commits and rebalances.

    Attributes:
        fetches: Time from sending a Fetch request to its response, including long polls.
        failed_fetches: Fetch requests that failed as a whole.
        bytes: Bytes of records that were fetched.
        batches: Batches that were delivered.
        records: Records that were delivered. The records of ``batches()`` aren't decoded, so they aren't counted.
        resets: How often a position was no longer in the log.
        commits: Successful commits.
        failed_commits: Failed commits.
        assigned: How often partitions were assigned.
        revoked: How often partitions were revoked.
        lost: How often partitions were lost.
        waited: How long the application has waited for records (s).
    """

    def __init__(self, hooks: HookCalls = NO_HOOKS) -> None:
        self.hooks = hooks
        self.failed_fetches = self.bytes = self.batches = self.records = self.resets = 0
        self.failed_commits = self.assigned = self.revoked = self.lost = 0
        self.waited = 0.0
        self.fetches, self.commits = Timing(), Timing()

    def fetched(self, node: int, partition: TopicPartition, offset: int, records: int, size: int) -> None:
        """Records of a partition were buffered."""
        if self.hooks.batch_fetched is not None:
            self.hooks.batch_fetched(
                _new_event(BatchFetched, (node, partition.topic, partition.partition, offset, records, size))
            )

    def delivered(self, partition: TopicPartition, records: int, next_offset: int) -> None:
        """The application has received records that were decoded together, or a batch."""
        self.batches += 1
        self.records += records
        if self.hooks.records_delivered is not None:
            self.hooks.records_delivered(
                _new_event(RecordsDelivered, (partition.topic, partition.partition, records, next_offset))
            )

    def rebalanced(self, kind: RebalanceKind, partitions: list[TopicPartition], latency: float) -> None:
        """The assignment was changed, and the change is complete."""
        setattr(self, kind, getattr(self, kind) + 1)
        if self.hooks.rebalanced is not None:
            self.hooks.rebalanced(Rebalanced(kind, tuple(partitions), latency))

    def committed(self, partitions: int, latency: float, error: KafkaError | None) -> None:
        """A commit has ended."""
        if error is None:
            self.commits.add(latency)
        else:
            self.failed_commits += 1
        if self.hooks.committed is not None:
            self.hooks.committed(Committed(partitions, latency, error))

    def reset(self, partition: TopicPartition, reason: str, position: int, offset: int, leader_epoch: int) -> None:
        """A position was moved because it was no longer in the log."""
        self.resets += 1
        if self.hooks.offset_reset is not None:
            self.hooks.offset_reset(OffsetReset(*partition, reason, position, offset, leader_epoch))


class ShareObserver:
    """Counts fetches, delivery, acknowledgements and assignments of a share consumer.

    Attributes:
        fetches: Time from sending a ShareFetch request to its response, including long polls.
        failed_fetches: ShareFetch requests that failed as a whole.
        throttle: The throttle time of each ShareFetch response, including 0.
        sizes: Bytes of records in each response.
        acquired: Records acquired by each request.
        redelivered: Acquired records that had been delivered before.
        batches: Record batches that were delivered.
        sent: Records whose acknowledgements or renewals were sent.
        settled: Records whose acknowledgement took effect, by type of acknowledgement (its number in the protocol).
        failed: Records whose acknowledgement failed, or may have.
        expired: Records whose lock expired before they were acknowledged.
        assigned: How often partitions were assigned.
        revoked: How often partitions were revoked.
        lost: How often partitions were lost.
        waited: How long the application has waited for records (s).
        polls: Time from one request for records to the next.
        polled_at: The time of the last request for records (s); None before the first request.
    """

    def __init__(self, hooks: HookCalls = NO_HOOKS) -> None:
        self.hooks = hooks
        self.failed_fetches = self.redelivered = self.batches = self.sent = self.failed = self.expired = 0
        self.assigned = self.revoked = self.lost = 0
        self.settled = [0] * 5
        self.waited = 0.0
        self.polled_at: float | None = None
        self.fetches, self.throttle, self.sizes, self.acquired, self.polls = (Timing() for _ in range(5))

    def polled(self, now: float) -> None:
        """The application requested records at ``now`` (s)."""
        if self.polled_at is not None:
            self.polls.add(now - self.polled_at)
        self.polled_at = now

    def fetched(self, node: int, partition: TopicPartition, offset: int, records: int, size: int) -> None:
        """Records of a partition were acquired."""
        if self.hooks.batch_fetched is not None:
            self.hooks.batch_fetched(BatchFetched(node, *partition, offset, records, size))

    def delivered(self, partition: TopicPartition, records: int, next_offset: int) -> None:
        """The application has received records that were decoded together."""
        self.batches += 1
        if self.hooks.records_delivered is not None:
            self.hooks.records_delivered(RecordsDelivered(*partition, records, next_offset))

    def rebalanced(self, kind: RebalanceKind, partitions: list[TopicPartition]) -> None:
        """The assignment has changed. For a share consumer, that takes effect at once."""
        setattr(self, kind, getattr(self, kind) + 1)
        if self.hooks.rebalanced is not None:
            self.hooks.rebalanced(Rebalanced(kind, tuple(partitions), 0.0))

    def settle(self, acknowledgement: int, records: int, error: KafkaError | None) -> None:
        """The outcome of an acknowledgement is known."""
        if error is None:
            self.settled[acknowledgement] += records
        else:
            self.failed += records

"""Fetching from one broker: one request at a time, in a fetch session, for all partitions that are fetched from it.

The next request is sent as soon as less than one partition's worth of the broker's records is undelivered, so the
response is on its way while the application is working. Each request covers all partitions, even those with buffered
records: a partition that was left out would have to wait until the other partitions' long poll ends.

The cost of a request depends on what has changed since the previous request, not on the number of partitions. The
session remembers what was requested, and the fetcher collects the partitions whose offset, leader or topic has changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.fetch import FetchRequest, FetchResponse
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.consumer.cursor import Cursor
from aiokproto.consumer.fetch_request import BY_NAME, FetchConfig, fetch_request
from aiokproto.consumer.fetch_response import FetchResponseHandler
from aiokproto.consumer.fetch_session import FetchPlan, FetchPosition, FetchSessionHandler, outside
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import KafkaError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.fetched.chunk import BufferedBytes
from aiokproto.runtime.timeouts import wait_until
from aiokproto.types import TopicPartition

if TYPE_CHECKING:
    from aiokproto.consumer.fetcher import Fetcher

log = logging.getLogger("aiokproto.fetch")

MAX_CHANGES = 500
"""Maximum number of partitions that one request adds or changes. Encoding that many and handling their responses takes
one or two milliseconds. The rest go into the next request, which is sent immediately."""

LATE = 2.0
"""A broker is reported as not responding if it's this many seconds over ``fetch_max_wait_ms``."""

_CHANNEL = "fetch"
"""Fetches use their own connection, because a long poll would hold up all responses queued behind it."""

_FETCH = Situation(FetchRequest.api_key)


class BrokerFetcher:
    """Fetches from one broker for as long as partitions are assigned to it.

    Attributes:
        node: The broker's id.
        ended: Whether :meth:`run` has ended; the next partition needs a new fetcher.
        failure: Why the last request failed; empty if it didn't.
        retry_at: The earliest loop time for the next request.
        under_way: Whether a request is in flight.
        requested_at: Loop time of the last request.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        node: int,
        cluster: ClusterClient,
        config: FetchConfig,
        handler: FetchResponseHandler,
        buffered: BufferedBytes,
    ) -> None:
        """Create a fetcher; :meth:`run` does the work.

        Args:
            fetcher: Assigns partitions to this broker and the others.
            node: The broker's id.
            cluster: The connections to the brokers.
            config: The options.
            handler: Handles the responses.
            buffered: The broker's undelivered bytes.
        """
        self.node = node
        self.ended = False
        self.failure = ""
        self.retry_at = 0.0
        self.under_way = False
        self.requested_at = 0.0
        self._cluster = cluster
        self._config = config
        self._handler = handler
        self._buffered = buffered
        self._fetcher = fetcher
        self._cursors: dict[TopicPartition, Cursor] = {}
        # A dictionary used as an ordered set: partitions are requested in the order they changed.
        self._changed: dict[TopicPartition, None] = {}
        # Partitions whose first batch is larger than the limit. They're requested again with its size.
        self._cut: dict[TopicPartition, None] = {}
        self._session = FetchSessionHandler()
        # Consecutive failed requests.
        self._failures = 0
        # Consecutive empty responses that came back immediately.
        self._empty = 0
        # Ends a wait for room or for a backoff. A request in flight is never cut short: that would leave its session in
        # doubt.
        self._wake = asyncio.Event()

    def add(self, cursor: Cursor) -> None:
        """Fetch a partition from this broker, starting at its current offset."""
        self._cursors[cursor.partition] = cursor
        self._changed[cursor.partition] = None
        self._wake.set()

    def stop(self, cursor: Cursor) -> None:
        """Stop requesting a partition whose delivery has stopped. A response in flight is still buffered."""
        self._changed[cursor.partition] = None
        self._wake.set()

    def remove(self, cursor: Cursor) -> None:
        """Stop fetching a partition from this broker, and drop what is in flight."""
        # A later cursor of the same partition may have replaced it.
        if self._cursors.get(cursor.partition) is cursor:
            del self._cursors[cursor.partition]
            # The broker has to forget the removed partition (forgotten topics).
            self._changed[cursor.partition] = None
            self._cut.pop(cursor.partition, None)
            self._wake.set()

    def wake(self) -> None:
        """Check again whether there is room for more."""
        self._wake.set()

    @property
    def problem(self) -> str:
        """Why the broker isn't delivering records; empty if it is."""
        if self.failure:
            return self.failure
        late = asyncio.get_running_loop().time() - self.requested_at > self._config.max_wait + LATE
        return f"broker {self.node} does not respond" if self.under_way and late else ""

    async def run(self) -> None:
        """Fetch until no partition is left. Raises errors that end the consumer."""
        try:
            # The run ends with the last partition. When the broker leads a partition again, the Fetcher makes a new
            # BrokerFetcher.
            while self._cursors:
                # Clear the event before reading the conditions. Every later change then wakes the task.
                self._wake.clear()
                now = asyncio.get_running_loop().time()
                if self.retry_at > now:
                    await wait_until(self._wake, self.retry_at)
                # `parked` doesn't count: a paused partition must not keep other partitions from being fetched.
                # guard: a broker whose buffered responses reach the limit gets no more fetches
                elif self._buffered.waiting >= self._config.max_partition_bytes:
                    await self._wake.wait()
                else:
                    await self._fetch()
        # Set it even if the run raises: no more partitions may be assigned here.
        finally:
            self.ended = True

    async def _fetch(self) -> None:
        """Send one request and handle its response."""
        # The plan counts as requested now. If the request fails, _failed() undoes that.
        plan, requested = self._next()
        if not requested:
            # None of the partitions can be fetched, and they're about to be removed.
            if self._cursors:
                await self._wake.wait()
            return
        # Don't wait for a long poll if this request leaves partitions for the next one.
        max_wait = 0.0 if self._changed or self._fetcher.is_placing else self._config.max_wait
        self.under_way = True
        self.requested_at = asyncio.get_running_loop().time()
        try:
            response = await self._send(plan, max_wait)
        except KafkaError as error:
            self._failed(error, classify(error, _FETCH))
            return
        finally:
            self.under_way = False
        self._handler.observer.fetches.add(asyncio.get_running_loop().time() - self.requested_at)
        code = ErrorCode(response.error_code)
        if code:
            self._failed(error_for(code, f"Fetch from broker {self.node}"), classify(code, _FETCH), code)
            return
        # If there's no top-level error, the session is good, even if individual partitions report errors.
        self._failures, self.failure, self.retry_at = 0, "", 0.0
        # A request outside the session doesn't change it.
        if requested is self._session.wanted:
            self._session.responded(response.session_id)
        # Handle this response before the next request, which needs the new offsets.
        took, results = asyncio.get_running_loop().time() - self.requested_at, self._handler.results
        moved = await self._handler.handle(
            self.node, response, requested, self._session.topic, self._cursors, self._buffered
        )
        # Partitions that changed during the request were dropped from the response.
        news = moved or self._changed or self._handler.results > results or response.throttle_time_ms
        self._paced(due=bool(news) or took >= max_wait / 2)
        # Release its memory now, and not only when the next response arrives.
        del response
        # The broker doesn't advance offsets on its own, so the next request includes each one that has moved.
        for partition in moved:
            # guard: a partition whose position moved is fetched from its new offset
            self._changed[partition] = None
            cursor = self._cursors.get(partition)
            if cursor is not None and cursor.fetch.wanted_size:
                self._cut[partition] = None

    def _paced(self, *, due: bool) -> None:
        """Pause before the next request if the broker keeps responding immediately without records. ``due`` means that
        the response contained something, or that the broker held it back as a long poll."""
        self._empty = 0 if due else self._empty + 1
        # A single empty response is normal: it can be the response to the session's last changes.
        if self._empty > 1:
            self.failure = f"broker {self.node} responds at once, and without records"
            self.retry_at = asyncio.get_running_loop().time() + self._cluster.backoff.delay(self._empty - 1)

    def _next(self) -> tuple[FetchPlan, Mapping[TopicPartition, FetchPosition]]:
        """Return the next request, and everything the session requests, including earlier requests."""
        while self._cut:
            # Request it alone and outside the session: together with other partitions, the response could exceed
            # max_response_size.
            partition = next(iter(self._cut))
            del self._cut[partition]
            cursor = self._cursors.get(partition)
            if cursor is not None and cursor.fetchable and cursor.fetch.wanted_size:
                wanted = self._wanted(cursor, max(self._config.max_partition_bytes, cursor.fetch.wanted_size))
                return outside(partition, wanted), {partition: wanted}
        changes: dict[TopicPartition, FetchPosition | None] = {}
        while self._changed and len(changes) < MAX_CHANGES:
            partition = next(iter(self._changed))
            del self._changed[partition]
            cursor = self._cursors.get(partition)
            # None removes the partition. Paused, held and failed partitions leave the session, and a later change adds
            # them again.
            usual = self._config.max_partition_bytes
            changes[partition] = self._wanted(cursor, usual) if cursor is not None and cursor.fetchable else None
            # No response is in flight at this point, so the partition can be removed right away.
            if changes[partition] is None:
                self._cursors.pop(partition, None)
        return self._session.plan(changes), self._session.wanted

    def _wanted(self, cursor: Cursor, max_bytes: int) -> FetchPosition:
        snapshot, partition = self._cluster.snapshot, cursor.partition
        info = snapshot.topics.get(partition.topic)
        assert cursor.fetch.offset is not None, "a partition without a position is not fetched"
        return FetchPosition(
            info.topic_id if info is not None else ZERO_UUID,
            cursor.fetch.offset,
            # A follower that hasn't reached the leader's epoch yet would reject it. Without an epoch, it serves what it
            # has.
            -1 if cursor.fetch.replica else cursor.fetch.leader_epoch,
            cursor.fetch.epochs.last_fetched,
            max_bytes,
            # The version isn't sent. When the response arrives, it shows whether there has been a seek since.
            cursor.version,
        )

    async def _send(self, plan: FetchPlan, max_wait: float) -> FetchResponse:
        config = self._config
        following = asyncio.get_running_loop().time() >= self._handler.leaders_until
        version = await self._cluster.version(
            FetchRequest, self.node, max_version=BY_NAME if plan.by_name else None, channel=_CHANNEL
        )
        request = fetch_request(
            plan,
            config,
            version=version,
            max_bytes=min(config.max_bytes, self._fetcher.share()),
            max_wait=max_wait,
            # Leave out the rack while following is off. Given the rack, the leader would name the follower again,
            # whether or not this client can reach it.
            rack=config.rack if following else "",
        )
        return await self._cluster.send(
            request,
            self.node,
            # A long poll isn't a delay: the broker is late only if it takes longer than that.
            timeout=config.max_wait + self._cluster.config.request_timeout,
            max_version=version,
            channel=_CHANNEL,
        )

    def _failed(self, error: KafkaError, action: Action, code: ErrorCode = ErrorCode.NONE) -> None:
        """Handle a failed request: request everything again in a new session, immediately or after a backoff."""
        # FAIL ends the consumer, too, because there is no call to raise the error in.
        if action in (Action.STOP, Action.FAIL):
            raise error
        log.debug("fetching from broker %d: %s", self.node, error)
        self._handler.observer.failed_fetches += 1
        # The broker may or may not have processed the failed request, so only a full request is safe.
        requested = self._session.restart(known=code is not ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        self._changed.update(dict.fromkeys(requested))
        self._changed.update(dict.fromkeys(self._cursors))
        self._failures += 1
        # One lost session is normal, because brokers evict sessions. Two in a row are a problem.
        if action is not Action.NEW_SESSION or self._failures > 1:
            self.failure = str(error)
            # guard: a broker that failed gets the next fetch after a pause -> 0.0
            self.retry_at = asyncio.get_running_loop().time() + self._cluster.backoff.delay(self._failures)
        if action is not Action.NEW_SESSION:
            self._cluster.metadata.invalidate(f"fetch: {error}")
            self._leave_followers()

    def _leave_followers(self) -> None:
        """Fetch partitions from their leaders if this broker is only their preferred replica."""
        following = [cursor for cursor in self._cursors.values() if cursor.fetch.replica is not None]
        for cursor in following:
            # guard: a follower that cannot be reached is left
            cursor.fetch.replica = None
            self._fetcher.place_again(cursor)
        if following:
            self._handler.avoid_followers(self.node)

"""Fetching from one broker: one request at a time, in a session, for all partitions that are read from it.

A request goes out as soon as less than one partition's worth is left of what the broker sent before, so the next
response is on its way while records are delivered. It concerns all partitions, also those of which something is left:
one that was left out would have to wait for the end of a long poll for the others.

A request costs what has changed since the last, not the number of partitions: the session remembers what the broker was
asked for, and partitions whose offset, leader or topic changed are noted until the next request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.fetch import FetchRequest, FetchResponse
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.consumer.chunk import Supply
from aiokproto.consumer.cursor import Cursor
from aiokproto.consumer.fetch_request import BY_NAME, FetchConfig, fetch_request
from aiokproto.consumer.fetch_response import FetchResponseHandler
from aiokproto.consumer.fetch_session import FetchPlan, FetchPosition, FetchSessionHandler, outside
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import KafkaError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.types import TopicPartition

log = logging.getLogger("aiokproto.fetch")

MOST_CHANGES = 500
"""Partitions of which one request says something new: a millisecond or two to write, and to read what they answer. What
is left follows with the next request, which comes at once."""

LATE = 2.0
"""Seconds beyond the time that it may wait for records after which a broker is said not to answer."""

_FETCH = Situation(FetchRequest.api_key)


class BrokerFetcher:
    """Fetches from one broker, until no partition is read from it.

    Attributes:
        node: The broker.
        ended: Whether it has ended; another one has to be made then.
        failure: Why the last request failed; empty if it did not.
        retry_at: Loop time before which nothing is asked.
        under_way: Whether a request is.
        asked_at: Loop time of the last request.
    """

    def __init__(
        self,
        node: int,
        cluster: ClusterClient,
        config: FetchConfig,
        handler: FetchResponseHandler,
        supply: Supply,
        share: Callable[[], int],
        more_to_come: Callable[[], bool],
    ) -> None:
        """Make a fetcher; :meth:`run` has to be called.

        Args:
            node: The broker.
            cluster: Connections.
            config: The options.
            handler: Takes in the responses.
            supply: What the broker has sent and nobody has opened.
            share: How many bytes the next response may have.
            more_to_come: Whether further partitions are about to be added.
        """
        self.node = node
        self.ended = False
        self.failure = ""
        self.retry_at = 0.0
        self.under_way = False
        self.asked_at = 0.0
        self._cluster = cluster
        self._config = config
        self._handler = handler
        self._supply = supply
        self._share = share
        self._more_to_come = more_to_come
        self._cursors: dict[TopicPartition, Cursor] = {}
        # A dictionary for its order: what changed first is asked for first.
        self._changed: dict[TopicPartition, None] = {}
        self._cut: dict[TopicPartition, None] = {}
        self._session = FetchSessionHandler()
        self._failures = 0
        self._wake = asyncio.Event()

    def add(self, cursor: Cursor) -> None:
        """Fetch a partition from this broker, or, if it is already, from where it is now."""
        self._cursors[cursor.partition] = cursor
        self._changed[cursor.partition] = None
        self._wake.set()

    def remove(self, cursor: Cursor) -> None:
        """Fetch a partition from here no longer."""
        if self._cursors.get(cursor.partition) is cursor:
            del self._cursors[cursor.partition]
            self._changed[cursor.partition] = None
            self._cut.pop(cursor.partition, None)
            self._wake.set()

    def wake(self) -> None:
        """There is room for more."""
        self._wake.set()

    @property
    def trouble(self) -> str:
        """Why the broker serves nothing; empty if it does."""
        if self.failure:
            return self.failure
        late = asyncio.get_running_loop().time() - self.asked_at > self._config.max_wait + LATE
        return f"broker {self.node} does not answer" if self.under_way and late else ""

    async def run(self) -> None:
        """Fetch while there is anything to fetch. Raises what ends the consumer."""
        try:
            while self._cursors:
                self._wake.clear()
                now = asyncio.get_running_loop().time()
                if self.retry_at > now:
                    await wait_until(self._wake, self.retry_at)
                elif self._supply.waiting >= self._config.max_partition_bytes:
                    await self._wake.wait()
                else:
                    await self._fetch()
        finally:
            self.ended = True

    async def _fetch(self) -> None:
        """One request and its response."""
        plan, asked = self._next()
        if not asked:
            # Nothing can be fetched for now: they are about to be taken away.
            await self._wake.wait()
            return
        self.under_way = True
        self.asked_at = asyncio.get_running_loop().time()
        try:
            response = await self._send(plan)
        except KafkaError as error:
            self._failed(error, classify(error, _FETCH))
            return
        finally:
            self.under_way = False
        code = ErrorCode(response.error_code)
        if code:
            self._failed(error_for(code, f"Fetch from broker {self.node}"), classify(code, _FETCH), code)
            return
        self._failures, self.failure, self.retry_at = 0, "", 0.0
        if asked is self._session.wanted:
            self._session.answered(response.session_id)
        moved = await self._handler.handle(self.node, response, asked, self._session.topic, self._cursors, self._supply)
        # Or it would take up its memory until the next one has come.
        del response
        for partition in moved:
            self._changed[partition] = None
            cursor = self._cursors.get(partition)
            if cursor is not None and cursor.fetch.wanted_size:
                self._cut[partition] = None

    def _next(self) -> tuple[FetchPlan, Mapping[TopicPartition, FetchPosition]]:
        """The next request, and what is asked for with it and before."""
        while self._cut:
            # Outside of the session, alone: beside others, the response might be longer than is accepted.
            partition = next(iter(self._cut))
            del self._cut[partition]
            cursor = self._cursors.get(partition)
            if cursor is not None and cursor.fetchable and cursor.fetch.wanted_size:
                wanted = self._wanted(cursor, max(self._config.max_partition_bytes, cursor.fetch.wanted_size))
                return outside(partition, wanted), {partition: wanted}
        changes: dict[TopicPartition, FetchPosition | None] = {}
        while self._changed and len(changes) < MOST_CHANGES:
            partition = next(iter(self._changed))
            del self._changed[partition]
            cursor = self._cursors.get(partition)
            usual = self._config.max_partition_bytes
            changes[partition] = self._wanted(cursor, usual) if cursor is not None and cursor.fetchable else None
        return self._session.plan(changes), self._session.wanted

    def _wanted(self, cursor: Cursor, max_bytes: int) -> FetchPosition:
        snapshot, partition = self._cluster.snapshot, cursor.partition
        info = snapshot.topics.get(partition.topic)
        assert cursor.fetch.offset is not None, "what has no position is not fetched"
        return FetchPosition(
            info.topic_id if info is not None else ZERO_UUID,
            cursor.fetch.offset,
            # A follower need not be in the leader's epoch yet; asked without, it answers by what it has.
            -1 if cursor.fetch.replica else snapshot.leader_epoch(*partition),
            max_bytes,
            cursor.version,
        )

    async def _send(self, plan: FetchPlan) -> FetchResponse:
        config = self._config
        following = asyncio.get_running_loop().time() >= self._handler.leaders_until
        request = fetch_request(
            plan,
            config,
            max_bytes=min(config.max_bytes, self._share()),
            # What is not asked for yet must not wait for the end of a long poll.
            max_wait=0.0 if self._changed or self._more_to_come() else config.max_wait,
            # Leaders that know our rack send us to the follower, whether or not we can reach it.
            rack=config.rack if following else "",
        )
        return await self._cluster.send(
            request,
            self.node,
            timeout=config.max_wait + self._cluster.config.request_timeout,
            max_version=BY_NAME if plan.by_name else None,
            channel="fetch",
        )

    def _failed(self, error: KafkaError, action: Action, code: ErrorCode = ErrorCode.NONE) -> None:
        """Nothing came. What was asked for is asked again, in a new session; now, or after a pause."""
        if action in (Action.STOP, Action.FAIL):
            raise error
        log.debug("fetching from broker %d: %s", self.node, error)
        asked = self._session.restart(known=code is not ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        self._changed.update(dict.fromkeys(asked))
        self._changed.update(dict.fromkeys(self._cursors))
        self._failures += 1
        if action is not Action.NEW_SESSION or self._failures > 1:
            self.failure = str(error)
            self.retry_at = asyncio.get_running_loop().time() + self._cluster.backoff(self._failures)
        if action is not Action.NEW_SESSION:
            self._cluster.invalidate(f"fetch: {error}")
            self._leave_followers()

    def _leave_followers(self) -> None:
        """Read from the leaders what this broker was only preferred for."""
        following = [cursor for cursor in self._cursors.values() if cursor.fetch.replica is not None]
        for cursor in following:
            cursor.fetch.replica = None
            self._handler.place(cursor)
        if following:
            self._handler.avoid_followers(self.node)


async def wait_until(event: asyncio.Event, until: float | None) -> None:
    """Wait for the event, or until that loop time."""
    if until is None:
        await event.wait()
        return
    handle = asyncio.get_running_loop().call_at(until, event.set)
    try:
        await event.wait()
    finally:
        handle.cancel()

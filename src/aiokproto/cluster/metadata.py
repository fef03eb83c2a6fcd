"""The only writer of the cluster metadata: bootstrap, refresh, rebootstrap (KIP-899, KIP-1102).

After the bootstrap, one task (:meth:`MetadataUpdater.run`) sends every refresh, so responses never race, and any number
of :meth:`MetadataUpdater.invalidate` calls cause a single refresh. (A call for all topics sends its own request; that
response is not stored.) What a refresh requests, and when:

* When a call is the first to wait for a topic (``_new``), that topic is requested at once, alone. Everything else waits
  for a pause that starts at 10 ms, grows while refreshes follow each other closely, and is reset after a quiet time.
* ``_stale`` is the reason for the next full refresh; None if none is due before ``metadata_max_age_ms``.
* UNKNOWN_TOPIC_OR_PARTITION is believed after :data:`UNKNOWN_LIMIT` consecutive responses (``_missing``): a broker that
  has just started, or hasn't heard of a new topic yet, returns it too. Waiting calls then fail, and a known topic is
  dropped from the snapshot, but still requested (``_deleted``): it can be created again. After ``metadata_max_idle_ms``
  it is forgotten, unless the client still needs it (``last_used``). Otherwise topics that come and go would make
  requests grow forever.
* A partition without a leader keeps the refreshes going until it has one.
* When no known broker can be reached, the bootstrap addresses are tried again: the whole cluster may have moved.
* A client that hasn't used an advertised address yet refreshes after a second, from one of these addresses. Otherwise
  an idle client would never find out that they are wrong, and ``health()`` would report no problem.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from aiokproto.authorization import Asked
from aiokproto.cluster.backoff import Backoff
from aiokproto.cluster.hedge import first_response
from aiokproto.cluster.pool import MAIN
from aiokproto.cluster.snapshot import (
    BrokerNode,
    ClusterSnapshot,
    NodeEndpoint,
    TopicInfo,
    is_topic_name,
    topic_info,
)
from aiokproto.cluster.tracked_topics import TrackedTopics
from aiokproto.codec.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from aiokproto.error_codes import ErrorCode, Policy
from aiokproto.errors import (
    AuthenticationError,
    BootstrapError,
    BrokerConnectionError,
    ConfigurationError,
    DeadlineError,
    KafkaError,
    NotKafkaError,
    UnknownTopicError,
    copied,
    error_for,
)
from aiokproto.failures import Action, Situation, classify
from aiokproto.net.versions import BrokerVersions
from aiokproto.runtime import uniform
from aiokproto.runtime.timeouts import deadline_at, timeout_at
from aiokproto.security.mechanism import NoTokenError
from aiokproto.texts import counted

if TYPE_CHECKING:
    from aiokproto.cluster.cluster_client import ClusterClient

UNKNOWN_LIMIT = 9
"""A topic that is missing from this many consecutive responses doesn't exist. With the default backoff that takes 1 to
3 seconds."""

_SOON = 0.01
"""First pause (s) between refreshes that succeed: brokers usually know a new topic or leader within milliseconds."""

_PROVED_AFTER = 1.0
"""Seconds between refreshes until an advertised address has been reached. Usually the application's own requests do
that sooner."""

_DIAL_GRACE = 1.0
"""Seconds that the bootstrap waits for a dial after its own deadline: the dial's error says what is wrong."""

_WARN_EVERY = 30.0
"""Minimum seconds between two warnings that no broker responds."""

_NO_CREATE_FLAG = 4
"""First version with ``allow_auto_topic_creation``; before that, only the broker's configuration decides."""

_REFRESH = Situation(MetadataRequest.api_key)
_STARTING = Situation(MetadataRequest.api_key, starting=True)
_MISSING = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

Failures = Sequence[tuple[BrokerNode, KafkaError]]

logger = logging.getLogger("aiokproto.cluster")


class MetadataUpdater:
    """Keeps :attr:`snapshot` up to date; :meth:`run` is its task."""

    def __init__(self, client: ClusterClient) -> None:
        self.snapshot = ClusterSnapshot()
        # When a broker last answered a refresh (s, the loop's clock); None before the bootstrap.
        self.updated_at: float | None = None
        # The versions of the broker that answered last. Other brokers' versions can differ during an upgrade of the
        # cluster.
        self.versions = BrokerVersions({}, "no broker yet")
        self._client = client
        self._config = config = client.config
        # The pause after a successful refresh is shorter than retry_backoff_ms (100 ms by default), so that the leaders
        # of a new topic are found sooner.
        self._soon = Backoff(min(_SOON, config.retry_backoff), config.retry_backoff_max, uniform)
        # How many calls are waiting for each topic. A call subtracts only what it has added.
        self._wanted: Counter[str] = Counter()
        self._tracked = TrackedTopics(
            config.metadata_max_idle, lambda topic: math.inf if self._wanted[topic] else client.last_used(topic)
        )
        # The wanted topics whose callers allow the broker to create them.
        self._create: set[str] = set()
        # Topics that existed once and are now missing. Every refresh still requests them.
        self._deleted: set[str] = set()
        # Topic → its error code in the last response, until there is a response without an error.
        self._errors: dict[str, int] = {}
        # Topic → the number of consecutive responses that didn't list it.
        self._missing: Counter[str] = Counter()
        # Topics that don't exist, until a response lists them. A new call restarts the count above, but doesn't change
        # this.
        self._absent: frozenset[str] = frozenset()
        # Topics that no call waited for until now. They are requested without a pause, and the next request empties
        # this set.
        self._new: set[str] = set()
        self._stale: str | None = None
        # The number of consecutive failed refreshes. _streak counts refreshes that follow each other closely, failed or
        # not.
        self._failures = 0
        self._failing_since = self._warned_at = 0.0
        self._streak = 0
        self._refreshed_at = 0.0
        self._pause = 0.0
        self._last_error: KafkaError | None = None
        # Set by REBOOTSTRAP_REQUIRED (KIP-1102): skip the known brokers until a bootstrap address has responded.
        self._rebootstrap = False
        # Wakes only the task. Calls wait in _waiters, which every refresh wakes.
        self._wake = asyncio.Event()
        # A dict used as an ordered set: waiting calls resume in the order in which they started to wait.
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._close_error: KafkaError | None = None

    # --- Called by the client and its users ---

    async def topics(self, names: list[str] | None, timeout: float, create: bool, keep: bool) -> dict[str, TopicInfo]:
        """Implement :meth:`ClusterClient.topics <aiokproto.cluster.ClusterClient.topics>`."""
        until = _now() + timeout
        if names is None:
            # Don't store the response: every later refresh would request the whole list, which may be a hundred
            # thousand topics.
            response = await self._request_all_topics(until, timeout)
            return {topic.name: topic_info(topic) for topic in response.topics if topic.name and not topic.error_code}
        self._tracked.add(names, keep, _now())
        missing = self._unknown(names)
        if missing:
            self._wanted.update(missing)
            try:
                async with deadline_at(until, lambda: self._deadline_text(self._unknown(names), timeout)):
                    await self._await_topics(names, create)
            except DeadlineError as error:
                raise self._nonexistent(names) or error from None
            finally:
                # Counter subtraction drops entries at zero, so topics that no call waits for don't pile up.
                self._wanted -= Counter(missing)
                # Let topics that don't exist expire: a consumer that keeps subscribing to new names must not request
                # all of them forever.
                self._tracked.lost(self._unknown(missing), _now())
        # The topics must be in the snapshot: there was no await since _await_topics returned, so it can't have changed.
        return {name: self.snapshot.topics[name] for name in names}

    def absent(self, names: Iterable[str]) -> frozenset[str]:
        """Return the topics that don't exist according to the newest metadata, without a request: several consecutive
        responses didn't list them, and no later one has."""
        return self._absent.intersection(names)

    def invalidate(self, reason: str, topics: Iterable[str] = ()) -> None:
        """Request a refresh, after NOT_LEADER_OR_FOLLOWER, a lost connection or the like.

        All calls before the next refresh share it; refreshes are spaced by a backoff.

        Args:
            reason: For the log.
            topics: Topics to track again if they have expired.
        """
        forgotten = [name for name in topics if name not in self.snapshot.topics]
        self._tracked.add(forgotten, False, _now())
        self._deleted.update(forgotten)
        # Keep the first reason: later calls share the same refresh.
        if self._stale is None:
            logger.debug("metadata is out of date: %s", reason)
            self._stale = reason
            self._wake.set()

    def update_leader(
        self, topic: str, partition: int, leader: int, leader_epoch: int, endpoints: Iterable[NodeEndpoint] = ()
    ) -> bool:
        """Apply a new leader that a broker reported in a Produce or Fetch response (KIP-951).

        Args:
            topic: The topic.
            partition: The partition.
            leader: The node id in ``current_leader``.
            leader_epoch: The epoch in ``current_leader``.
            endpoints: The response's ``node_endpoints``. The metadata may not list the new leader yet, or may list an
                old address.

        Returns:
            Whether the snapshot changed. An older leader epoch, or a broker without a known address, is ignored.
        """
        before = self.snapshot
        self._publish(before.with_leader(topic, partition, leader, leader_epoch, endpoints))
        return self.snapshot is not before

    def add_broker(self, node: BrokerNode) -> None:
        """Add a broker from a FindCoordinator response; Metadata may not list it yet."""
        known = self.snapshot.brokers.get(node.id)
        if known is None or (known.host, known.port) != (node.host, node.port):
            self._publish(self.snapshot.with_broker(node))

    async def wait_for_update(self, generation: int) -> ClusterSnapshot:
        """Wait until the snapshot is newer than ``generation``, and return it. The caller has to set a deadline."""
        self._client.check()
        # Check again after each wake-up: failed refreshes wake the waiters, too.
        while self.snapshot.generation <= generation:
            await self._wait_for_refresh()
        return self.snapshot

    def close(self, reason: KafkaError) -> None:
        """Make every waiting call raise ``reason``."""
        self._close_error = reason
        self._notify()

    # --- Bootstrap ---

    async def bootstrap(self, timeout: float | None) -> None:
        """Request the first metadata: try all addresses until one responds, none can succeed, or the time is up."""
        config = self._config
        retry_timeout = config.bootstrap_timeout if timeout is None else timeout
        # If the caller doesn't pass a timeout, every address is tried once, however short the option is.
        addresses = len(config.bootstrap_servers)
        once = config.connect_timeout * addresses + _DIAL_GRACE
        limit = max(retry_timeout, once) if timeout is None else timeout
        start, attempt = _now(), 0
        while True:
            attempt += 1
            await self._client.pool.resolve_bootstrap(start + limit)
            # Request no topics: the bootstrap only needs the brokers. (Since version 1, an empty list means no topics.)
            nodes = self._client.pool.bootstrap_nodes
            response, failures = await self._try(nodes, [], False, start + limit, _STARTING)
            if response is not None:
                self._apply(response, [])
                # The address may be a load balancer's, which isn't meant to carry any more traffic.
                self._client.pool.release_bootstrap()
                self.updated_at = self._refreshed_at = _now()
                self._client.observer.refreshed(len(self.snapshot.brokers), 0, _now() - start)
                return
            pause = self._client.backoff.delay(attempt)
            # Include the pause: don't sleep if the next attempt would start after the deadline.
            if definitive(failures) or _now() + pause >= start + retry_timeout:
                raise bootstrap_error(failures, attempt, _now() - start)
            # Warn only once: it's common for a client to start before its cluster.
            if attempt == 1:
                logger.warning("%s; retrying for %.3g s", bootstrap_error(failures, attempt, 0), retry_timeout)
            await asyncio.sleep(pause)

    # --- The task ---

    async def run(self) -> None:
        """Refresh when due, until cancelled. An error that ends the client ends this task."""
        while True:
            await self._due()
            started = _now()
            try:
                await self._refresh()
                self._succeeded(_now() - started)
            except KafkaError as error:
                # Let the error end this task, and so the client (ClusterClient._metadata_task_ended): no call awaits a
                # refresh, so none could raise it.
                if classify(error, _REFRESH) is Action.STOP:
                    raise
                self._failed(error, _now() - started)
            self._refreshed_at = _now()
            self._pause = (self._client.backoff if self._failures else self._soon).delay(self._streak)
            # Notify after failures, too: waiting calls check whether their topic can still be found.
            self._notify()

    @property
    def failing(self) -> tuple[float, KafkaError] | None:
        """When refreshes started to fail (s, the loop's clock), and the last error. None if the last refresh
        succeeded."""
        return None if self._last_error is None else (self._failing_since, self._last_error)

    def _failed(self, error: KafkaError, latency: float) -> None:
        now = _now()
        self._client.observer.refreshed(len(self.snapshot.brokers), len(self.snapshot.topics), latency, error)
        if not self._failures:
            self._failing_since = now
        self._failures += 1
        self._last_error = error
        text = "metadata could not be refreshed for %.0f s (%s), retrying: %s"
        if self._failures == 1 or now - self._warned_at >= _WARN_EVERY:
            self._warned_at = now
            log = logger.warning
        else:
            log = logger.debug
        log(text, now - self._failing_since, counted(self._failures, "attempt"), error)
        # The refresh has consumed its reason (_stale). Without a new one, the next refresh would be minutes away.
        self.invalidate("the last refresh failed")

    def _succeeded(self, latency: float) -> None:
        self.updated_at = _now()
        self._client.observer.refreshed(len(self.snapshot.brokers), len(self.snapshot.topics), latency)
        if self._failures:
            logger.info("metadata is refreshed again after %.0f s", _now() - self._failing_since)
        self._failures = 0
        self._last_error = None

    async def _due(self) -> None:
        # Compute the time again after every wake-up: the refresh may have become urgent, or there may be a new reason.
        while (when := self._next_time()) > _now():
            # Clear it before the wait. There's no await since _next_time(), so no wake-up is lost.
            self._wake.clear()
            try:
                async with timeout_at(when):
                    await self._wake.wait()
            except asyncio.TimeoutError:
                pass
        # Refreshes that follow each other closely get further and further apart, until there's a quiet time, or a call
        # for a new topic: it must not wait longer because an earlier call's topic doesn't exist.
        quiet = _now() - self._refreshed_at > 2 * self._config.retry_backoff_max
        self._streak = 1 if quiet or self._urgent() else self._streak + 1

    def _next_time(self) -> float:
        if self._urgent():
            return 0.0
        if self._new or self._stale is not None:
            return self._refreshed_at + self._pause
        age = self._config.metadata_max_age
        return self._refreshed_at + (min(age, _PROVED_AFTER) if self._client.pool.unproven else age)

    def _urgent(self) -> bool:
        """Whether a call is waiting for a topic that hasn't been requested yet.

        Its first request is sent without a pause.
        """
        # New calls must not defeat the backoff while no broker can be reached.
        return bool(self._new) and not self._failures

    async def _refresh(self) -> None:
        """Refresh once. Anything invalidated or requested after this starts is left to the next refresh."""
        self._expire_idle()
        # If that's all there is to do, request only the new topics: a call is waiting, and brokers answer a request for
        # one topic faster than a request for thousands.
        only_new = self._new and self._stale is None and not self._aged()
        names = set(self._new) if only_new else {*self.snapshot.topics, *self._deleted, *self._wanted}
        self._new.clear()
        # Clear it before sending, not after the response: a report that comes in the meantime may be newer than what
        # the broker looked up.
        self._stale = None
        # Don't use a caller's deadline: many calls share the refresh, and each has its own deadline.
        until = _now() + self._config.api_timeout
        create = names & self._create
        # allow_auto_topic_creation applies to a whole request, so topics to create get a request of their own. A
        # request without topics still returns the brokers.
        if names - create or not create:
            self._apply(await self._request(sorted(names - create), False, until), names - create)
        if create:
            self._apply(await self._request(sorted(create), True, until), create)
        self._client.pool.release_bootstrap()

    def rebootstrap(self, reason: str) -> None:
        """Request the metadata from a bootstrap address, because the known brokers belong to another cluster."""
        self._rebootstrap = True
        self.invalidate(reason)

    def _expire_idle(self) -> None:
        idle = self._tracked.expire_idle(_now())
        if idle:
            logger.debug("%s not used any more, forgotten", counted(len(idle), "topic"))
            for remembered in (self._deleted, self._create):
                remembered.difference_update(idle)
            for name in idle:
                self._errors.pop(name, None)
                self._missing.pop(name, None)
            self._absent -= set(idle)
            self._publish(self.snapshot.without(idle))

    def _aged(self) -> bool:
        return _now() - self._refreshed_at >= self._config.metadata_max_age

    def _apply(self, response: MetadataResponse, requested: Collection[str]) -> None:
        """Apply a response. Request another refresh if topics are missing or partitions have no leader."""
        for topic in response.topics:
            name, code = topic.name, ErrorCode(topic.error_code)
            # The name is null only in responses to requests by topic id, which aren't sent here. And a broker may list
            # topics that weren't requested.
            if name is None or name not in requested:
                continue
            self._missing[name] = self._missing[name] + 1 if code in _MISSING else 0
            if code:
                self._errors[name] = code
            else:
                self._errors.pop(name, None)
                self._deleted.discard(name)
                self._create.discard(name)
                self._tracked.found(name)
        absent = {name for name in requested if self._missing[name] >= UNKNOWN_LIMIT}
        self._absent = self._absent.difference(name for name in requested if not self._missing[name]) | absent
        drop = [name for name in requested if name in absent and name in self.snapshot.topics]
        for name in drop:
            logger.info("topic %r does not exist any more", name)
        self._deleted.update(drop)
        self._tracked.lost(drop, _now())
        # Keep the ids for the comparison below: they show which topics were recreated.
        before = {name: info.topic_id for name, info in self.snapshot.topics.items()}
        self._publish(self.snapshot.updated(response, keep=requested, drop=drop))
        for name in self.snapshot.recreated(before):
            logger.warning("topic %r was deleted and created again", name)
        doubtful = [name for name in requested if name in self.snapshot.topics and self._is_doubtful(name)]
        leaderless = self.snapshot.leaderless(requested)
        # Request them again, with the growing pauses of _due: elections take milliseconds to seconds.
        if doubtful or leaderless:
            self.invalidate(
                f"without a leader: {leaderless[:3]}" if leaderless else f"missing in a response: {doubtful[:3]}"
            )

    def _is_doubtful(self, name: str) -> bool:
        """Whether the last response about a known topic may be wrong: it had a transient error, or fewer partitions
        than before."""
        code = ErrorCode(self._errors.get(name, 0))
        return self.snapshot.topics[name].omissions > 0 or (bool(code) and classify(code, _REFRESH) is not Action.FAIL)

    def _publish(self, snapshot: ClusterSnapshot) -> None:
        if snapshot is not self.snapshot:
            self.snapshot = snapshot
            # Update the pool before waking any call: a call that sees the new snapshot must not get a connection to an
            # address that is no longer in it.
            self._client.pool.update(snapshot.brokers, snapshot.cluster_id)
            self._notify()

    # --- Metadata requests ---

    async def _request_all_topics(self, until: float, timeout: float) -> MetadataResponse:
        """Request all topics, retrying until the deadline. They are returned, not stored in the snapshot."""
        attempt, last = 0, "no response"
        async with deadline_at(until, lambda: f"Metadata of all topics: timed out after {timeout:.3g} s; last: {last}"):
            while True:
                try:
                    return await self._request(None, False, until)
                except KafkaError as error:
                    if classify(error, _REFRESH) in {Action.FAIL, Action.STOP}:
                        raise
                    attempt, last = attempt + 1, str(error)
                await asyncio.sleep(self._client.backoff.delay(attempt))

    async def _request(self, names: list[str] | None, create: bool, until: float) -> MetadataResponse:
        """Try the known brokers one after another, then the bootstrap addresses (KIP-899)."""
        # Prefer a known broker to the bootstrap addresses, which may be a load balancer's, or outdated.
        known = [] if self._rebootstrap else self._client.pool.by_preference()
        if self._rebootstrap:
            await self._client.pool.resolve_bootstrap(until)
        nodes = list(dict.fromkeys([*known, *self._client.pool.bootstrap_nodes]))
        response, failures = await self._try(nodes, names, create, until, _REFRESH)
        if response is None:
            tried = "; ".join(f"{node}: {error}" for node, error in failures[-5:])
            raise BrokerConnectionError(f"Metadata: no broker could be reached: {tried}") from failures[-1][1]
        self._rebootstrap = False
        return response

    async def _try(
        self, nodes: list[int], names: list[str] | None, create: bool, until: float, situation: Situation
    ) -> tuple[MetadataResponse | None, list[tuple[BrokerNode, KafkaError]]]:
        async def send(node_id: int) -> MetadataResponse:
            timeout = min(until - _now(), self._config.request_timeout)
            return await self._request_from(self._client.pool.node(node_id), names, create, timeout)

        def final(error: KafkaError) -> bool:
            return classify(error, situation) is Action.STOP

        response, failures = await first_response(nodes, send, final)
        return response, [(self._client.pool.node(node_id), error) for node_id, error in failures]

    async def _request_from(
        self, node: BrokerNode, names: list[str] | None, create: bool, timeout: float
    ) -> MetadataResponse:
        until = _now() + timeout
        connection = await self._client.pool.connection(node.id, MAIN, timeout)
        versions = connection.versions
        version = versions.pick(MetadataRequest)
        # Leave out invalid names, or the valid ones wouldn't be found either: brokers before 0.10 return the error for
        # every topic in the request, and a name with a lone surrogate can't be encoded.
        invalid = [name for name in names or () if not is_topic_name(name)]
        if invalid and names is not None:
            names = [name for name in names if name not in invalid]
        request = metadata_request(names, create, version)
        # The dial may have used up some of the time.
        left = max(until - _now(), 0)
        response = await connection.send(request, timeout=left, deadline=until, version=version)
        self._client.checker.check(request, response, version, node.id)
        response.topics += [
            MetadataResponseTopic(name=name, error_code=ErrorCode.INVALID_TOPIC_EXCEPTION) for name in invalid
        ]
        self.versions = versions
        if response.error_code:
            code = ErrorCode(response.error_code)
            if classify(code, _REFRESH) is Action.REBOOTSTRAP:
                self._rebootstrap = True
            raise error_for(code, f"Metadata to {node}")
        # If such a response were applied, the client would have no broker left to ask. But 0.8 never lists brokers
        # until the first topic exists, and it creates a topic when a request names it. Until then the bootstrap
        # addresses stay in use.
        if not response.brokers and version:
            raise BrokerConnectionError(f"{node} lists no brokers (it may be starting)")
        return response

    # --- Waiting ---

    async def _await_topics(self, names: list[str], create: bool) -> None:
        unknown = self._unknown(names)
        if create:
            self._create.update(unknown)
        # If other calls are already waiting for the topic, join them: a thousand sends to a topic that doesn't exist
        # must neither cause a thousand requests nor restart the count of responses each time.
        fresh = [name for name in unknown if self._wanted[name] == 1]
        for name in fresh:
            # The first call forgets earlier results: the topic may have been created since an earlier call failed.
            self._errors.pop(name, None)
            self._missing.pop(name, None)
        self._new.update(fresh)
        self._wake.set()
        if len(fresh) < len(unknown):
            self.invalidate("more calls wait for topics")
        while unknown:
            await self._wait_for_refresh()
            unknown = self._unknown(names)
            for name in unknown:
                self._check(name, create)
            # The topics may still be found, so ask again.
            if unknown:
                self.invalidate(f"topics are still unknown: {unknown[:3]}")

    def _check(self, name: str, create: bool) -> None:
        """Raise if requesting the topic again cannot succeed.

        ``create`` says whether the request may create the topic.
        """
        code = ErrorCode(self._errors.get(name, 0))
        fails = classify(code, _REFRESH) is Action.FAIL
        if fails or self._missing[name] >= UNKNOWN_LIMIT:
            # This fails all waiting calls, and the next caller may not allow its creation.
            self._create.discard(name)
            # The broker's error is the same whether this client isn't allowed to create the topic or to describe it.
            refused = create and code.policy & Policy.AUTHORIZATION
            detail = "if the topic does not exist yet, it needs CREATE too" if refused else None
            raise error_for(
                code, f"topic {name!r}", detail, Asked(MetadataRequest.api_key, name, principal=self._config.principal)
            )

    def _unknown(self, names: Iterable[str]) -> list[str]:
        return [name for name in dict.fromkeys(names) if name not in self.snapshot.topics]

    def _nonexistent(self, names: list[str]) -> KafkaError | None:
        """Return the error for a topic that doesn't exist according to the last response, for calls whose deadline is
        too short to ask again."""
        for name in self._unknown(names):
            error = error_for(self._errors.get(name, ErrorCode.NONE), f"topic {name!r}")
            if self._last_error is None and isinstance(error, UnknownTopicError):
                return error
        return None

    def _deadline_text(self, names: list[str], timeout: float) -> str:
        codes = {name: ErrorCode(self._errors[name]).name for name in names if name in self._errors}
        last = self._last_error or codes or "no response yet"
        return f"topics {names} were not found in {timeout:.3g} s; last: {last}"

    async def _wait_for_refresh(self) -> None:
        if self._close_error is not None:
            raise copied(self._close_error)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            await waiter
        finally:
            self._waiters.pop(waiter, None)
        if self._close_error is not None:
            raise copied(self._close_error)

    def _notify(self) -> None:
        for waiter in self._waiters:
            # The waiter is already done if its call was cancelled in this loop iteration.
            if not waiter.done():
                waiter.set_result(None)


def metadata_request(names: list[str] | None, create: bool, version: int) -> MetadataRequest:
    """Return the request as that version encodes it. ``names`` is None for all topics."""
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    if version == 0 and topics is None:
        # An empty list means all topics in version 0.
        topics = []
    # In versions without the field, leave it at its default, true, or the encoder refuses the request.
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create or version < _NO_CREATE_FLAG)


def definitive(failures: Failures) -> bool:
    """Whether retrying is pointless: every address failed in a way that a retry doesn't change."""
    if any(isinstance(error, ConfigurationError) for _, error in failures):
        return True
    return all(classify(error, _STARTING) in {Action.FAIL, Action.STOP} for _, error in failures)


def bootstrap_error(failures: Failures, attempts: int, elapsed: float) -> BrokerConnectionError | ConfigurationError:
    """Return one error that lists every address and its error.

    It is a NotKafkaError or AuthenticationError if all addresses failed that way, otherwise a BootstrapError. An error
    in the options, such as a certificate that cannot be read, has nothing to do with the addresses and is returned as
    it is.
    """
    for _, error in failures:
        if isinstance(error, ConfigurationError):
            return copied(error)
    kind: type[BrokerConnectionError] = BootstrapError
    # Use a specific error only if all failures agree. With mixed errors, one address may be mistyped while the cluster
    # at the other addresses is just down.
    for candidate in (NotKafkaError, AuthenticationError):
        if all(isinstance(error, candidate) for _, error in failures):
            kind = candidate
    tried = f" after {attempts} attempts in {elapsed:.3g} s" if attempts > 1 else ""
    each = "; ".join(f"{node}: {error}" for node, error in failures)
    if kind is AuthenticationError:
        check = "; check the credentials and certificates"
    elif all(isinstance(error, NoTokenError) for _, error in failures):
        # The addresses are right, and the error already says what's wrong.
        check = ""
    else:
        check = "; check bootstrap_servers and security_protocol"
    error = kind(f"no bootstrap address could be used{tried}: {each}{check}")
    # The traceback shows one of the failures; the message lists them all.
    error.__cause__ = failures[-1][1]
    return error


def _now() -> float:
    return asyncio.get_running_loop().time()

"""The API of this layer, on which producer, consumer, group and ``Client`` stand. See the package for the theory."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from aiokproto.application.async_context import AsyncContext
from aiokproto.application.gates import Home, Obstacle, Use, refuse
from aiokproto.authorization import Asked
from aiokproto.cluster.answers import AnswerChecker
from aiokproto.cluster.backoff import Backoff
from aiokproto.cluster.coordinators import CoordinatorCache, CoordinatorKind
from aiokproto.cluster.exposure import report_exposures
from aiokproto.cluster.metadata import MetadataUpdater
from aiokproto.cluster.pool import MAIN, Pool
from aiokproto.cluster.report import client_findings, client_stats
from aiokproto.cluster.request_driver import RequestDriver
from aiokproto.cluster.snapshot import ClusterSnapshot, NodeEndpoint, TopicInfo
from aiokproto.cluster.telemetry import TelemetryReporter
from aiokproto.codec.schema import Request, Response, Versions
from aiokproto.config import ClusterConfig
from aiokproto.errors import ClientClosedError, ConfigurationError, KafkaError, copied
from aiokproto.net.versions import BrokerVersions
from aiokproto.observe.health import Findings
from aiokproto.observe.metrics import MetricSource
from aiokproto.observe.observers import ClusterObserver
from aiokproto.observe.stats import ClientStats
from aiokproto.runtime import create_task, uniform
from aiokproto.texts import repr_of

if TYPE_CHECKING:
    from typing_extensions import Self, TypeVarTuple, Unpack

    Ts = TypeVarTuple("Ts")

R = TypeVar("R", bound=Response)
T = TypeVar("T")

_THREADS = 4
"""Threads for blocking work such as resolving host names."""

logger = logging.getLogger("aiokproto.cluster")


class ClusterClient(AsyncContext):
    """Connections to a cluster, its metadata, and requests to the brokers that serve them.

    Timeouts are in seconds. Cancelling a call ends that call only: its connection stays open, a late response is
    dropped, and work shared with other calls goes on.

    Every method but :meth:`close` raises ``ClientClosedError`` before :meth:`start` and after :meth:`close`; the
    ``AuthenticationError`` after a broker rejected this client; ``ClientClosedError`` with the cause after the metadata
    task failed or was cancelled; and ``ConfigurationError`` in another event loop.
    """

    def __init__(self, config: ClusterConfig, last_used: Callable[[str], float] | None = None) -> None:
        """Store the options; :meth:`start` connects.

        Args:
            config: The options.
            last_used: Returns when a topic was last used (s, the loop's clock). Asked of topics requested without
                ``keep``, and of those that do not exist any more.
        """
        self.config = config
        self.last_used = last_used or _never
        self._backoff = Backoff(config.retry_backoff, config.retry_backoff_max, uniform)
        # An executor starts its threads with the first work.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="aiokproto")
        self.observer = ClusterObserver(config.hooks)
        self._pool = Pool(config, self._threads, self._stop, self._rebootstrap, self.observer)
        checker = AnswerChecker(self._now)
        self._metadata = MetadataUpdater(config, self._pool, self._backoff, self._last_used, self.observer, checker)
        self._coordinators = CoordinatorCache()
        self._driver = RequestDriver(
            config, self._pool, self._metadata, self._coordinators, self._backoff, self.observer, checker
        )
        self._reporter: TelemetryReporter | None = None
        self._task: asyncio.Task[None] | None = None
        self.home = Home("client")
        # Never reset: a client that was closed cannot be started again, as its pool and threads are gone.
        self._started = False
        self._unstarted = ClientClosedError("the client is not started: use async with, or await start()")
        # None only while it is usable: one test in check() covers "not started", "closed" and "failed".
        self._closed: KafkaError | None = self._unstarted
        self._failure: KafkaError | None = None

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The newest cluster metadata. Immutable: every update is a new object."""
        return self._metadata.snapshot

    @property
    def versions_seen(self) -> BrokerVersions:
        """The versions of the broker that answered the last metadata request; after :meth:`start` there is one."""
        return self._metadata.versions

    def asked(self, request: type[Request[Any]], topic: str = "", group: str = "", transactional_id: str = "") -> Asked:
        """Return what the error about a refused request needs: its kind, the names in it, and who this client is."""
        return Asked(request.api_key, topic, group, transactional_id, self.config.principal)

    async def start(self, timeout: float | None = None) -> None:
        """Connect to the cluster through one of the bootstrap addresses. If it fails, the client is closed.

        Args:
            timeout: Seconds; by default ``bootstrap_resolve_timeout_ms``, but every address is tried at least once.

        Raises:
            BootstrapError: No address could be used. The text has every address with its cause.
            NotKafkaError: The same, if no address is a Kafka listener.
            AuthenticationError: The same, if authentication failed at every address.
            ClientClosedError: The client was started or closed before, or is closed meanwhile.
        """
        if self._started:
            raise ClientClosedError("a client can be started only once: create a new one")
        self._started = True
        self.home.begin()
        report_exposures(self.config)
        try:
            # In the caller's task: there is no metadata task yet that could race with it.
            await self._metadata.bootstrap(timeout)
            if self._closed is not None and self._closed is not self._unstarted:
                # Closed in the same loop iteration in which the first metadata arrived.
                raise copied(self._closed)
        # Also a cancellation: the connections that were made belong to nobody else.
        except BaseException:
            await self.close(0)
            raise
        # Only now, with metadata: no call can find an empty snapshot.
        self._closed = None
        self._task = create_task(self._metadata.run(), name="aiokproto metadata")
        self._task.add_done_callback(self._ended)

    async def close(self, timeout: float = 5.0) -> None:
        """Close all connections: pending calls raise ``ClientClosedError``, written requests are flushed.

        Returns within ``timeout`` seconds. It can be called at any time, and repeatedly. Cancelling it aborts all
        connections at once.

        Raises:
            ConfigurationError: The client was started in another event loop; only that one can close it.
        """
        self.check_loop()
        until = self._now() + timeout
        try:
            if self._reporter is not None:
                # First, while requests can be sent: the last metrics say how the client ended.
                await self._reporter.close(timeout if self._closed is None else 0.0)
        # A cancellation during the last push: close everything, without another wait.
        except BaseException:
            await self._disconnect(0.0)
            raise
        await self._disconnect(max(until - self._now(), 0.0))

    async def _disconnect(self, timeout: float) -> None:
        # Also without a start: a client that was closed first must not start afterwards.
        self._started = True
        # After a failure the cause stays: "closed" would hide it from calls that are still waiting.
        if self._closed is None or self._closed is self._unstarted:
            self._closed = ClientClosedError("the client is closed")
        reason = self._closed
        # First what waits, then the task, then lookups, then sockets: each step ends the users of the next, so none
        # sees a half-closed one.
        self._metadata.close(reason)
        try:
            if self._task is not None:
                self._task.cancel()
                # Not `await self._task`, which would raise its exception, or cancel it a second time together with this
                # call.
                await asyncio.wait((self._task,))
            await self._driver.close(reason)
            await self._pool.close(reason, timeout)
        finally:
            # In finally: when this call is cancelled during the flush nothing else would close the sockets.
            self._pool.drop(reason)
            # A thread inside getaddrinfo cannot be interrupted, and waiting for it would block the event loop.
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def topic(
        self, name: str, timeout: float | None = None, *, create: bool = False, keep: bool = True
    ) -> TopicInfo:
        """Return a topic's metadata, requesting it if necessary. From now on refreshes of :attr:`snapshot` include it.

        Args:
            name: The topic's name.
            timeout: Seconds; by default ``default_api_timeout_ms``.
            create: Allow brokers with ``auto.create.topics.enable`` to create it.
            keep: Track the topic until the client is closed; otherwise until it was neither requested nor used for
                ``metadata_max_idle_ms``.

        Raises:
            UnknownTopicError: Several responses in a row do not have it. (One is not enough: a new topic reaches the
                brokers' metadata caches one after the other.)
            InvalidTopicError, AuthorizationError: A broker rejects the name, or access to it; raised at once.
            DeadlineError: No metadata in time. The text has the last failure.
        """
        return (await self.topics([name], timeout, create=create, keep=keep))[name]

    async def topics(
        self,
        names: Iterable[str] | None = None,
        timeout: float | None = None,
        *,
        create: bool = False,
        keep: bool = True,
    ) -> dict[str, TopicInfo]:
        """Return several topics by name, as :meth:`topic`.

        None requests all topics that this client can describe, with every call. These are not tracked, and those with
        an error are left out.
        """
        self.check()
        names = names if names is None or isinstance(names, str | bytes) else list(names)
        if isinstance(names, str | bytes) or not all(isinstance(name, str) for name in names or ()):
            raise ConfigurationError(f"topics={names!r}: expected a list of topic names (str), or None for all")
        timeout = self.config.api_timeout if timeout is None else timeout
        return await self._metadata.topics(names, timeout, create, keep)

    def absent(self, names: Iterable[str]) -> frozenset[str]:
        """Return the topics that do not exist by the newest metadata, without a request: several responses in a row did
        not have them, and none has had them since."""
        return self._metadata.absent(names)

    def invalidate(self, reason: str, topics: Iterable[str] = ()) -> None:
        """Request a metadata refresh: the cause is NOT_LEADER_OR_FOLLOWER, a lost connection or the like.

        Calls until the refresh are served by the same one; refreshes are spaced by a backoff.

        Args:
            reason: For the log.
            topics: Topics to track again, should they have expired.
        """
        self._metadata.invalidate(reason, topics)

    def update_leader(
        self, topic: str, partition: int, leader: int, leader_epoch: int, endpoints: Iterable[NodeEndpoint] = ()
    ) -> bool:
        """Apply a new leader that a broker reported in a Produce or Fetch response (KIP-951).

        Args:
            topic: The topic.
            partition: The partition.
            leader: The node id in ``current_leader``.
            leader_epoch: The epoch in ``current_leader``.
            endpoints: The response's ``node_endpoints``: a new leader may be a broker that the metadata does not list
                yet, or lists with an old address.

        Returns:
            Whether the snapshot changed. An older leader epoch, or a broker without a known address, is ignored.
        """
        return self._metadata.update_leader(topic, partition, leader, leader_epoch, endpoints)

    async def wait_for_update(self, generation: int) -> ClusterSnapshot:
        """Wait until the snapshot is newer than ``generation``, and return it. The caller sets a deadline."""
        self.check()
        return await self._metadata.wait_for_update(generation)

    async def request(
        self,
        request: Request[R],
        *,
        node: int | None = None,
        key: str | None = None,
        timeout: float | None = None,
        max_version: int | None = None,
        hedged: bool = False,
        raw: bool = False,
    ) -> R:
        """Send a request to the broker that serves it; retry until the deadline.

        Retried, with backoff: lost connections, and responses with a retriable error code at the top level (or a
        "wrong broker" code in all items). Responses with other error codes are returned. After a lost connection the
        broker may have executed the first attempt, and executes the retry as well.

        Args:
            request: The request; its ``route`` determines the broker.
            node: Send it to this broker, whatever the route.
            key: The group or transactional id, if the request does not contain it.
            timeout: Seconds for all attempts; by default ``default_api_timeout_ms``.
            max_version: Highest version to use.
            hedged: Send to another broker as well when one is silent for a second. Only for requests that any broker
                serves, and that can be executed twice.
            raw: Return what the broker has sent, as to the application; otherwise it is made a response to the request
                first (:mod:`aiokproto.cluster.answers`).

        Raises:
            DeadlineError: The text has the number of attempts and the last failure.
            UnsupportedVersionError: Client and broker have no version in common.
            EncodeError: The version cannot carry the request.
            DecodeError: The response is malformed.
            ConfigurationError: Neither the request nor the arguments determine the broker.
            BrokerError: The coordinator lookup failed with an error that is not retried (authorization, invalid group).
        """
        self.check()
        timeout = self.config.api_timeout if timeout is None else timeout
        return await self._driver.request(
            request, node=node, key=key, timeout=timeout, max_version=max_version, hedged=hedged, raw=raw
        )

    async def send(
        self,
        request: Request[R],
        node: int,
        *,
        timeout: float | None = None,
        max_version: int | None = None,
        channel: str = MAIN,
    ) -> R:
        """Make one attempt on one broker. Nothing is retried, and error codes are left to the caller.

        If a connection is open, the request is written before this coroutine first suspends, so requests of one task
        are in order.

        Args:
            request: The request.
            node: The broker's id.
            timeout: Seconds for everything. By default ``request_timeout_ms`` to connect and for the response; a
                throttle time (KIP-219) is added to it.
            max_version: Highest version to use.
            channel: Each channel is a separate connection: ``"main"``, ``"fetch"``, ``"group"``, or any other name.
                Responses on one connection are in order, so a request whose response the broker delays (a
                long-polling Fetch, JoinGroup) also delays those behind it.

        Raises:
            BrokerConnectionError: No connection, or it was lost with the request in flight. Names broker and API.
            DeadlineError: No response in time.
            UnsupportedVersionError, EncodeError, DecodeError: As for :meth:`request`.
        """
        self.check()
        return await self._driver.send(request, node, timeout, max_version, channel)

    def send_nowait(
        self,
        request: Request[R],
        node: int,
        on_response: Callable[[R | KafkaError], None],
        *,
        timeout: float | None = None,
        max_version: int | None = None,
    ) -> bool:
        """Send over an open connection, and pass the response to a callback: :meth:`send` without a waiting task.

        The request is written before this returns, so requests are in order. It cannot be cancelled. A lost connection
        does not refresh the metadata: the callback calls :meth:`invalidate`.

        Args:
            request: The request.
            node: The broker's id.
            on_response: Called once, from the loop, with the response or with an error that :meth:`send` would raise
                after sending. It must not raise.
            timeout: Seconds for the response once the request is written (after a throttle time, KIP-219); by default
                ``request_timeout_ms``.
            max_version: Highest version to use.

        Returns:
            False if there is no open connection, and nothing was sent; :meth:`version` opens one.

        Raises:
            BrokerConnectionError, UnsupportedVersionError, EncodeError: As :meth:`send`. The callback is not called.
        """
        self.check()
        return self._driver.send_nowait(request, node, on_response, timeout, max_version)

    async def send_oneway(
        self, request: Request[Any], node: int, *, timeout: float | None = None, max_version: int | None = None
    ) -> None:
        """Send a request that has no response (Produce with ``acks=0``).

        Returns once the socket's write buffer is below its high-water mark. Raises as :meth:`send`.
        """
        self.check()
        await self._driver.send_oneway(request, node, timeout, max_version)

    async def version(
        self,
        request_type: type[Request[Any]],
        node: int,
        *,
        max_version: int | None = None,
        channel: str = MAIN,
        timeout: float | None = None,
    ) -> int:
        """Return the version that a request to a broker would have. Otherwise as :meth:`broker_versions`."""
        self.check()
        return (await self._driver.versions(node, channel, timeout)).pick(request_type, max_version)

    async def versions(self, node: int, *, channel: str = MAIN, timeout: float | None = None) -> Mapping[int, Versions]:
        """Return a broker's version ranges by ApiKey. Otherwise as :meth:`broker_versions`."""
        self.check()
        return (await self._driver.versions(node, channel, timeout)).ranges

    async def broker_versions(self, node: int, *, channel: str = MAIN, timeout: float | None = None) -> BrokerVersions:
        """Return a broker's versions, connecting if necessary. Raises as :meth:`send`.

        Args:
            node: The broker's id.
            channel: As for :meth:`send`.
            timeout: Seconds; at most, and by default, ``request_timeout_ms``.
        """
        self.check()
        return await self._driver.versions(node, channel, timeout)

    def open_versions(self, node: int) -> BrokerVersions | None:
        """Return the versions of a broker's open connection, an object of each connection; None without one."""
        return self._driver.open_versions(node)

    async def feature(self, name: str, node: int) -> int:
        """Return the level of a finalized feature (KIP-584), 0 if a broker has not reported it.

        As of the ApiVersions exchange of the broker's connection. Connects if necessary. Raises as :meth:`send`.
        """
        self.check()
        return (await self._driver.versions(node, MAIN)).features.get(name, 0)

    async def coordinator(self, kind: CoordinatorKind, key: str, timeout: float | None = None) -> int:
        """Return the node id of the coordinator of a group, transactional id or share partition; cached.

        Raises:
            BrokerError: The lookup failed with an error that is not retried (authorization, invalid group id).
            DeadlineError: Not found in time.
        """
        self.check()
        return await self._driver.coordinator(kind, key, self.config.api_timeout if timeout is None else timeout)

    def coordinator_failure(self, kind: CoordinatorKind, key: str) -> str:
        """Return why a coordinator was not found yet, or cannot be reached; empty if nothing has failed."""
        return self._driver.coordinator_failure(kind, key)

    def push_metrics(self, source: MetricSource) -> None:
        """Push the metrics of ``source`` to a broker from now on, if the brokers subscribe to any (KIP-714).

        Without effect if ``enable_metrics_push`` is off.
        """
        if self.config.metrics_push and self._reporter is None:
            self._reporter = TelemetryReporter(self, source)
            self._reporter.start()

    def some_broker(self) -> int:
        """Return the id of a broker that will probably respond soon."""
        return self._pool.by_preference()[0]

    def stats(self) -> ClientStats:
        """Return the statistics. No I/O."""
        instance_id = "" if self._reporter is None else self._reporter.client_instance_id
        return client_stats(self.config, self._pool, self._metadata, self.observer, instance_id, self._now())

    def findings(self) -> Findings:
        """Return what is wrong with connections and metadata. No I/O."""
        ended = self._closed is not self._unstarted
        return client_findings(self.config, self._pool, self._metadata, self._closed, self._now(), ended=ended)

    def _now(self) -> float:
        return 0.0 if self.home.loop is None else self.home.loop.time()

    def run_in_thread(self, function: Callable[[Unpack[Ts]], T], *args: Unpack[Ts]) -> asyncio.Future[T]:
        """Run a blocking function in one of the client's threads.

        The loop's default executor is not used, as the application may have filled it. Cancelling stops the wait, and
        the function if it has not started.
        """
        self.check()
        return asyncio.get_running_loop().run_in_executor(self._threads, function, *args)

    def forget_coordinator(self, kind: CoordinatorKind, key: str) -> None:
        """Drop a coordinator from the cache: call it after NOT_COORDINATOR, and when the broker cannot be reached."""
        self._coordinators.forget(kind, key)

    def disconnect(self, node: int, channel: str) -> None:
        """Close a connection at once.

        For a connection on which the broker still holds back a request that was given up, and all responses behind it.
        Other requests in flight on it raise ``BrokerConnectionError``; the next request connects again.
        """
        self._pool.disconnect(node, channel)

    def backoff(self, attempt: int) -> float:
        """Return the seconds to wait after ``attempt`` failed attempts (from 1)."""
        return self._backoff.delay(attempt)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def _leave(self, error: BaseException | None) -> None:
        await self.close()

    def has_logged(self, error: BaseException) -> bool:
        """Whether it is the error that has ended this client, or a copy: then it is in the log, and only once."""
        failure = self._failure
        return failure is not None and type(error) is type(failure) and str(error) == str(failure)

    def check(self) -> None:
        """Raise if the client cannot be used here; every other method calls this first.

        Raises:
            ConfigurationError: The running event loop is not the one the client was started in.
            KafkaError: The client is not started, is closed, or has failed (see the class).
        """
        # Runs for each request, so the usual case comes first.
        if self._closed is None and asyncio._get_running_loop() is self.home.loop:
            return
        self.check_loop()
        if self._closed is not None:
            raise copied(self._closed)

    def check_loop(self) -> None:
        """Raise ConfigurationError unless the running event loop is the one the client was started in."""
        self.home.check()

    def admit(self, use: Use) -> None:
        """Raise if something refuses a use of the client."""
        if use.obstacles:
            self.home.check()
        if self._closed is not None:
            known = self._closed is self._unstarted
            refuse(use, Obstacle.NOT_STARTED if known else Obstacle.CLOSED, copied(self._closed))

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Stop the client: its metadata task has ended. After :meth:`close` this has no effect."""
        cause = asyncio.CancelledError() if task.cancelled() else task.exception()
        # Its own text names the cause already.
        if isinstance(cause, KafkaError):
            self._stop(cause)
        else:
            end = "was cancelled" if task.cancelled() else f"failed: {repr_of(cause)}"
            error = ClientClosedError(f"the client's metadata task {end}")
            error.__cause__ = cause
            # The traceback of a CancelledError does not show who cancelled.
            self._stop(error, cause if isinstance(cause, Exception) else None)

    def _last_used(self, topic: str) -> float:
        # Read for each call: a consumer is made after its cluster.
        return self.last_used(topic)

    def _rebootstrap(self, reason: str) -> None:
        # Made after the pool, which needs this.
        self._metadata.rebootstrap(reason)

    def _stop(self, error: KafkaError, bug: Exception | None = None) -> None:
        """Close because of an error: pending calls raise it, and every later one.

        Args:
            error: The error.
            bug: What is logged with its traceback. Not the cause of any other error, which can be the application's,
                with a secret in its text.
        """
        # The first cause counts: what follows (every connection lost) is its consequence.
        if self._closed is not None:
            return
        logger.error("the client has failed: %s", error, exc_info=bug)
        # Set before the parts fail: a callback that they run may call in here.
        self._closed = self._failure = error
        self._metadata.close(error)
        self._driver.fail(error)
        self._pool.fail(error)
        if self._task is not None:
            self._task.cancel()


def _never(topic: str) -> float:
    """Default for ``last_used``: topics are only requested, never used."""
    return -math.inf

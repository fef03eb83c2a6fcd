"""The cluster client that producer, consumer, group and ``Client`` are built on: its life cycle, and its requests.

:meth:`ClusterClient.request` is one call that retries until its deadline: it looks up the brokers
(:mod:`~aiokproto.cluster.broker_lookup`), divides the request among them, and joins their responses
(:mod:`~aiokproto.cluster.division`).

* Every attempt starts with the lookup: a retriable error usually means that the broker was the wrong one.
* A request for one broker is retried here. A request for several becomes several calls of ``request``, each with its
  own retries until the common deadline, so a slow broker delays only its own part.
* Only ``BrokerConnectionError``, ``DeadlineError`` and retriable error codes for the whole response are retried;
  :func:`~aiokproto.failures.classify` decides which action follows. Items with NOT_LEADER_OR_FOLLOWER or
  NOT_COORDINATOR inside an otherwise good response are sent again as a separate part.
* If a connection is lost, the broker may have executed the request. Callers that can't repeat a request use ``send``.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from aiokproto.application.async_context import AsyncContext
from aiokproto.application.gates import Home, Obstacle, Use, refuse
from aiokproto.authorization import Asked
from aiokproto.cluster.answers import ANSWERS, AnswerChecker
from aiokproto.cluster.backoff import Backoff
from aiokproto.cluster.broker_lookup import BrokerLookup, Parts, RetryState
from aiokproto.cluster.coordinators import (
    CoordinatorCache,
    CoordinatorKind,
    find_coordinator_request,
    found_coordinator,
)
from aiokproto.cluster.division import (
    COORDINATED,
    error_response,
    join,
    last_version_by_name,
    response_error,
    take_misrouted,
)
from aiokproto.cluster.exposure import report_exposures
from aiokproto.cluster.hedge import first_response
from aiokproto.cluster.metadata import MetadataUpdater
from aiokproto.cluster.pool import MAIN, Pool
from aiokproto.cluster.report import client_findings, client_stats
from aiokproto.cluster.single_flight import SingleFlight
from aiokproto.cluster.snapshot import BrokerNode, ClusterSnapshot, TopicInfo
from aiokproto.cluster.telemetry import TelemetryReporter
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import Request, Response, Route
from aiokproto.config import ClusterConfig
from aiokproto.errors import (
    BrokerConnectionError,
    BrokerError,
    ClientClosedError,
    ConfigurationError,
    DeadlineError,
    EncodeError,
    KafkaError,
    PartialResponseError,
    copied,
    error_for,
)
from aiokproto.failures import Action, Situation, classify, find_row
from aiokproto.net.connection import Connection
from aiokproto.net.versions import BrokerVersions
from aiokproto.observe.health import Findings
from aiokproto.observe.metrics import MetricSource
from aiokproto.observe.observers import ClusterObserver
from aiokproto.observe.stats import ClientStats
from aiokproto.runtime import create_task, uniform
from aiokproto.texts import counted, repr_of

if TYPE_CHECKING:
    from typing_extensions import Self, TypeVarTuple, Unpack

    Ts = TypeVarTuple("Ts")

R = TypeVar("R", bound=Response)
T = TypeVar("T")

_THREADS = 4
"""Threads for blocking work such as resolving host names."""

_FINDING = Situation(FindCoordinatorRequest.api_key)
_RETRIED = {Action.BACKOFF, Action.REFRESH_METADATA, Action.FIND_COORDINATOR}

_CALLER_ERRORS = (ClientClosedError, ConfigurationError, EncodeError)
"""Errors that the caller caused, not a broker. They end the whole call, whatever the other parts returned."""

logger = logging.getLogger("aiokproto.cluster")


class ClusterClient(AsyncContext):
    """Connections to a cluster, its metadata, and requests to the brokers that serve them.

    Timeouts are in seconds. Cancelling a call ends that call only: its connection stays open, a late response is
    dropped, and work shared with other calls goes on.

    ``send_nowait`` and every coroutine except :meth:`close` raise ``ClientClosedError`` before :meth:`start` and after
    :meth:`close`. After a broker rejected this client they raise its ``AuthenticationError``; after the metadata task
    failed or was cancelled, ``ClientClosedError`` with the cause; and in another event loop, ``ConfigurationError``.

    Attributes:
        config: The options.
        metadata: Refreshes the cluster metadata.
        pool: The connections.
        coordinators: The cache of coordinators.
        backoff: The pauses between attempts (``retry_backoff_ms``).
        checker: Checks responses against their requests.
        observer: Counts requests, connections and refreshes.
        threads: Runs blocking functions.
        home: The event loop, thread and process in which the client was started.
        last_used: Returns when a topic was last used (s, the loop's clock).
    """

    def __init__(self, config: ClusterConfig, last_used: Callable[[str], float] | None = None) -> None:
        """Store the options; :meth:`start` connects.

        Args:
            config: The options.
            last_used: Returns when a topic was last used (s, the loop's clock). Called for topics requested without
                ``keep``, and for topics that no longer exist.
        """
        self.config = config
        # A consumer is created after its cluster client, and then replaces this attribute.
        self.last_used = last_used or _never
        self.backoff = Backoff(config.retry_backoff, config.retry_backoff_max, uniform)
        # The executor starts its threads when the first work item is submitted.
        self.threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="aiokproto")
        self.observer = ClusterObserver(config.hooks)
        self.checker = AnswerChecker(self._now)
        self.pool = Pool(self)
        self.metadata = MetadataUpdater(self)
        self.coordinators = CoordinatorCache()
        self._broker_lookup = BrokerLookup(self)
        self._coordinator_tasks: SingleFlight[tuple[CoordinatorKind, str], int] = SingleFlight()
        # The state of each coordinator lookup in progress. Most calls that wait for a lookup time out before it does,
        # and report its last failure from here.
        self._coordinator_retries: dict[tuple[CoordinatorKind, str], RetryState] = {}
        self._reporter: TelemetryReporter | None = None
        self._task: asyncio.Task[None] | None = None
        self.home = Home("client")
        # Never reset: a closed client can't be started again, because its pool and threads are gone.
        self._started = False
        self._unstarted = ClientClosedError("the client is not started: use async with, or await start()")
        # None only while the client is usable, so one test in check() covers "not started", "closed" and "failed".
        self._close_error: KafkaError | None = self._unstarted
        self._failure: KafkaError | None = None

    # --- Start and end ---

    async def start(self, timeout: float | None = None) -> None:
        """Connect to the cluster through one of the bootstrap addresses. If it fails, the client is closed.

        Args:
            timeout: Seconds; by default ``bootstrap_resolve_timeout_ms``, but every address is tried at least once.

        Raises:
            BootstrapError: No address could be used. The message lists every address and its error.
            NotKafkaError: No address is a Kafka listener. The message lists the same.
            AuthenticationError: Authentication failed at every address. The message lists the same.
            ClientClosedError: The client was already started or closed, or it's closed during the start.
        """
        if self._started:
            raise ClientClosedError("a client can be started only once: create a new one")
        self._started = True
        self.home.enter()
        report_exposures(self.config)
        try:
            # This runs in the caller's task: there is no metadata task yet that could race with it.
            await self.metadata.bootstrap(timeout)
            if self._close_error is not None and self._close_error is not self._unstarted:
                # The client was closed in the same loop iteration in which the first metadata arrived.
                raise copied(self._close_error)
        # BaseException includes a cancellation, after which nothing else would close the open connections.
        except BaseException:
            await self.close(0)
            raise
        # The client is usable only now that it has metadata, so no call finds an empty snapshot.
        self._close_error = None
        self._task = create_task(self.metadata.run(), name="aiokproto metadata")
        self._task.add_done_callback(self._metadata_task_ended)

    async def close(self, timeout: float = 5.0) -> None:
        """Close all connections. Pending calls raise ``ClientClosedError``; requests that were written are flushed.

        Returns within ``timeout`` seconds. It can be called at any time, and repeatedly. Cancelling it aborts all
        connections at once.

        Raises:
            ConfigurationError: The client was started in another event loop; only that one can close it.
        """
        self.check_loop()
        until = self._now() + timeout
        try:
            if self._reporter is not None:
                # Close the reporter first, while requests can still be sent: the last metrics say how the client ended.
                await self._reporter.close(timeout if self._close_error is None else 0.0)
        # If the last push is cancelled, close everything without waiting again.
        except BaseException:
            await self._disconnect(0.0)
            raise
        await self._disconnect(max(until - self._now(), 0.0))

    async def _disconnect(self, timeout: float) -> None:
        # Set it even if the client was never started: a closed client must not start later.
        self._started = True
        # Keep the cause of a failure: "closed" would hide it from calls that are still waiting.
        if self._close_error is None or self._close_error is self._unstarted:
            self._close_error = ClientClosedError("the client is closed")
        reason = self._close_error
        # End the waiting calls first, then the task, then lookups, then sockets. Each step ends the users of what the
        # next one closes, so none of them sees a half-closed client.
        self.metadata.close(reason)
        try:
            if self._task is not None:
                self._task.cancel()
                # `await self._task` would raise its exception, or cancel it a second time together with this call.
                await asyncio.wait((self._task,))
            self._coordinator_tasks.close(reason)
            await self._coordinator_tasks.wait_closed()
            await self.pool.close(reason, timeout)
        finally:
            # If this call is cancelled during the flush, nothing else closes the sockets.
            self.pool.drop(reason)
            # A thread inside getaddrinfo can't be interrupted, and waiting for it would block the event loop.
            self.threads.shutdown(wait=False, cancel_futures=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def _leave(self, error: BaseException | None) -> None:
        await self.close()

    def fail(self, error: KafkaError, bug: Exception | None = None) -> None:
        """Close because of an error: pending calls raise it, and so does every later call.

        Args:
            error: The error.
            bug: An exception to log with its traceback, if it's a bug. The log includes its chain of causes, so don't
                pass an exception that was caused by an error of the application, whose message may contain a secret.
        """
        # The first error counts: what follows (every connection is lost) is its consequence.
        if self._close_error is not None:
            return
        logger.error("the client has failed: %s", error, exc_info=bug)
        # Set it before failing the parts: their callbacks may call the client.
        self._close_error = self._failure = error
        self.metadata.close(error)
        self._coordinator_tasks.close(error)
        self.pool.fail(error)
        if self._task is not None:
            self._task.cancel()

    def _metadata_task_ended(self, task: asyncio.Task[None]) -> None:
        """Fail the client. After :meth:`close` this has no effect."""
        cause = asyncio.CancelledError() if task.cancelled() else task.exception()
        # A KafkaError's message already names the cause.
        if isinstance(cause, KafkaError):
            self.fail(cause)
        else:
            end = "was cancelled" if task.cancelled() else f"failed: {repr_of(cause)}"
            error = ClientClosedError(f"the client's metadata task {end}")
            error.__cause__ = cause
            # The traceback of a CancelledError doesn't show where the cancellation came from.
            self.fail(error, cause if isinstance(cause, Exception) else None)

    def has_logged(self, error: BaseException) -> bool:
        """Whether ``error`` is the error that ended this client, or a copy of it, and so is already in the log."""
        failure = self._failure
        return failure is not None and type(error) is type(failure) and str(error) == str(failure)

    # --- Whether the client can be used ---

    def check(self) -> None:
        """Raise if the client can't be used here. Every call that needs a running client starts with this check.

        Raises:
            ConfigurationError: The running event loop is not the one the client was started in.
            KafkaError: The client is not started, is closed, or has failed (see the class).
        """
        # Test the normal case first: this runs for each request.
        if self._close_error is None and asyncio._get_running_loop() is self.home.loop:
            return
        self.check_loop()
        if self._close_error is not None:
            raise copied(self._close_error)

    def check_loop(self) -> None:
        """Raise ConfigurationError unless the running event loop is the one the client was started in."""
        self.home.check()

    def admit(self, use: Use) -> None:
        """Raise if an obstacle prevents this use of the client."""
        if use.obstacles:
            self.home.check()
        if self._close_error is not None:
            unstarted = self._close_error is self._unstarted
            refuse(use, Obstacle.NOT_STARTED if unstarted else Obstacle.CLOSED, copied(self._close_error))

    # --- Metadata ---

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The newest cluster metadata. Immutable: every update is a new object."""
        return self.metadata.snapshot

    async def topic(
        self, name: str, timeout: float | None = None, *, create: bool = False, keep: bool = True
    ) -> TopicInfo:
        """Return a topic's metadata, requesting it if necessary.

        After that, refreshes of :attr:`snapshot` include the topic.

        Args:
            name: The topic's name.
            timeout: Seconds; by default ``default_api_timeout_ms``.
            create: Allow brokers with ``auto.create.topics.enable`` to create it.
            keep: Track the topic until the client is closed. If False, until it has been neither requested nor used for
                ``metadata_max_idle_ms``.

        Raises:
            UnknownTopicError: Several consecutive responses did not list it. (One is not enough: a new topic doesn't
                reach all brokers' metadata caches at once.)
            InvalidTopicError, AuthorizationError: A broker rejects the name, or denies access; raised at once.
            DeadlineError: No metadata in time. The message includes the last failure.
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
        """Return several topics by name, like :meth:`topic`.

        With None, every call requests all topics that this client can describe. These are not tracked, and topics with
        an error are left out.
        """
        self.check()
        names = names if names is None or isinstance(names, str | bytes) else list(names)
        if isinstance(names, str | bytes) or not all(isinstance(name, str) for name in names or ()):
            raise ConfigurationError(f"topics={names!r}: expected a list of topic names (str), or None for all")
        timeout = self.config.api_timeout if timeout is None else timeout
        return await self.metadata.topics(names, timeout, create, keep)

    # --- A request, with retries ---

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

        Lost connections are retried with a backoff, and so are responses with a retriable error code at the top level
        (or a "wrong broker" code in all items). Responses with other error codes are returned. If a connection is lost,
        the broker may already have executed the first attempt, and it executes the retry as well.

        Args:
            request: The request; its ``route`` determines the broker.
            node: Send it to this broker, whatever the route.
            key: The group or transactional id, if the request does not contain it.
            timeout: Seconds for all attempts; by default ``default_api_timeout_ms``.
            max_version: Highest version to use.
            hedged: Also send to another broker when one is silent for a second. Only for requests that any broker
                serves, and that can be executed twice.
            raw: Return what the broker sent, unchanged, for the application. By default the response is first made to
                match the request (:mod:`aiokproto.cluster.answers`).

        Raises:
            DeadlineError: The call timed out. The message includes the number of attempts and the last failure.
            UnsupportedVersionError: Client and broker have no version in common.
            EncodeError: The version cannot carry the request.
            DecodeError: The response is malformed.
            ConfigurationError: Neither the request nor the arguments determine the broker.
            BrokerError: The coordinator lookup failed with an error that is not retried (authorization, invalid group).
        """
        self.check()
        timeout = self.config.api_timeout if timeout is None else timeout
        until = _now() + timeout
        # The broker may take the request's own timeout_ms to execute it (CreateTopics, for example).
        attempt_timeout = max(self.config.request_timeout, getattr(request, "timeout_ms", 0) / 1000)
        if max_version is None:
            # A caller that passes a version knows the fields of that version.
            max_version = last_version_by_name(request)
        retry = RetryState()
        # Leave the ApiKey out of the situation: the caller gets the response and decides which of the API's errors are
        # final. Only routing errors are retried here.
        situation = Situation(coordinated=node is None and request.route in COORDINATED)

        async def attempt() -> R:
            parts: Parts[R] = (
                {node: request} if node is not None else await self._broker_lookup.parts(request, key, retry, until)
            )
            if len(parts) > 1:
                return await self._send_parts(request.route, parts, until, max_version, raw=raw)
            (target,) = parts
            # If the lookup for a single part failed, it has already raised.
            assert isinstance(target, int)

            async def send_to(target: int) -> R:
                retry.node = target
                return await self._attempt(request, target, attempt_timeout, until, max_version, raw=raw)

            if hedged:
                # `target` doesn't matter: any broker serves a hedged request.
                nodes = self.pool.by_preference(retry.avoid)
                hedged_response, failures = await first_response(nodes, send_to, lambda error: False)
                if hedged_response is None:
                    raise failures[-1][1]
                response = hedged_response
            else:
                response = await send_to(target)
            code = response_error(response)
            if classify(code, situation) in _RETRIED:
                detail = getattr(response, "error_message", None)
                raise error_for(code, f"{api_name(request.api_key)} to broker {target}", detail)
            # If the caller has chosen the broker, don't send a part to another broker.
            if node is not None or key is not None:
                return response
            part = take_misrouted(request, response, self.snapshot.topic_name)
            if part is None:
                return response
            return await self._send_misrouted(part, response, retry, until, max_version, raw=raw)

        return await self._retrying(api_name(request.api_key), situation, until, timeout, retry, attempt)

    async def _send_misrouted(
        self, part: Request[R], response: R, retry: RetryState, until: float, max_version: int | None, *, raw: bool
    ) -> R:
        """Send the part that this broker no longer leads or coordinates to another broker, and join both responses."""
        self.metadata.invalidate(f"{api_name(part.api_key)}: some of its partitions or groups have moved")
        # Forget all of them: looking each up again is cheaper than finding out which ones the response meant.
        for coordinator in retry.coordinators:
            self.coordinators.forget(*coordinator)
        # The coordinator or leader has only just moved, and brokers asked right away still name the old one.
        await asyncio.sleep(min(self.backoff.delay(1), max(until - _now(), 0.0)))
        left = max(until - _now(), 0.0)
        try:
            other = await self.request(part, timeout=left, max_version=max_version, raw=raw)
        except KafkaError as error:
            # Turn the error into error codes: the items that did succeed must reach the caller.
            refusal = None if isinstance(error, _CALLER_ERRORS) else error_response(part, error)
            if refusal is None:
                raise
            other = refusal
        return join([response, other], self.snapshot.topic_name)

    async def _send_parts(
        self, route: Route, parts: Parts[R], until: float, max_version: int | None, *, raw: bool
    ) -> R:
        """Send every part to its broker at the same time, and join the responses. All have the same deadline."""

        async def send_part(target: int | str | None, part: Request[R]) -> R:
            # Leaders and coordinators can move before the attempt, so their parts are routed again. A part of a request
            # for every broker is for this broker only.
            node = target if route is Route.EVERY and isinstance(target, int) else None
            left = max(until - _now(), 0.0)
            return await self.request(part, node=node, timeout=left, max_version=max_version, raw=raw)

        # Without return_exceptions, a failed part would leave the other parts running with nothing awaiting them. If
        # this call is cancelled, gather cancels all parts.
        results = await asyncio.gather(*(send_part(*item) for item in parts.items()), return_exceptions=True)
        failures: list[KafkaError] = []
        responses: list[R] = []
        unreported: list[KafkaError] = []
        for part, result in zip(parts.values(), results, strict=True):
            if not isinstance(result, BaseException):
                responses.append(result)
                continue
            if not isinstance(result, KafkaError) or isinstance(result, _CALLER_ERRORS):
                raise result
            failures.append(result)
            # A response to a request for every broker has no field for a broker's error. These errors are reported
            # below, together with the responses that did arrive.
            response = error_response(part, result) if route is not Route.EVERY else None
            if response is None:
                unreported.append(result)
            else:
                responses.append(response)
        # If all parts failed, no result would be lost by raising, and an exception says more than error codes.
        if len(failures) == len(parts):
            raise failures[0]
        joined = join(responses, self.snapshot.topic_name)
        if unreported:
            missing = "; ".join(str(error) for error in unreported)
            text = f"{len(unreported)} of {len(parts)} brokers did not respond: {missing}"
            raise PartialResponseError(text, joined, tuple(unreported))
        return joined

    async def _retrying(
        self,
        what: str,
        situation: Situation,
        until: float,
        timeout: float,
        retry: RetryState,
        attempt: Callable[[], Awaitable[T]],
    ) -> T:
        """Call ``attempt`` until it succeeds, its error isn't retried, or there's no time left for another attempt.

        This is where an error of a request refreshes the metadata (NOT_LEADER_OR_FOLLOWER, a lost connection) or makes
        the next attempt look its coordinator up again (NOT_COORDINATOR).
        """
        attempts = 0
        while True:
            attempts += 1
            try:
                return await attempt()
            except KafkaError as error:
                row = find_row(error, situation)
                if row.action not in _RETRIED:
                    raise
                pause = self.backoff.delay(attempts)
                # The deadline often cuts the last attempt short. The failure before that says more.
                late = isinstance(error, DeadlineError)
                retry.failure = retry.failure if late else str(error)
                # Raise now instead of sleeping first: there would be no time left for the next attempt.
                if _now() + pause >= until:
                    failures = f"{error}; before: {retry.failure}" if late and retry.failure else str(error)
                    raise DeadlineError(f"{what}: {_end(until, timeout, attempts)}; last: {failures}") from error
                logger.debug("%s: attempt %d failed, %s: %s", what, attempts, row.why, error)
                self.observer.retried(what, attempts, pause, error)
                if row.action is Action.REFRESH_METADATA:
                    self.metadata.invalidate(str(error))
                elif row.action is Action.FIND_COORDINATOR:
                    for coordinator in retry.coordinators:
                        self.coordinators.forget(*coordinator)
                # Avoid only the last broker, so attempts alternate between two brokers.
                retry.avoid = set() if retry.node is None else {retry.node}
            await asyncio.sleep(pause)

    # --- One attempt ---

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

        If a connection is open, the request is written before this coroutine first suspends, so the requests of a task
        stay in order.

        Args:
            request: The request.
            node: The broker's id.
            timeout: Seconds for everything. By default ``request_timeout_ms`` to connect and receive the response, plus
                any throttle time (KIP-219).
            max_version: Highest version to use.
            channel: Each channel is a separate connection: ``"main"``, ``"fetch"``, ``"group"``, or any other name.
                Responses on one connection are in order, so a request whose response the broker delays (a long-polling
                Fetch, JoinGroup) also delays the requests behind it.

        Raises:
            BrokerConnectionError: The connection failed, or was lost with the request in flight. The message names the
                broker and the API.
            DeadlineError: No response in time.
            UnsupportedVersionError, EncodeError, DecodeError: See :meth:`request`.
        """
        self.check()
        # If the caller doesn't set a timeout, throttling isn't limited: only the response has a deadline.
        if timeout is None:
            return await self._attempt(request, node, self.config.request_timeout, math.inf, max_version, channel)
        return await self._attempt(request, node, timeout, _now() + timeout, max_version, channel)

    async def _attempt(
        self,
        request: Request[R],
        node: int,
        timeout: float,
        deadline: float,
        max_version: int | None,
        channel: str = MAIN,
        *,
        raw: bool = False,
    ) -> R:
        """Make one attempt: ``timeout`` seconds to connect and get the response, ``deadline`` for everything.

        The response is checked against the request (``answers``), unless ``raw``.
        """
        try:
            # If a connection is open, there is no await on this path: the request is written before the caller first
            # suspends, which keeps the requests of one task in order.
            connection = self.pool.ready(node, channel)
            if connection is None:
                left = max(min(timeout, deadline - _now()), 0.0)
                connection, timeout = await self._connect(node, channel, left)
            version = connection.versions.pick(type(request), max_version)
            response = await connection.send(request, timeout=timeout, deadline=deadline, version=version)
        except BrokerConnectionError as error:
            # The broker may be gone or have moved. If it's only restarting, this costs one refresh.
            self.metadata.invalidate(str(error))
            raise
        if not raw:
            self.checker.check(request, response, version, node)
        return response

    def send_nowait(
        self,
        request: Request[R],
        node: int,
        on_response: Callable[[R | KafkaError], None],
        *,
        timeout: float | None = None,
        max_version: int | None = None,
    ) -> bool:
        """Send over an open connection, and pass the response to a callback.

        Like :meth:`send`, but no task has to wait.

        The request is written before this returns, so requests stay in order. It cannot be cancelled. A lost connection
        does not refresh the metadata: the callback has to call ``metadata.invalidate``.

        Args:
            request: The request.
            node: The broker's id.
            on_response: Called once, from the loop, with the response or with an error that :meth:`send` would raise
                after sending. It must not raise.
            timeout: Seconds for the response, counted from when the request is written, which may be after a throttle
                time (KIP-219). By default ``request_timeout_ms``.
            max_version: Highest version to use.

        Returns:
            False if nothing was sent because there is no open connection; :meth:`version` opens one.

        Raises:
            BrokerConnectionError, UnsupportedVersionError, EncodeError: See :meth:`send`. The callback is not called.
        """
        # Inlined check(), to save the call: every Produce request comes through here.
        if self._close_error is not None or asyncio._get_running_loop() is not self.home.loop:
            self.check()
        connection = self.pool.ready(node)
        if connection is None:
            return False
        if ANSWERS[request.api_key].missing is not None:
            on_response = partial(self._check_response, request, connection.versions, max_version, node, on_response)
        timeout = self.config.request_timeout if timeout is None else timeout
        connection.send_nowait(request, on_response, timeout=timeout, max_version=max_version)
        return True

    def _check_response(
        self,
        request: Request[R],
        versions: BrokerVersions,
        max_version: int | None,
        node: int,
        on_response: Callable[[R | KafkaError], None],
        result: R | KafkaError,
    ) -> None:
        if not isinstance(result, KafkaError):
            self.checker.check(request, result, versions.pick(type(request), max_version), node)
        on_response(result)

    async def send_oneway(
        self, request: Request[Any], node: int, *, timeout: float | None = None, max_version: int | None = None
    ) -> None:
        """Send a request that has no response (Produce with ``acks=0``).

        Returns once the socket's write buffer is below its high-water mark. Raises the same errors as :meth:`send`.
        """
        self.check()
        timeout = self.config.request_timeout if timeout is None else timeout
        try:
            connection = self.pool.ready(node)
            if connection is None:
                connection, timeout = await self._connect(node, MAIN, timeout)
            await connection.send_oneway(request, timeout=timeout, max_version=max_version)
        except BrokerConnectionError as error:
            self.metadata.invalidate(str(error))
            raise

    async def _connect(self, node: int, channel: str, timeout: float) -> tuple[Connection, float]:
        """Open a connection. Return it, and how many seconds of ``timeout`` are left."""
        until = _now() + timeout
        connection = await self.pool.connection(node, channel, timeout)
        return connection, max(until - _now(), 0.0)

    # --- Versions ---

    async def broker_versions(self, node: int, *, channel: str = MAIN, timeout: float | None = None) -> BrokerVersions:
        """Return the API versions and features that a broker reported on this connection, connecting if necessary.

        Raises the same errors as :meth:`send`.

        Args:
            node: The broker's id.
            channel: See :meth:`send`.
            timeout: Seconds; ``request_timeout_ms`` is the default and the maximum.
        """
        self.check()
        connection = self.pool.ready(node, channel)
        if connection is None:
            limit = self.config.request_timeout
            connection, _ = await self._connect(node, channel, limit if timeout is None else min(timeout, limit))
        return connection.versions

    async def version(
        self,
        request_type: type[Request[Any]],
        node: int,
        *,
        max_version: int | None = None,
        channel: str = MAIN,
        timeout: float | None = None,
    ) -> int:
        """Return the version that a request to a broker would use. Otherwise like :meth:`broker_versions`."""
        return (await self.broker_versions(node, channel=channel, timeout=timeout)).pick(request_type, max_version)

    # --- Coordinators ---

    async def coordinator(self, kind: CoordinatorKind, key: str, timeout: float | None = None) -> int:
        """Return the node id of the coordinator of a group, transactional id or share partition, cached if possible.

        Raises:
            BrokerError: The lookup failed with an error that is not retried (authorization, invalid group id).
            DeadlineError: Not found in time.
        """
        self.check()
        limit = self.config.api_timeout if timeout is None else timeout
        node = self.coordinators.get(kind, key)
        # A coordinator that has left the cluster can't be dialled, so look it up again.
        if node is not None and node in self.snapshot.brokers:
            return node

        def late() -> str:
            failure = self.coordinator_failure(kind, key)
            text = f"the coordinator of {kind.name.lower()} {key!r} was not found in {limit:.3g} s"
            return f"{text}; last failure: {failure}" if failure else text

        return await self._coordinator_tasks.run((kind, key), lambda: self._find_coordinator(kind, key), limit, late)

    def coordinator_failure(self, kind: CoordinatorKind, key: str) -> str:
        """Return why a coordinator hasn't been found yet or can't be reached; empty if nothing has failed."""
        if (retry := self._coordinator_retries.get((kind, key))) is not None:
            return retry.failure
        node = self.coordinators.get(kind, key)
        _, error = (0, None) if node is None else self.pool.failures(node)
        return "" if error is None else str(error)

    async def _find_coordinator(self, kind: CoordinatorKind, key: str) -> int:
        # The caller's timeout doesn't apply: other calls with more time may wait for the same lookup.
        timeout = self.config.api_timeout
        retry = self._coordinator_retries[kind, key] = RetryState()

        async def find_on(node: int) -> BrokerNode:
            # Pick the version first: since version 4 the key is in a different field.
            version = await self.version(FindCoordinatorRequest, node)
            response = await self.send(find_coordinator_request(kind, key, version), node, max_version=version)
            return found_coordinator(response, kind, key, self.config.principal)

        def final(error: KafkaError) -> bool:
            # If one broker returns an error code, the other brokers would return the same one now. The next attempt
            # still prefers another broker, since coordinators move.
            return isinstance(error, BrokerError) or classify(error, _FINDING) not in _RETRIED

        async def attempt() -> int:
            nodes = self.pool.by_preference(retry.avoid)
            retry.node = nodes[0]
            found, failures = await first_response(nodes, find_on, final)
            if found is None:
                raise failures[-1][1]
            # The metadata may not list the coordinator yet, and it can't be dialled without an address.
            self.metadata.add_broker(found)
            self.coordinators.put(kind, key, found.id)
            return found.id

        what = f"FindCoordinator for {kind.name.lower()} {key!r}"
        try:
            return await self._retrying(what, _FINDING, _now() + timeout, timeout, retry, attempt)
        finally:
            del self._coordinator_retries[kind, key]

    # --- Reports, and what the clients share ---

    def asked(self, request: type[Request[Any]], topic: str = "", group: str = "", transactional_id: str = "") -> Asked:
        """Describe a request for the error if it's refused: its API, the names in it, and this client's principal."""
        return Asked(request.api_key, topic, group, transactional_id, self.config.principal)

    def push_metrics(self, source: MetricSource) -> None:
        """Start pushing the metrics of ``source`` to a broker, if the brokers subscribe to any (KIP-714).

        Does nothing if ``enable_metrics_push`` is off.
        """
        if self.config.metrics_push and self._reporter is None:
            self._reporter = TelemetryReporter(self, source)
            self._reporter.start()

    def stats(self) -> ClientStats:
        """Return the statistics. No I/O."""
        instance_id = "" if self._reporter is None else self._reporter.client_instance_id
        return client_stats(self.config, self.pool, self.metadata, self.observer, instance_id, self._now())

    def findings(self) -> Findings:
        """Return what is wrong with connections and metadata. No I/O."""
        ended = self._close_error is not self._unstarted
        return client_findings(self.config, self.pool, self.metadata, self._close_error, self._now(), ended=ended)

    def run_in_thread(self, function: Callable[[Unpack[Ts]], T], *args: Unpack[Ts]) -> asyncio.Future[T]:
        """Run a blocking function in one of the client's threads.

        The loop's default executor is not used: the application may have filled it. Cancelling stops the wait, and the
        function if it has not started yet.
        """
        self.check()
        return asyncio.get_running_loop().run_in_executor(self.threads, function, *args)

    def _now(self) -> float:
        return 0.0 if self.home.loop is None else self.home.loop.time()


def _never(topic: str) -> float:
    """The default ``last_used``, for clients that only request topics and never use them."""
    return -math.inf


def _end(until: float, timeout: float, attempts: int) -> str:
    """Describe how a call ended that had ``timeout`` seconds, with its deadline at ``until``."""
    took, tried = max(_now() - until + timeout, 0.0), counted(attempts, "attempt")
    if took >= timeout:
        return f"timed out after {timeout:.3g} s ({tried})"
    return f"given up after {took:.3g} of {timeout:.3g} s ({tried}), as the next attempt would be too late"


def _now() -> float:
    return asyncio.get_running_loop().time()

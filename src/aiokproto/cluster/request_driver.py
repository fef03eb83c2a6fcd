"""Send requests: one attempt on one broker, or a call that retries until its deadline.

:meth:`RequestDriver.request` is one call: look up the brokers (:mod:`~aiokproto.cluster.broker_lookup`), divide the
request among them and join the responses (:mod:`~aiokproto.cluster.division`), and retry.

* Every attempt starts with the lookup, because a retriable error mostly means that the broker was the wrong one.
* A request for one broker retries here. One for several becomes several calls of ``request``, each with its own
  retries until the common deadline: a slow broker delays its own part only.
* Only ``BrokerConnectionError``, ``DeadlineError`` and retriable error codes for the whole response are retried; which
  action follows, :func:`~aiokproto.failures.classify` decides. Items with NOT_LEADER_OR_FOLLOWER or NOT_COORDINATOR
  inside an otherwise good response are sent again as a part of their own.
* After a lost connection the broker may have executed the request: a caller for whom that matters uses ``send``.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

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
from aiokproto.cluster.hedge import first_response
from aiokproto.cluster.metadata import MetadataUpdater
from aiokproto.cluster.pool import MAIN, Pool
from aiokproto.cluster.single_flight import SingleFlight
from aiokproto.cluster.snapshot import BrokerNode
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
    error_for,
)
from aiokproto.failures import Action, Situation, classify, find_row
from aiokproto.net.connection import Connection
from aiokproto.net.versions import BrokerVersions
from aiokproto.observe.observers import ClusterObserver
from aiokproto.texts import counted

_FINDING = Situation(FindCoordinatorRequest.api_key)
_RETRIED = {Action.BACKOFF, Action.REFRESH_METADATA, Action.FIND_COORDINATOR}

R = TypeVar("R", bound=Response)
T = TypeVar("T")

_CALLER_ERRORS = (ClientClosedError, ConfigurationError, EncodeError)
"""Errors caused by the caller, not by a broker: they end the whole call, whatever the other parts returned."""

logger = logging.getLogger("aiokproto.cluster")


class RequestDriver:
    """Implements the request methods of :class:`~aiokproto.cluster.ClusterClient`, which documents them."""

    def __init__(
        self,
        config: ClusterConfig,
        pool: Pool,
        metadata: MetadataUpdater,
        coordinators: CoordinatorCache,
        backoff: Backoff,
        observer: ClusterObserver,
        checker: AnswerChecker,
    ) -> None:
        self._checker = checker
        self._config = config
        self._observer = observer
        self._pool = pool
        self._metadata = metadata
        self._coordinators = coordinators
        self._backoff = backoff
        self._lookup = BrokerLookup(config, pool, metadata, self.coordinator)
        self._finding: SingleFlight[tuple[CoordinatorKind, str], int] = SingleFlight()
        # Of the lookups in progress, which have more time than most who wait for them.
        self._lookups: dict[tuple[CoordinatorKind, str], RetryState] = {}

    def fail(self, reason: KafkaError) -> None:
        """Fail the coordinator lookups in progress."""
        self._finding.close(reason)

    async def close(self, reason: KafkaError) -> None:
        """Fail the coordinator lookups in progress and wait until their tasks have ended."""
        self.fail(reason)
        await self._finding.wait_closed()

    # --- One attempt ---

    async def send(
        self, request: Request[R], node: int, timeout: float | None, max_version: int | None, channel: str = MAIN
    ) -> R:
        # Without a caller's limit a throttle may take what it takes: only the response has a deadline.
        if timeout is None:
            return await self._send(request, node, self._config.request_timeout, math.inf, max_version, channel)
        return await self._send(request, node, timeout, _now() + timeout, max_version, channel)

    async def _send(
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
        """Make one attempt: ``timeout`` (s) to connect and for the response, ``deadline`` for all of it.

        The response is one to the request (``answers``), unless ``raw``.
        """
        try:
            # No await on this path: the request is written before the caller first suspends, which keeps requests of
            # one task in order.
            connection = self._pool.ready(node, channel)
            if connection is None:
                left = max(min(timeout, deadline - _now()), 0.0)
                connection, timeout = await self._connect(node, channel, left)
            version = connection.versions.pick(type(request), max_version)
            response = await connection.send(request, timeout=timeout, deadline=deadline, version=version)
        except BrokerConnectionError as error:
            # The broker may be gone or have moved; for a broker that merely restarts it costs one refresh.
            self._metadata.invalidate(str(error))
            raise
        if not raw:
            self._checker.check(request, response, version, node)
        return response

    def send_nowait(
        self,
        request: Request[R],
        node: int,
        on_response: Callable[[R | KafkaError], None],
        timeout: float | None,
        max_version: int | None,
    ) -> bool:
        connection = self._pool.ready(node)
        if connection is None:
            return False
        if ANSWERS[request.api_key].missing is not None:
            on_response = partial(self._checked, request, connection.versions, max_version, node, on_response)
        timeout = self._config.request_timeout if timeout is None else timeout
        connection.send_nowait(request, on_response, timeout=timeout, max_version=max_version)
        return True

    def _checked(
        self,
        request: Request[R],
        versions: BrokerVersions,
        max_version: int | None,
        node: int,
        on_response: Callable[[R | KafkaError], None],
        result: R | KafkaError,
    ) -> None:
        if not isinstance(result, KafkaError):
            self._checker.check(request, result, versions.pick(type(request), max_version), node)
        on_response(result)

    async def send_oneway(
        self, request: Request[Any], node: int, timeout: float | None, max_version: int | None
    ) -> None:
        timeout = self._config.request_timeout if timeout is None else timeout
        try:
            connection = self._pool.ready(node)
            if connection is None:
                connection, timeout = await self._connect(node, MAIN, timeout)
            await connection.send_oneway(request, timeout=timeout, max_version=max_version)
        except BrokerConnectionError as error:
            self._metadata.invalidate(str(error))
            raise

    def open_versions(self, node: int) -> BrokerVersions | None:
        """Return the API versions that the broker reported on the open connection; None without one."""
        connection = self._pool.ready(node)
        return None if connection is None else connection.versions

    async def versions(self, node: int, channel: str = MAIN, timeout: float | None = None) -> BrokerVersions:
        """Return the broker's API versions, as it reported them on this connection."""
        connection = self._pool.ready(node, channel)
        if connection is None:
            limit = self._config.request_timeout
            connection, _ = await self._connect(node, channel, limit if timeout is None else min(timeout, limit))
        return connection.versions

    async def _connect(self, node: int, channel: str, timeout: float) -> tuple[Connection, float]:
        """Return a new connection, and the seconds left of ``timeout``."""
        until = _now() + timeout
        connection = await self._pool.connection(node, channel, timeout)
        return connection, max(until - _now(), 0.0)

    # --- With retries ---

    async def request(
        self,
        request: Request[R],
        *,
        node: int | None,
        key: str | None,
        timeout: float,
        max_version: int | None,
        hedged: bool = False,
        raw: bool = False,
    ) -> R:
        until = _now() + timeout
        # The broker may take the request's own timeout_ms to execute it (CreateTopics, for example).
        attempt_timeout = max(self._config.request_timeout, getattr(request, "timeout_ms", 0) / 1000)
        if max_version is None:
            # Only if the caller has not decided: whoever names a version knows its fields.
            max_version = last_version_by_name(request)
        retry = RetryState()
        # Without an ApiKey: which error of which API is final is the caller's business, as the response is returned.
        # Only routing errors are retried here.
        situation = Situation(coordinated=node is None and request.route in COORDINATED)

        async def attempt() -> R:
            parts: Parts[R] = (
                {node: request} if node is not None else await self._lookup.parts(request, key, retry, until)
            )
            if len(parts) > 1:
                return await self._send_parts(request.route, parts, until, max_version, raw=raw)
            (target,) = parts
            # A lookup that failed for a single part has raised.
            assert isinstance(target, int)

            async def send_to(target: int) -> R:
                retry.node = target
                return await self._send(request, target, attempt_timeout, until, max_version, raw=raw)

            if hedged:
                # By preference and without `target`: any broker serves a hedged request.
                nodes = self._pool.by_preference(retry.avoid)
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
            # The caller has chosen the broker: nothing is sent to another one.
            if node is not None or key is not None:
                return response
            part = take_misrouted(request, response, self._metadata.snapshot.topic_name)
            if part is None:
                return response
            return await self._send_misrouted(part, response, retry, until, max_version, raw=raw)

        return await self._retrying(api_name(request.api_key), situation, until, timeout, retry, attempt)

    async def _send_misrouted(
        self, part: Request[R], response: R, retry: RetryState, until: float, max_version: int | None, *, raw: bool
    ) -> R:
        """Send the part that this broker no longer leads or coordinates to another one; join both responses."""
        self._metadata.invalidate(f"{api_name(part.api_key)}: some of its partitions or groups have moved")
        # All, not only the moved one: which of them the response meant is not worth knowing, a lookup each is cheap.
        for coordinator in retry.coordinators:
            self._coordinators.forget(*coordinator)
        # The coordinator or leader has only just moved; asked at once, brokers would name the old one.
        await asyncio.sleep(min(self._backoff.delay(1), max(until - _now(), 0.0)))
        left = max(until - _now(), 0.0)
        try:
            other = await self.request(part, node=None, key=None, timeout=left, max_version=max_version, raw=raw)
        except KafkaError as error:
            # As error codes: the items that did succeed must reach the caller.
            refusal = None if isinstance(error, _CALLER_ERRORS) else error_response(part, error)
            if refusal is None:
                raise
            other = refusal
        return join([response, other], self._metadata.snapshot.topic_name)

    async def _send_parts(
        self, route: Route, parts: Parts[R], until: float, max_version: int | None, *, raw: bool
    ) -> R:
        """Send every part to its broker at the same time, and join the responses. All have the same deadline."""

        async def send_part(target: int | str | None, part: Request[R]) -> R:
            # Leaders and coordinators can move before the attempt, so those parts are routed again. A part for "every
            # broker" belongs to this one.
            node = target if route is Route.EVERY and isinstance(target, int) else None
            left = max(until - _now(), 0.0)
            return await self.request(part, node=node, key=None, timeout=left, max_version=max_version, raw=raw)

        # return_exceptions: one failed part must not leave the others running unobserved. When this call is cancelled
        # gather cancels them all.
        results = await asyncio.gather(*(send_part(*each) for each in parts.items()), return_exceptions=True)
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
            # For every broker the items are the brokers, which a response has no place for: reported below, with what
            # did arrive.
            response = error_response(part, result) if route is not Route.EVERY else None
            if response is None:
                unreported.append(result)
            else:
                responses.append(response)
        # Then there is nothing good to save, and an exception says more than codes.
        if len(failures) == len(parts):
            raise failures[0]
        joined = join(responses, self._metadata.snapshot.topic_name)
        if unreported:
            missing = "; ".join(str(error) for error in unreported)
            text = f"{len(unreported)} of {len(parts)} brokers did not respond: {missing}"
            raise PartialResponseError(text, joined, tuple(unreported))
        return joined

    async def coordinator(self, kind: CoordinatorKind, key: str, timeout: float) -> int:
        node = self._coordinators.get(kind, key)
        # A coordinator that has left the cluster cannot be dialled: look it up again.
        if node is not None and node in self._metadata.snapshot.brokers:
            return node

        def late() -> str:
            failure = self.coordinator_failure(kind, key)
            text = f"the coordinator of {kind.name.lower()} {key!r} was not found in {timeout:.3g} s"
            return f"{text}; last failure: {failure}" if failure else text

        return await self._finding.run((kind, key), lambda: self._find(kind, key), timeout, late)

    def coordinator_failure(self, kind: CoordinatorKind, key: str) -> str:
        if (lookup := self._lookups.get((kind, key))) is not None:
            return lookup.failure
        node = self._coordinators.get(kind, key)
        _, error = (0, None) if node is None else self._pool.failures(node)
        return "" if error is None else str(error)

    async def _find(self, kind: CoordinatorKind, key: str) -> int:
        # Not the caller's: others may be waiting for the same lookup, with more time.
        timeout = self._config.api_timeout
        retry = self._lookups[kind, key] = RetryState()

        async def find_on(node: int) -> BrokerNode:
            # Picked first, since the key is in another field from version 4 on.
            version = (await self.versions(node)).pick(FindCoordinatorRequest)
            response = await self.send(find_coordinator_request(kind, key, version), node, None, version)
            return found_coordinator(response, kind, key, self._config.principal)

        def final(error: KafkaError) -> bool:
            # An error code from one broker is what the others would return now; the next attempt prefers another
            # broker all the same, as coordinators move.
            return isinstance(error, BrokerError) or classify(error, _FINDING) not in _RETRIED

        async def attempt() -> int:
            nodes = self._pool.by_preference(retry.avoid)
            retry.node = nodes[0]
            found, failures = await first_response(nodes, find_on, final)
            if found is None:
                raise failures[-1][1]
            # Metadata may not list it yet, and without an address it could not be dialled.
            self._metadata.add_broker(found)
            self._coordinators.put(kind, key, found.id)
            return found.id

        what = f"FindCoordinator for {kind.name.lower()} {key!r}"
        try:
            return await self._retrying(what, _FINDING, _now() + timeout, timeout, retry, attempt)
        finally:
            del self._lookups[kind, key]

    async def _retrying(
        self,
        what: str,
        situation: Situation,
        until: float,
        timeout: float,
        retry: RetryState,
        attempt: Callable[[], Awaitable[T]],
    ) -> T:
        """Call ``attempt`` until it succeeds, fails with an error that is not retried, or the deadline is near.

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
                pause = self._backoff.delay(attempts)
                # The last attempt is often cut short by this deadline; the failure before it is the interesting one.
                late = isinstance(error, DeadlineError)
                retry.failure = retry.failure if late else str(error)
                # Raised now and not after the sleep: the attempt that would follow has no time left.
                if _now() + pause >= until:
                    failures = f"{error}; before: {retry.failure}" if late and retry.failure else str(error)
                    raise DeadlineError(f"{what}: {_end(until, timeout, attempts)}; last: {failures}") from error
                logger.debug("%s: attempt %d failed, %s: %s", what, attempts, row.why, error)
                self._observer.retried(what, attempts, pause, error)
                if row.action is Action.REFRESH_METADATA:
                    self._metadata.invalidate(str(error))
                elif row.action is Action.FIND_COORDINATOR:
                    for coordinator in retry.coordinators:
                        self._coordinators.forget(*coordinator)
                # Only the last one, so that with two brokers the attempts alternate.
                retry.avoid = set() if retry.node is None else {retry.node}
            await asyncio.sleep(pause)


def _end(until: float, timeout: float, attempts: int) -> str:
    """Return how a call ends that has ``timeout`` seconds ``until`` a time."""
    took, tried = max(_now() - until + timeout, 0.0), counted(attempts, "attempt")
    if took >= timeout:
        return f"timed out after {timeout:.3g} s ({tried})"
    return f"given up after {took:.3g} of {timeout:.3g} s ({tried}), as the next attempt would be too late"


def _now() -> float:
    return asyncio.get_running_loop().time()

"""Requests of the clients' own groups and transactions to their coordinator, with retries.

Two others retry: ``ClusterClient.request`` what an application sends, and ``group/rebalance.py`` a JoinGroup.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from aiokproto.cluster.cluster_client import ClusterClient
from aiokproto.cluster.coordinators import CoordinatorKind
from aiokproto.codec.schema import Request, Response
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, KafkaError
from aiokproto.failures import Action, Situation, classify
from aiokproto.net.features import Feature
from aiokproto.runtime.timeouts import deadline_at
from aiokproto.texts import counted

R = TypeVar("R", bound=Response)

RETRIED = frozenset({Action.BACKOFF, Action.FIND_COORDINATOR, Action.REFRESH_METADATA})
"""Actions after which the request is retried."""

HELD_BACK = "group"
"""The channel for requests whose responses a coordinator holds back."""

CONCURRENT_PAUSE = 0.02
"""Seconds before the first retry after CONCURRENT_TRANSACTIONS: the broker is writing the markers of the previous
transaction, which takes a few milliseconds. The normal backoff would be the longest part of a short transaction. Java
pauses for the same time."""


def concurrent_pause(attempt: int, backoff: float) -> float:
    """Return the seconds to wait after ``attempt`` refusals with CONCURRENT_TRANSACTIONS.

    ``backoff`` is the normal retry backoff, and the cap.
    """
    return min(CONCURRENT_PAUSE * 2.0 ** min(attempt - 1, 32), backoff)


class Exchange(Protocol, Generic[R]):
    """Builds a request for the version in use, and reads its response."""

    @property
    def request_type(self) -> type[Request[R]]:
        """The class of the request."""
        ...

    @property
    def situation(self) -> Situation:
        """The situation to classify failures by."""
        ...

    def highest(self) -> int | None:
        """Return the highest version that the next attempt can use, or None if there's no limit."""
        ...

    def build(self, version: int) -> Request[R]:
        """Return the request as a given version encodes it."""
        ...

    def failure(self, response: R) -> ErrorCode:
        """Return the error code that determines what to do about a response."""
        ...


class CoordinatorRequests:
    """Sends requests to one coordinator.

    Invariant: :func:`~aiokproto.failures.classify` alone decides what a failure means, and if a coordinator failed, it
    is looked up again before the next request.

    Attributes:
        key: The group or transactional id.
    """

    def __init__(
        self, cluster: ClusterClient, kind: CoordinatorKind, key: str, on_lost: Callable[[], None] | None = None
    ) -> None:
        """``on_lost`` is called after each attempt without a response: the request may still be executed later."""
        self._on_lost = on_lost
        self.key = key
        self._kind = kind
        self._cluster = cluster

    async def once(self, request: Request[R], *, timeout: float, channel: str = HELD_BACK) -> R:
        """Make one attempt, by default on the connection for requests with late responses (JoinGroup, SyncGroup).

        If cancelled, it closes that connection. While the coordinator holds a request back, it reads nothing after it.
        It would read a queued JoinGroup long after this client gave it up, even after this process has ended, and so
        fence a later process with the same instance id.

        Raises:
            KafkaError: See :meth:`~aiokproto.cluster.ClusterClient.send` and ``coordinator``.
        """
        # Keep this outside of the `try`: until the request may have been written, there's nothing to undo.
        node = await self._cluster.coordinator(self._kind, self.key)
        try:
            return await self._cluster.send(request, node, timeout=timeout, channel=channel)
        except asyncio.CancelledError:
            if channel == HELD_BACK:
                self._cluster.pool.disconnect(node, channel)
            raise

    async def send(self, exchange: Exchange[R], at: float) -> R:
        """Send a request, with retries.

        Args:
            exchange: The request, and how to read its response.
            at: The deadline (loop time).

        Raises:
            DeadlineError: The request didn't succeed in time; the message includes the last failure.
            KafkaError: The request failed, and a retry would not help.
        """
        loop = asyncio.get_running_loop()
        situation = exchange.situation
        attempt, failure, started = 0, "no response", loop.time()
        code = ErrorCode.NONE

        def describe() -> str:
            # A failing lookup can outlast this deadline, so maybe no attempt has ended yet.
            last = self._cluster.coordinator_failure(self._kind, self.key) or failure
            return (
                f"{self._name(exchange)} of {self._owner}: not done in {at - started:.3g} s, "
                f"{counted(attempt, 'failed attempt')}: {last}"
            )

        # One deadline covers everything, sleeps included. The steps have shorter deadlines of their own, which end an
        # attempt but not the call.
        async with deadline_at(at, describe):
            while True:
                try:
                    response = await self.attempt(exchange, at - loop.time())
                except asyncio.CancelledError:
                    # The caller or the deadline has cancelled the attempt.
                    # guard: a request in flight at the deadline may be executed later
                    self._lost()
                    raise
                except KafkaError as error:
                    # Clear it, so the pause below doesn't depend on the previous attempt.
                    code = ErrorCode.NONE
                    if not isinstance(error, BrokerError):
                        self._lost()
                    action, failure = classify(error, situation), str(error)
                    if action not in RETRIED:
                        raise
                else:
                    code = exchange.failure(response)
                    action, failure = classify(code, situation), code.name
                    # Return the response as it is: the caller reads the errors from it, including those of individual
                    # partitions.
                    if action not in RETRIED:
                        return response
                attempt += 1
                self.prepare_retry(action, f"{self._name(exchange)}: {failure}")
                pause = self._cluster.backoff.delay(attempt)
                concurrent = code is ErrorCode.CONCURRENT_TRANSACTIONS
                await asyncio.sleep(concurrent_pause(attempt, pause) if concurrent else pause)

    def _lost(self) -> None:
        if self._on_lost is not None:
            self._on_lost()

    async def require(self, feature: Feature, *, timeout: float) -> None:
        """Raise unless the coordinator has a feature.

        Raises:
            UnsupportedVersionError: It doesn't have the feature.
            KafkaError: See :meth:`~aiokproto.cluster.ClusterClient.send` and ``coordinator``.
        """
        node = await self._cluster.coordinator(self._kind, self.key, timeout=timeout)
        (await self._cluster.broker_versions(node, timeout=timeout)).require(feature)

    async def attempt(self, exchange: Exchange[R], left: float, *, timeout: float | None = None) -> R:
        """Make one attempt.

        Args:
            exchange: The request.
            left: Seconds for finding the coordinator.
            timeout: Seconds for the response; by default ``request_timeout_ms``.

        Raises:
            KafkaError: See :meth:`~aiokproto.cluster.ClusterClient.send` and ``coordinator``.
        """
        # Every attempt looks up the coordinator: after FIND_COORDINATOR the cache is empty, otherwise this is a dict
        # lookup. The timeout is never 0, so it's `describe` that reports an expired deadline, with the last failure.
        node = await self._cluster.coordinator(self._kind, self.key, timeout=max(left, 0.001))
        # Whether the request contains names or topic ids depends on the version. So build it once the coordinator is
        # known, and send it in exactly that version.
        version = await self._cluster.version(exchange.request_type, node, max_version=exchange.highest())
        return await self._cluster.send(exchange.build(version), node, timeout=timeout, max_version=version)

    def prepare_retry(self, action: Action, reason: str) -> None:
        """Prepare the next attempt: forget the coordinator, or refresh the metadata."""
        # BACKOFF (COORDINATOR_LOAD_IN_PROGRESS) keeps the coordinator: it's the right one, just not ready.
        if action is Action.FIND_COORDINATOR:
            # guard: a coordinator that does not respond is looked up again
            self._cluster.coordinators.forget(self._kind, self.key)
        elif action is Action.REFRESH_METADATA:
            self._cluster.metadata.invalidate(reason)

    @property
    def _owner(self) -> str:
        return f"{'group' if self._kind is CoordinatorKind.GROUP else 'transactional id'} {self.key!r}"

    @staticmethod
    def _name(exchange: Exchange[R]) -> str:
        return exchange.request_type.__name__.removesuffix("Request")

"""Requests to a group's coordinator: the only place that retries them."""

from __future__ import annotations

import asyncio
import logging
from typing import Generic, Protocol, TypeVar

from aiokproto.cluster import ClusterClient, CoordinatorKind
from aiokproto.codec.schema import Request, Response
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import KafkaError
from aiokproto.failures import Action, Situation, classify
from aiokproto.net.timeouts import deadline as until

log = logging.getLogger("aiokproto.group")

R = TypeVar("R", bound=Response)

AGAIN = frozenset({Action.BACKOFF, Action.FIND_COORDINATOR, Action.REFRESH_METADATA})
"""Actions after which the request is retried."""

HELD_BACK = "group"
"""The channel for requests that a coordinator holds back."""


class Exchange(Protocol, Generic[R]):
    """A request, built for the version in use, and how to read its response."""

    @property
    def request_type(self) -> type[Request[R]]:
        """The class of the request."""
        ...

    @property
    def member(self) -> bool:
        """Whether it is sent as a member of the group."""
        ...

    def highest(self) -> int | None:
        """Return the highest version that the next attempt can use; None for the newest."""
        ...

    def build(self, version: int) -> Request[R]:
        """Return the request in the form of a version."""
        ...

    def failure(self, response: R) -> ErrorCode:
        """Return the error code that decides what to do about a response."""
        ...


class GroupRequests:
    """Sends requests to a group's coordinator.

    Invariant: :func:`~aiokproto.failures.classify` alone decides what a failure means, and a coordinator that failed is
    looked up again before the next request.

    Attributes:
        group_id: The group.
    """

    def __init__(self, cluster: ClusterClient, group_id: str) -> None:
        self.group_id = group_id
        self._cluster = cluster

    async def once(self, request: Request[R], *, timeout: float, channel: str = HELD_BACK) -> R:
        """Make one attempt, by default on the connection for requests with late responses (JoinGroup, SyncGroup).

        When cancelled, that connection is closed. The coordinator reads nothing behind a request that it holds back,
        and would take in a JoinGroup from there long after it was given up, even after the end of this process: that
        would fence a later one with the same instance id.

        Raises:
            KafkaError: As :meth:`~aiokproto.cluster.ClusterClient.send` and ``coordinator``.
        """
        node = await self._cluster.coordinator(CoordinatorKind.GROUP, self.group_id)
        try:
            return await self._cluster.send(request, node, timeout=timeout, channel=channel)
        except asyncio.CancelledError:
            if channel == HELD_BACK:
                self._cluster.disconnect(node, channel)
            raise

    async def send(self, exchange: Exchange[R], at: float) -> R:
        """Send a request, with retries.

        Args:
            exchange: The request, and how to read its response.
            at: Loop time of the deadline.

        Raises:
            DeadlineError: No success in time; the message names the last failure.
            KafkaError: The request failed, and a retry would not help.
        """
        loop = asyncio.get_running_loop()
        situation = Situation(exchange.request_type.api_key, member=exchange.member)
        attempt, failure, began = 0, "no response", loop.time()

        def describe() -> str:
            return (
                f"{self._name(exchange)} of group {self.group_id!r}: not done in {at - began:.3g} s, "
                f"{attempt} failed attempts: {failure}"
            )

        async with until(at, describe):
            while True:
                try:
                    response = await self._attempt(exchange, at - loop.time())
                except KafkaError as error:
                    action, failure = classify(error, situation), str(error)
                    if action not in AGAIN:
                        raise
                else:
                    code = exchange.failure(response)
                    action, failure = classify(code, situation), code.name
                    if action not in AGAIN:
                        return response
                attempt += 1
                self.prepare_retry(action, f"{self._name(exchange)}: {failure}")
                await asyncio.sleep(self._cluster.backoff(attempt))

    async def _attempt(self, exchange: Exchange[R], left: float) -> R:
        node = await self._cluster.coordinator(CoordinatorKind.GROUP, self.group_id, timeout=max(left, 0.001))
        version = await self._cluster.version(exchange.request_type, node, max_version=exchange.highest())
        return await self._cluster.send(exchange.build(version), node, max_version=version)

    def prepare_retry(self, action: Action, reason: str) -> None:
        """Prepare the next attempt: forget the coordinator, or refresh the metadata."""
        if action is Action.FIND_COORDINATOR:
            self._cluster.forget_coordinator(CoordinatorKind.GROUP, self.group_id)
        elif action is Action.REFRESH_METADATA:
            self._cluster.invalidate(reason)

    @staticmethod
    def _name(exchange: Exchange[R]) -> str:
        return exchange.request_type.__name__.removesuffix("Request")

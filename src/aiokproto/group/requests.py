"""Requests to a group's coordinator, wherever it is: the one place where they are sent again."""

from __future__ import annotations

import asyncio
import logging
from typing import Generic, Protocol, TypeVar

from aiokproto.cluster import Cluster, CoordinatorKind
from aiokproto.codec.schema import Request, Response
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import KafkaError
from aiokproto.failures import Action, Situation, classify
from aiokproto.net.timeouts import deadline as until

log = logging.getLogger("aiokproto.group")

R = TypeVar("R", bound=Response)

AGAIN = frozenset({Action.BACKOFF, Action.FIND_COORDINATOR, Action.REFRESH_METADATA})
"""Actions after which the same is asked again."""

HELD_BACK = "group"
"""The channel for requests that a coordinator holds back."""


class Exchange(Protocol, Generic[R]):
    """A request for every version, and what its response says."""

    @property
    def request_type(self) -> type[Request[R]]:
        """The class of the request."""
        ...

    @property
    def member(self) -> bool:
        """Whether it is sent as a member."""
        ...

    def highest(self) -> int | None:
        """The highest version that the next attempt can use; None for the newest."""
        ...

    def build(self, version: int) -> Request[R]:
        """The request in the form of that version."""
        ...

    def failure(self, response: R) -> ErrorCode:
        """The code that decides what to do about a response."""
        ...


class GroupRequests:
    """Sends requests to a group's coordinator.

    Invariant: what a failure means is decided by :func:`~aiokproto.failures.classify` alone, and a coordinator that
    failed is looked up again before the next request.

    Attributes:
        group_id: The group.
    """

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self.group_id = group_id
        self._cluster = cluster

    async def once(self, request: Request[R], *, timeout: float, channel: str = HELD_BACK) -> R:
        """One attempt, by default on the connection for requests that a coordinator holds back (JoinGroup, SyncGroup).

        When cancelled, that connection is closed. The coordinator reads nothing behind a request that it holds back,
        and would take in a JoinGroup from there long after it was given up, even after the end of this process: that
        would fence a later one with the same instance id.

        Raises:
            KafkaError: As :meth:`~aiokproto.cluster.Cluster.send` and ``coordinator``.
        """
        node = await self._cluster.coordinator(CoordinatorKind.GROUP, self.group_id)
        try:
            return await self._cluster.send(request, node, timeout=timeout, channel=channel)
        except asyncio.CancelledError:
            if channel == HELD_BACK:
                self._cluster.hang_up(node, channel)
            raise

    async def send(self, exchange: Exchange[R], at: float) -> R:
        """Ask the coordinator until its response asks for no other attempt.

        Args:
            exchange: What to send, and how to read the response.
            at: Loop time of the deadline.

        Raises:
            DeadlineError: Not done in time; names the last failure.
            KafkaError: The coordinator cannot be asked, and another attempt would not help.
        """
        loop = asyncio.get_running_loop()
        situation = Situation(exchange.request_type.api_key, member=exchange.member)
        attempt, failure, began = 0, "no answer", loop.time()

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
        """Do what an action asks for before the next attempt."""
        if action is Action.FIND_COORDINATOR:
            self._cluster.forget_coordinator(CoordinatorKind.GROUP, self.group_id)
        elif action is Action.REFRESH_METADATA:
            self._cluster.invalidate(reason)

    @staticmethod
    def _name(exchange: Exchange[R]) -> str:
        return exchange.request_type.__name__.removesuffix("Request")

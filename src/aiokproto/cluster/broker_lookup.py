"""Which brokers a request goes to, and which part of it to each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Protocol, TypeAlias, TypeVar, cast

from aiokproto.cluster.coordinators import CoordinatorKind
from aiokproto.cluster.division import COORDINATED, by_configured, coordinated, coordinator_keys
from aiokproto.cluster.metadata import MetadataUpdater
from aiokproto.cluster.pool import Pool
from aiokproto.codec.entities import Subject, divide, subjects
from aiokproto.codec.schema import Request, Response, Route
from aiokproto.config import ClusterConfig
from aiokproto.errors import BrokerConnectionError, ConfigurationError, KafkaError

R = TypeVar("R", bound=Response)
T = TypeVar("T")

Parts: TypeAlias = "dict[int | str | None, Request[R]]"
"""By broker; by the id whose coordinator is not known, and None for partitions without a leader that is."""


class RetryState:
    """Where the attempts of one call go: what the last one leaves for the next.

    Attributes:
        node: The broker that the last attempt asked.
        avoid: Brokers to be asked only if there are no others.
        coordinators: What coordinators were looked up.
    """

    __slots__ = ("avoid", "coordinators", "node")

    def __init__(self) -> None:
        self.node: int | None = None
        self.avoid: set[int] = set()
        self.coordinators: list[tuple[CoordinatorKind, str]] = []


class FindCoordinator(Protocol):
    """Finds the broker that coordinates a group or transactional id, within a timeout (s)."""

    async def __call__(self, kind: CoordinatorKind, key: str, timeout: float) -> int: ...


class BrokerLookup:
    """Finds the brokers for a request."""

    def __init__(
        self, config: ClusterConfig, pool: Pool, metadata: MetadataUpdater, coordinator: FindCoordinator
    ) -> None:
        self._config = config
        self._pool = pool
        self._metadata = metadata
        self._coordinator = coordinator

    async def parts(self, request: Request[R], key: str | None, retry: RetryState, until: float) -> Parts[R]:
        """The parts of a request by the brokers that they concern."""
        route = request.route
        if route in COORDINATED:
            return await self._by_coordinator(request, key, retry, until)
        if route in (Route.LEADER, Route.LEADERS):
            return await self._by_leader(request, until)
        if route is Route.CONFIGURED:
            return by_configured(request, self._any(retry))
        brokers = self._metadata.snapshot.brokers
        if route is Route.EVERY:
            return dict.fromkeys(brokers, request) or {self._any(retry): request}
        if route is Route.CONTROLLER:
            controller = self._metadata.snapshot.controller_id
            return {controller if controller in brokers else self._any(retry): request}
        if route is Route.QUORUM:
            raise ConfigurationError(f"{type(request).__name__} goes to a member of the quorum: say which by `node`")
        return {self._any(retry): request}

    def _any(self, retry: RetryState) -> int:
        brokers = self._metadata.snapshot.brokers
        return self._pool.by_preference(brokers, retry.avoid)[0]

    async def _by_coordinator(self, request: Request[R], key: str | None, retry: RetryState, until: float) -> Parts[R]:
        """Ids whose coordinator is not found at once are parts of their own: finding it holds up no others."""
        route = request.route
        kind = COORDINATED[route]
        keys = coordinator_keys(request) if key is None else [key]
        named = [each for each in keys if each is not None]
        if not named:
            return {self._any(retry): request}
        retry.coordinators = [(kind, each) for each in named]
        left = max(until - _now(), 0.0)
        if len(named) == 1:
            return {await self._coordinator(kind, named[0], left): request}
        limit = min(left, self._config.request_timeout)
        found = await _all(self._coordinator(kind, each, limit) for each in named)
        places = {each: each if isinstance(node, KafkaError) else node for each, node in zip(named, found, strict=True)}
        return divide(request, lambda about: places.get(coordinated(about, route) or ""), _nothing)

    async def _by_leader(self, request: Request[R], until: float) -> Parts[R]:
        """Partitions whose leader is not known are one part, of None, unless they are all there are."""
        api = type(request).__name__
        asked = list(subjects(request, self._metadata.snapshot.topic_name))
        if all(about.partition is None for about in asked):
            raise ConfigurationError(f"{api} names no partition: it goes to the leader of some (or say `node`)")
        names = sorted({about.topic for about in asked if about.topic is not None})
        limit = min(max(until - _now(), 0.0), self._config.request_timeout)
        known = await _all(self._metadata.topics([name], limit, create=False, keep=False) for name in names)
        snapshot = self._metadata.snapshot

        def leader(about: Subject) -> int | None:
            return None if about.partition is None else snapshot.leader(about.topic or "", about.partition)

        parts = divide(request, leader, snapshot.topic_name)
        if request.route is Route.LEADER and len(parts) > 1:
            led = {leader(about): f"{about.topic}-{about.partition}" for about in asked}
            text = ", ".join(f"{partition} by {leader}" for leader, partition in led.items())
            raise ConfigurationError(f"{api}: its partitions need one leader ({text}): ask each `node`")
        if list(parts) == [None]:
            failures = [each for each in known if isinstance(each, KafkaError)]
            where = ", ".join(f"{about.topic}-{about.partition}" for about in asked)
            raise failures[0] if failures else BrokerConnectionError(f"{api}: {where} has no leader that is known")
        return cast("Parts[R]", parts)


async def _all(calls: Iterable[Awaitable[T]]) -> list[T | KafkaError]:
    """What all of them return, or why they failed."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, KafkaError):
            raise result
    return cast("list[T | KafkaError]", results)


def _nothing(topic_id: bytes) -> None:
    """A topic's name, where the coordinator of something else is looked for."""


def _now() -> float:
    return asyncio.get_running_loop().time()

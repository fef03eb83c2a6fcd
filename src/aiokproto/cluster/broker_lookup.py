"""Look up the brokers for a request, by its route: any, controller, partition leaders, coordinators, every broker.

If the lookup fails for one group or topic, the rest of the request must not fail. That group or topic becomes a part
under a placeholder key (the id, or None), is looked up again on its own, and gets an error code if that fails, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from aiokproto.cluster.coordinators import CoordinatorKind
from aiokproto.cluster.division import COORDINATED, by_configured, coordinated, coordinator_keys
from aiokproto.codec.entities import Entity, divide, entities
from aiokproto.codec.schema import Request, Response, Route
from aiokproto.errors import BrokerConnectionError, ConfigurationError, KafkaError

if TYPE_CHECKING:
    from aiokproto.cluster.cluster_client import ClusterClient

R = TypeVar("R", bound=Response)
T = TypeVar("T")

Parts: TypeAlias = "dict[int | str | None, Request[R]]"
"""The parts of a request by node id. The key is a str for an id whose coordinator is unknown, and None for partitions
without a leader."""


class RetryState:
    """State that is carried over from one attempt of a call to the next.

    Attributes:
        node: The broker of the last attempt.
        avoid: Brokers to use only if there are no other brokers.
        coordinators: The groups and ids whose coordinators were looked up; these are forgotten if they turn out to be
            wrong.
        failure: The last failure that wasn't a timeout; empty if there hasn't been one.
    """

    __slots__ = ("avoid", "coordinators", "failure", "node")

    def __init__(self) -> None:
        self.node: int | None = None
        self.avoid: set[int] = set()
        self.coordinators: list[tuple[CoordinatorKind, str]] = []
        self.failure = ""


class BrokerLookup:
    """Finds the brokers for a request in the metadata and the coordinator cache, refreshing both if necessary."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    async def parts(self, request: Request[R], key: str | None, retry: RetryState, until: float) -> Parts[R]:
        """Return the parts of a request by broker; a request for one broker is one part.

        Raises:
            ConfigurationError: Neither the request nor ``key`` determines the broker.
            KafkaError: The lookup failed for the whole request.
        """
        route = request.route
        if route in COORDINATED:
            return await self._by_coordinator(request, key, retry, until)
        if route in (Route.LEADER, Route.LEADERS):
            return await self._by_leader(request, until)
        if route is Route.CONFIGURED:
            return by_configured(request, self._any(retry))
        brokers = self._client.metadata.snapshot.brokers
        if route is Route.EVERY:
            # If there is no metadata yet, a bootstrap address can answer.
            return dict.fromkeys(brokers, request) or {self._any(retry): request}
        if route is Route.CONTROLLER:
            controller = self._client.metadata.snapshot.controller_id
            # KRaft brokers forward such requests to the controller, and the metadata names a random broker as the
            # controller (KIP-590), so any broker will do when it is unknown.
            return {controller if controller in brokers else self._any(retry): request}
        if route is Route.QUORUM:
            raise ConfigurationError(
                f"{type(request).__name__} goes to a member of the KRaft quorum: pass its id as `node`"
            )
        return {self._any(retry): request}

    def _any(self, retry: RetryState) -> int:
        return self._client.pool.by_preference(retry.avoid)[0]

    async def _by_coordinator(self, request: Request[R], key: str | None, retry: RetryState, until: float) -> Parts[R]:
        """Group by coordinator. An id whose lookup fails becomes a separate part, so it doesn't delay the other ids."""
        route = request.route
        kind = COORDINATED[route]
        keys = coordinator_keys(request) if key is None else [key]
        named = [name for name in keys if name is not None]
        # All transactional ids are null, and any broker serves requests without one.
        if not named:
            return {self._any(retry): request}
        # Store them before the lookup: if the attempt fails with any of these coordinators, all of them are forgotten.
        retry.coordinators = [(kind, name) for name in named]
        left = max(until - _now(), 0.0)
        # With a single key, a failed lookup can simply raise: there are no other parts to protect.
        if len(named) == 1:
            return {await self._client.coordinator(kind, named[0], left): request}
        # A coordinator that can't be found must not use up the time of the whole call. Its part is looked up again on
        # its own, with the time that is left.
        limit = min(left, self._client.config.request_timeout)
        found = await _all(self._client.coordinator(kind, name, limit) for name in named)
        # A key whose lookup failed gets a part under its own name, so two such keys don't share one part and its
        # retries.
        targets = {
            name: name if isinstance(node, KafkaError) else node for name, node in zip(named, found, strict=True)
        }
        return divide(request, lambda about: targets.get(coordinated(about, route) or ""), _no_topic_name)

    async def _by_leader(self, request: Request[R], until: float) -> Parts[R]:
        """Group by leader.

        Partitions without a known leader form one part, under None. Raise an error if no leader is known.
        """
        api = type(request).__name__
        named = list(entities(request, self._client.metadata.snapshot.topic_name))
        if all(about.partition is None for about in named):
            raise ConfigurationError(
                f"{api} names no partition, so it has no leader to go to: add partitions, or pass `node`"
            )
        names = sorted({about.topic for about in named if about.topic is not None})
        limit = min(max(until - _now(), 0.0), self._client.config.request_timeout)
        # Look up each topic separately, with errors as values: an unknown topic must not fail the lookup of the other
        # topics. Only writing may create a topic, so `create` is off.
        known = await _all(self._client.metadata.topics([name], limit, create=False, keep=False) for name in names)
        # Read it once, after the await, so that all leaders of one division come from the same snapshot.
        snapshot = self._client.metadata.snapshot

        def leader(about: Entity) -> int | None:
            return None if about.partition is None else snapshot.leader(about.topic or "", about.partition)

        parts = divide(request, leader, snapshot.topic_name)
        if request.route is Route.LEADER and len(parts) > 1:
            led = {leader(about): f"{about.topic}-{about.partition}" for about in named}
            text = ", ".join(f"{partition} by {leader}" for leader, partition in led.items())
            raise ConfigurationError(
                f"{api}: is not divided, and its partitions have several leaders ({text}): pass `node`"
            )
        # Nothing can be sent at all. Raise an error, so the caller's retry waits for new metadata.
        if list(parts) == [None]:
            failures = [error for error in known if isinstance(error, KafkaError)]
            partitions = ", ".join(f"{about.topic}-{about.partition}" for about in named)
            raise failures[0] if failures else BrokerConnectionError(f"{api}: {partitions} has no known leader")
        return cast("Parts[R]", parts)


async def _all(calls: Iterable[Awaitable[T]]) -> list[T | KafkaError]:
    """Await all; return their results, with a KafkaError in place of a failed call's result."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        # A cancellation or a bug isn't the result of an individual lookup.
        if isinstance(result, BaseException) and not isinstance(result, KafkaError):
            raise result
    return cast("list[T | KafkaError]", results)


def _no_topic_name(topic_id: bytes) -> None:
    """Never resolve a topic id: dividing by coordinator doesn't need topic names."""


def _now() -> float:
    return asyncio.get_running_loop().time()

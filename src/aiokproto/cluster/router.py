"""Requests to the brokers that serve them: route, version, retry."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from aiokproto.cluster.backoff import Backoff
from aiokproto.cluster.coordinators import CoordinatorKind, Coordinators, answered, question
from aiokproto.cluster.hedge import first_answer
from aiokproto.cluster.metadata import MetadataUpdater
from aiokproto.cluster.pool import MAIN, Pool
from aiokproto.cluster.routes import COORDINATED, answer_code, join, last_version_by_name, moved, refused
from aiokproto.cluster.single_flight import SingleFlight
from aiokproto.cluster.snapshot import BrokerNode
from aiokproto.cluster.targets import Aim, Parts, Targets
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
from aiokproto.net.call import INFINITY
from aiokproto.net.connection import Connection
from aiokproto.net.versions import BrokerVersions

_FINDING = Situation(FindCoordinatorRequest.api_key)
_AGAIN = {Action.BACKOFF, Action.REFRESH_METADATA, Action.FIND_COORDINATOR}

R = TypeVar("R", bound=Response)
T = TypeVar("T")

_OF_THE_CALL = (ClientClosedError, ConfigurationError, EncodeError)
"""Failures that are not a broker's: they end the call, whatever other parts have achieved."""

logger = logging.getLogger("aiokproto.cluster")


class Router:
    """See :class:`~aiokproto.cluster.ClusterClient`, whose methods these are."""

    def __init__(
        self, config: ClusterConfig, pool: Pool, metadata: MetadataUpdater, coordinators: Coordinators, backoff: Backoff
    ) -> None:
        self._config = config
        self._pool = pool
        self._metadata = metadata
        self._coordinators = coordinators
        self._backoff = backoff
        self._targets = Targets(config, pool, metadata, self.coordinator)
        self._finding: SingleFlight[tuple[CoordinatorKind, str], int] = SingleFlight()

    def fail(self, reason: KafkaError) -> None:
        """End the lookups under way."""
        self._finding.close(reason)

    async def close(self, reason: KafkaError) -> None:
        """End the lookups under way, and wait for their end."""
        self.fail(reason)
        await self._finding.wait_closed()

    # --- One attempt ---

    async def send(
        self, request: Request[R], node: int, timeout: float | None, max_version: int | None, channel: str = MAIN
    ) -> R:
        if timeout is None:
            return await self._send(request, node, self._config.request_timeout, INFINITY, max_version, channel)
        return await self._send(request, node, timeout, _now() + timeout, max_version, channel)

    async def _send(
        self,
        request: Request[R],
        node: int,
        timeout: float,
        deadline: float,
        max_version: int | None,
        channel: str = MAIN,
    ) -> R:
        """One attempt: ``timeout`` for a connection and for the broker to answer, ``deadline`` for all of it."""
        try:
            connection = self._pool.ready(node, channel)
            if connection is None:
                connection, timeout = await self._connect(node, channel, min(timeout, deadline - _now()))
            return await connection.send(request, timeout=timeout, deadline=deadline, max_version=max_version)
        except BrokerConnectionError as error:
            self._metadata.invalidate(str(error))
            raise

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
        timeout = self._config.request_timeout if timeout is None else timeout
        connection.send_nowait(request, on_response, timeout=timeout, max_version=max_version)
        return True

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

    async def versions(self, node: int, channel: str = MAIN) -> BrokerVersions:
        """What the broker said when it was connected to."""
        connection = self._pool.ready(node, channel)
        if connection is None:
            connection, _ = await self._connect(node, channel, self._config.request_timeout)
        return connection.versions

    async def _connect(self, node: int, channel: str, timeout: float) -> tuple[Connection, float]:
        """A connection, and what is left of the time."""
        until = _now() + timeout
        connection = await self._pool.connection(node, channel, timeout)
        return connection, max(until - _now(), 0.0)

    # --- As many as it takes ---

    async def request(
        self,
        request: Request[R],
        *,
        node: int | None,
        key: str | None,
        timeout: float,
        max_version: int | None,
        hedged: bool = False,
    ) -> R:
        until = _now() + timeout
        # A request that lets the broker work for long is waited for as long.
        longest = max(self._config.request_timeout, getattr(request, "timeout_ms", 0) / 1000)
        if max_version is None:
            max_version = last_version_by_name(request)
        aim = Aim()
        situation = Situation(coordinated=node is None and request.route in COORDINATED)

        async def attempt() -> R:
            parts: Parts[R] = (
                {node: request} if node is not None else await self._targets.parts(request, key, aim, until)
            )
            if len(parts) > 1:
                return await self._divided(request.route, parts, until, max_version)
            (target,) = parts
            assert isinstance(target, int)

            async def ask(target: int) -> R:
                aim.node = target
                return await self._send(request, target, longest, until, max_version)

            if hedged:
                nodes = self._pool.by_preference(self._metadata.snapshot.brokers, aim.avoid)
                answer, failures = await first_answer(nodes or [target], ask, lambda error: False)
                if answer is None:
                    raise failures[-1][1]
                response = answer
            else:
                response = await ask(target)
            code = answer_code(response)
            if classify(code, situation) in _AGAIN:
                detail = getattr(response, "error_message", None)
                raise error_for(code, f"{api_name(request.api_key)} to broker {target}", detail)
            if node is not None or key is not None:
                return response
            part = moved(request, response, self._metadata.snapshot.topic_name)
            return response if part is None else await self._elsewhere(part, response, aim, until, max_version)

        return await self._retrying(api_name(request.api_key), situation, until, timeout, aim, attempt)

    async def _elsewhere(self, part: Request[R], response: R, aim: Aim, until: float, max_version: int | None) -> R:
        """A response with the answer to a part of the request that has to be asked of another broker."""
        self._metadata.invalidate(f"{api_name(part.api_key)}: a part of it has moved")
        for coordinator in aim.coordinators:
            self._coordinators.forget(*coordinator)
        await asyncio.sleep(min(self._backoff.delay(1), max(until - _now(), 0.0)))
        left = max(until - _now(), 0.0)
        try:
            other = await self.request(part, node=None, key=None, timeout=left, max_version=max_version)
        except KafkaError as error:
            refusal = None if isinstance(error, _OF_THE_CALL) else refused(part, error)
            if refusal is None:
                raise
            other = refusal
        return join([response, other], self._metadata.snapshot.topic_name)

    async def _divided(self, route: Route, parts: Parts[R], until: float, max_version: int | None) -> R:
        """The answers to all parts, joined; each part has the time until the deadline for itself."""

        async def ask(target: int | str | None, part: Request[R]) -> R:
            # What is led or coordinated may move meanwhile; "every broker" means this one.
            node = target if route is Route.EVERY and isinstance(target, int) else None
            left = max(until - _now(), 0.0)
            return await self.request(part, node=node, key=None, timeout=left, max_version=max_version)

        answers = await asyncio.gather(*(ask(*each) for each in parts.items()), return_exceptions=True)
        failures: list[KafkaError] = []
        responses: list[R] = []
        unsaid: list[KafkaError] = []
        for part, answer in zip(parts.values(), answers, strict=True):
            if not isinstance(answer, BaseException):
                responses.append(answer)
                continue
            if not isinstance(answer, KafkaError) or isinstance(answer, _OF_THE_CALL):
                raise answer
            failures.append(answer)
            response = refused(part, answer) if route is not Route.EVERY else None
            if response is None:
                unsaid.append(answer)
            else:
                responses.append(response)
        if len(failures) == len(parts):
            raise failures[0]
        joined = join(responses, self._metadata.snapshot.topic_name)
        if unsaid:
            missing = "; ".join(str(error) for error in unsaid)
            text = f"{len(unsaid)} of {len(parts)} brokers gave no answer: {missing}"
            raise PartialResponseError(text, joined, tuple(unsaid))
        return joined

    async def coordinator(self, kind: CoordinatorKind, key: str, timeout: float) -> int:
        node = self._coordinators.get(kind, key)
        if node is not None and node in self._metadata.snapshot.brokers:
            return node
        what = f"the coordinator of {kind.name.lower()} {key!r}"
        return await self._finding.run(
            (kind, key), lambda: self._find(kind, key), timeout, lambda: f"{what} was not found in {timeout:.3g} s"
        )

    async def _find(self, kind: CoordinatorKind, key: str) -> int:
        timeout = self._config.api_timeout
        aim = Aim()

        async def ask(node: int) -> BrokerNode:
            version = (await self.versions(node)).pick(FindCoordinatorRequest)
            return answered(await self.send(question(kind, key, version), node, None, version), kind, key)

        def final(error: KafkaError) -> bool:
            # What one broker answers, the others would too; the next attempt prefers another one all the same.
            return isinstance(error, BrokerError) or classify(error, _FINDING) not in _AGAIN

        async def attempt() -> int:
            nodes = self._pool.by_preference(self._metadata.snapshot.brokers, aim.avoid)
            aim.node = nodes[0]
            found, failures = await first_answer(nodes, ask, final)
            if found is None:
                raise failures[-1][1]
            self._metadata.learn(found)
            self._coordinators.learn(kind, key, found.id)
            return found.id

        what = f"FindCoordinator for {kind.name.lower()} {key!r}"
        return await self._retrying(what, _FINDING, _now() + timeout, timeout, aim, attempt)

    async def _retrying(
        self,
        what: str,
        situation: Situation,
        until: float,
        timeout: float,
        aim: Aim,
        attempt: Callable[[], Awaitable[T]],
    ) -> T:
        """Attempts until one succeeds, fails for good, or time is up."""
        attempts = 0
        last = ""
        while True:
            attempts += 1
            try:
                return await attempt()
            except KafkaError as error:
                row = find_row(error, situation)
                if row.action not in _AGAIN:
                    raise
                pause = self._backoff.delay(attempts)
                # An attempt that our own deadline has cut short says nothing of why the others failed.
                late = isinstance(error, DeadlineError)
                last = last if late else str(error)
                if _now() + pause >= until:
                    failures = f"{error}; before: {last}" if late and last else str(error)
                    text = f"{what}: not done in {timeout:.3g} s ({attempts} attempts); last: {failures}"
                    raise DeadlineError(text) from error
                logger.debug("%s: attempt %d failed, %s: %s", what, attempts, row.why, error)
                if row.action is Action.REFRESH_METADATA:
                    self._metadata.invalidate(str(error))
                elif row.action is Action.FIND_COORDINATOR:
                    for coordinator in aim.coordinators:
                        self._coordinators.forget(*coordinator)
                aim.avoid = set() if aim.node is None else {aim.node}
            await asyncio.sleep(pause)


def _now() -> float:
    return asyncio.get_running_loop().time()

"""A fault rule: the requests that it matches, and how often it applies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from difflib import get_close_matches
from types import TracebackType
from typing import TYPE_CHECKING, Any

from aiokproto.application.calls import calling, check_not_awaitable
from aiokproto.broker.control.request_info import Intercept, RequestInfo
from aiokproto.codec.entities import ANY_ENTITY, Entity, split
from aiokproto.codec.registry_table import APIS
from aiokproto.codec.schema import Request
from aiokproto.errors import ConfigurationError
from aiokproto.texts import counted

if TYPE_CHECKING:
    from typing_extensions import Self

    from aiokproto.broker.control.faults import Faults

Apis = type[Request[Any]] | int | Collection["type[Request[Any]] | int"] | None
"""Request classes or ApiKeys, or None for all APIs."""


@dataclass(frozen=True)
class RequestMatcher:
    """Matches requests that meet all given conditions."""

    apis: frozenset[int] | None = None
    node: int | None = None
    client_id: str | None = None
    entity: Entity = ANY_ENTITY
    when: Callable[[RequestInfo], bool] | None = None

    def matches(self, info: RequestInfo) -> bool:
        """Return whether a request matches."""
        if self.apis is not None and info.request.api_key not in self.apis:
            return False
        if self.node not in (None, info.node_id) or self.client_id not in (None, info.client_id):
            return False
        if self.entity != ANY_ENTITY and split(info.expanded, self.entity, info.name_of)[1] is None:
            return False
        if self.when is None:
            return True
        with calling("when"):
            found: object = self.when(info)
            check_not_awaitable(found, "when")
        return bool(found)


def keys(apis: Apis) -> frozenset[int] | None:
    """Return the ApiKeys of some APIs, or None for all APIs.

    Raises:
        ConfigurationError: ``apis`` contains something that isn't an API.
    """
    if apis is None:
        return None
    listed = apis if isinstance(apis, Collection) and not isinstance(apis, str) else [apis]
    return frozenset(map(key_of, listed))


def key_of(api: object) -> int:
    """Return the ApiKey of a request class or ApiKey.

    Raises:
        ConfigurationError: ``api`` is neither.
    """
    if isinstance(api, type) and issubclass(api, Request):
        return api.api_key
    if isinstance(api, int) and api in APIS:
        return api
    names = [name for _, name in APIS.values()]
    close = get_close_matches(api, names, n=1) if isinstance(api, str) else []
    name = close[0] if close else "Produce"
    raise ConfigurationError(f"{api!r} is not an API; pass its request class, such as {name}Request, or its ApiKey")


class FaultRule:
    """A fault to inject. It is active from its creation until :meth:`remove`, or the end of a ``with`` block.

    Attributes:
        kind: The kind of fault: ``"fail"``, ``"delay"``, …
        count: How often the rule has been applied.
    """

    def __init__(
        self,
        kind: str,
        matcher: RequestMatcher,
        act: Intercept,
        nth: int,
        times: int | None,
        faults: Faults,
    ) -> None:
        self.kind = kind
        self.count = 0
        self.act = act
        self._matcher = matcher
        self._nth = nth
        self._times = times
        self._seen = 0
        self._applied = 0
        self._faults = faults
        self._removed = False
        self._waiting: list[asyncio.Future[None]] = []

    def applies_to(self, info: RequestInfo) -> bool:
        """Return whether to apply the rule to a request, and count the request for ``nth`` and ``times`` if it
        matches."""
        if self._times is not None and self._applied >= self._times:
            return False
        if not self._matcher.matches(info):
            return False
        self._seen += 1
        if self._seen < self._nth:
            return False
        self._applied += 1
        return True

    def record(self) -> None:
        """Count one application, and wake the waiters."""
        self.count += 1
        self._wake()

    async def wait(self, times: int = 1) -> None:
        """Wait until the rule has been applied ``times`` times since its creation. Call it in the cluster's event loop.

        There is no deadline: wrap the call in ``asyncio.timeout``. Cancelling has no side effects.

        Raises:
            RuntimeError: The rule was removed first.
        """
        while self.count < times:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            # Check the flag only once the waiter is in the list: remove(), in another thread, sets the flag and then
            # wakes the list.
            if self._removed:
                raise RuntimeError(f"the rule was removed after {self.count} of {times} requests")
            try:
                await waiter
            finally:
                # Remove the waiter if it was cancelled: the rule may never apply again.
                if waiter in self._waiting:
                    self._waiting.remove(waiter)

    def remove(self) -> None:
        """Deactivate the rule. Requests that already matched aren't affected."""
        self._faults._forget(self)
        self._removed = True
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            # remove() can be called in any thread.
            waiter.get_loop().call_soon_threadsafe(_release, waiter)

    def __repr__(self) -> str:
        state = "removed" if self._removed else "active"
        return f"<FaultRule {self.kind}, {state}, applied {counted(self.count, 'time')}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)

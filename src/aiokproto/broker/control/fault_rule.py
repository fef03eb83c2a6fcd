"""Which requests a fault happens to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from aiokproto.broker.control.request_info import Intercept, RequestInfo
from aiokproto.codec.entities import ANYTHING, Subject, split
from aiokproto.codec.schema import Request

if TYPE_CHECKING:
    from typing_extensions import Self

Apis = type[Request[Any]] | int | Collection["type[Request[Any]] | int"] | None
"""Requests by their classes or ApiKeys; None: all of them."""


@dataclass(frozen=True)
class RequestMatcher:
    """The requests that a fault may happen to: those that are all of what is given."""

    apis: frozenset[int] | None = None
    node: int | None = None
    client_id: str | None = None
    subject: Subject = ANYTHING
    when: Callable[[RequestInfo], bool] | None = None

    def matches(self, call: RequestInfo) -> bool:
        """Whether this is one of them."""
        if self.apis is not None and call.request.api_key not in self.apis:
            return False
        if self.node not in (None, call.node_id) or self.client_id not in (None, call.client_id):
            return False
        if self.subject != ANYTHING and split(call.expanded, self.subject, call.name_of)[1] is None:
            return False
        return self.when is None or self.when(call)


def keys(apis: Apis) -> frozenset[int] | None:
    """The ApiKeys that were named."""
    if apis is None:
        return None
    named = apis if isinstance(apis, Collection) else [apis]
    return frozenset(each if isinstance(each, int) else each.api_key for each in named)


class FaultRule:
    """A fault that is to happen. It holds from its making until :meth:`remove`, or the end of a ``with`` block.

    Attributes:
        kind: What is done: ``"fail"``, ``"delay"``, …
        happened: How often it was done so far.
    """

    def __init__(
        self,
        kind: str,
        where: RequestMatcher,
        act: Intercept,
        nth: int,
        times: int | None,
        forget: Callable[[FaultRule], None],
    ) -> None:
        self.kind = kind
        self.count = 0
        self.act = act
        self._where = where
        self._nth = nth
        self._times = times
        self._seen = 0
        self._taken = 0
        self._forget = forget
        self._removed = False
        self._waiting: list[asyncio.Future[None]] = []

    def applies_to(self, call: RequestInfo) -> bool:
        """Whether it happens to this request; each that fits is counted."""
        if self._times is not None and self._taken >= self._times:
            return False
        if not self._where.matches(call):
            return False
        self._seen += 1
        if self._seen < self._nth:
            return False
        self._taken += 1
        return True

    def note(self) -> None:
        """It happens."""
        self.count += 1
        self._wake()

    async def wait(self, times: int = 1) -> None:
        """Return once it has happened so often since the rule was made; to be awaited in the cluster's loop.

        Cancelling it changes nothing.

        Raises:
            RuntimeError: The rule was removed before.
        """
        while self.count < times:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            # Only now: another thread that removes the rule wakes those whom it finds waiting.
            if self._removed:
                raise RuntimeError(f"the rule was removed after it had happened {self.count} times, not {times}")
            await waiter

    def remove(self) -> None:
        """Let it happen no more."""
        self._forget(self)
        self._removed = True
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            # Rules may be removed in any thread.
            waiter.get_loop().call_soon_threadsafe(_release, waiter)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)

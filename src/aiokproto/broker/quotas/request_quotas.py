"""Applies quotas to a served request: records its usage, and puts the throttle time into its response (KIP-219)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from aiokproto.broker.quotas.client_quota_manager import ClientQuotaManager, ControllerMutationQuota
from aiokproto.codec.messages.fetch import FetchRequest, FetchResponse
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.codec.messages.share_fetch import ShareFetchResponse
from aiokproto.codec.schema import Request, Response

R = TypeVar("R")


class ProcessingTimer(Generic[R]):
    """Awaits a coroutine and measures how long it occupies the event loop, excluding the time while it's suspended.

    ``request_percentage`` limits the share of a thread's time. Here, that's the event loop's time, and a Fetch that
    waits for records doesn't use it.

    Attributes:
        seconds: The measured time so far.
    """

    def __init__(self, work: Coroutine[Any, Any, R], clock: Callable[[], float] | None = None) -> None:
        """``clock`` defaults to the event loop's."""
        self.seconds = 0.0
        self._work = work
        self._clock = clock

    def __await__(self) -> Generator[Any, Any, R]:
        work = self._work
        clock = self._clock or asyncio.get_running_loop().time
        error: BaseException | None = None
        value: Any = None
        while True:
            started_at = clock()
            try:
                awaited = work.send(value) if error is None else work.throw(error)
            except StopIteration as end:
                result: R = end.value
                return result
            finally:
                # Count each step separately: between two send() calls, the request is waiting.
                self.seconds += clock() - started_at
            try:
                value, error = (yield awaited), None
            except BaseException as raised:  # noqa: BLE001 - passed on to the coroutine
                error = raised


def record_and_throttle(
    quotas: ClientQuotaManager,
    user: str,
    client_id: str,
    request: Request[Any],
    response: Response | None,
    version: int,
    *,
    size: int,
    busy: float,
    mutation_quota: ControllerMutationQuota,
    now: float,
) -> tuple[Response | None, float]:
    """Record how much of its client's quotas a served request has used.

    Args:
        quotas: The node's meters.
        user: The name of the connection's principal.
        client_id: The request's client id.
        request: The request.
        response: The response.
        version: The version of the request and response.
        size: The request's size in bytes.
        busy: How much of the event loop's time it took, in seconds.
        mutation_quota: The meter of the partitions that the request created or deleted.
        now: The time (s).

    Returns:
        The response to send, and how many seconds to throttle the client. The response carries the throttle time. If a
        Fetch is throttled, its response has no records.
    """
    throttle = max(
        quotas.record("request_percentage", user, client_id, busy * 100, now), mutation_quota.throttle_seconds
    )
    # As in Kafka, the size of the request counts, so compressed records count by their compressed size.
    if isinstance(request, ProduceRequest):
        throttle = max(throttle, quotas.record("producer_byte_rate", user, client_id, size, now))
    elif isinstance(request, FetchRequest) and isinstance(response, FetchResponse):
        fetched = len(response.encode(version))
        throttle = max(throttle, quotas.record("consumer_byte_rate", user, client_id, fetched, now))
        if throttle:
            # The client will fetch the records again after the pause. They count then.
            quotas.unrecord("consumer_byte_rate", user, client_id, fetched, now)
            # Don't return the id of a session that this request created, so the client sends a full Fetch again.
            session_id = request.session_id if request.session_epoch > 0 else 0
            response = FetchResponse(error_code=0, session_id=session_id, responses=[])
    elif isinstance(response, ShareFetchResponse):
        # Unlike in Fetch, records aren't withheld: this client has already acquired them, so no other member could get
        # them before their locks expire.
        throttle = max(
            throttle, quotas.record("consumer_byte_rate", user, client_id, len(response.encode(version)), now)
        )
    # Produce with acks=0 has no response to carry the throttle time, but the connection is muted all the same.
    if throttle and response is not None:
        for spec in response.fields():
            if spec.name == "throttle_time_ms" and version in spec.versions:
                setattr(response, spec.name, round(throttle * 1000))
    return response, throttle

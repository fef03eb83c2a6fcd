"""What a request costs its client: counting it, and the pause that is told in the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from aiokproto.broker.quotas.quotas import Mutations, Quotas
from aiokproto.codec.messages.fetch import FetchRequest, FetchResponse
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.codec.messages.share_fetch import ShareFetchResponse
from aiokproto.codec.schema import Request, Response

R = TypeVar("R")


class Stopwatch(Generic[R]):
    """Awaits some work, and measures for how long it kept the event loop busy: not what it waited.

    Attributes:
        seconds: The time so far.
    """

    def __init__(self, work: Coroutine[Any, Any, R], clock: Callable[[], float] | None = None) -> None:
        """``clock`` is the event loop's unless another is given."""
        self.seconds = 0.0
        self._work = work
        self._clock = clock

    def __await__(self) -> Generator[Any, Any, R]:
        work = self._work
        clock = self._clock or asyncio.get_running_loop().time
        error: BaseException | None = None
        answer: Any = None
        while True:
            begun = clock()
            try:
                awaited = work.send(answer) if error is None else work.throw(error)
            except StopIteration as end:
                result: R = end.value
                return result
            finally:
                self.seconds += clock() - begun
            try:
                answer, error = (yield awaited), None
            except BaseException as raised:  # noqa: BLE001 - it is the work that it is meant for
                error = raised


def charge(
    quotas: Quotas,
    user: str,
    client_id: str,
    request: Request[Any],
    response: Response | None,
    version: int,
    *,
    size: int,
    busy: float,
    mutations: Mutations,
    now: float,
) -> tuple[Response | None, float]:
    """Count a request that was served.

    Args:
        quotas: The quotas.
        user: Whose request it is.
        client_id: What the client calls itself.
        request: The request.
        response: Its answer.
        version: The version of both.
        size: The bytes of the request.
        busy: The seconds that it took.
        mutations: What it made and removed.
        now: The time.

    Returns:
        The answer to send, and the seconds that the client has to pause. They are also in the answer; the records that
        a client has to pause for are not.
    """
    pause = max(quotas.use("request_percentage", user, client_id, busy * 100, now), mutations.pause)
    if isinstance(request, ProduceRequest):
        pause = max(pause, quotas.use("producer_byte_rate", user, client_id, size, now))
    elif isinstance(request, FetchRequest) and isinstance(response, FetchResponse):
        got = len(response.encode(version))
        pause = max(pause, quotas.use("consumer_byte_rate", user, client_id, got, now))
        if pause:
            quotas.give_back("consumer_byte_rate", user, client_id, got, now)
            session_id = request.session_id if request.session_epoch > 0 else 0
            response = FetchResponse(error_code=0, session_id=session_id, responses=[])
    elif isinstance(response, ShareFetchResponse):
        # Not withheld, as a Fetch's: the records are the client's now, and would be nobody's until their lock ends.
        pause = max(pause, quotas.use("consumer_byte_rate", user, client_id, len(response.encode(version)), now))
    if pause and response is not None:
        for spec in response.fields():
            if spec.name == "throttle_time_ms" and version in spec.versions:
                setattr(response, spec.name, round(pause * 1000))
    return response, pause

"""Faults at random, the same ones again for the same seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from random import Random
from typing import Literal, NamedTuple, get_args

from aiokproto.broker.control.request_info import RequestInfo
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.schema import Route
from aiokproto.error_codes import ErrorCode

Kind = Literal["fail", "delay", "drop", "cut"]

_LONGEST_DELAY = 0.05
_AFTER_ELECTION = {
    Route.LEADER: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    Route.LEADERS: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    Route.GROUP: ErrorCode.NOT_COORDINATOR,
    Route.TRANSACTION: ErrorCode.NOT_COORDINATOR,
    Route.CONTROLLER: ErrorCode.NOT_CONTROLLER,
}


class Drawn(NamedTuple):
    """What happens to a request. ``error`` goes with ``"fail"``, ``seconds`` with ``"delay"``."""

    kind: Kind
    error: ErrorCode
    seconds: float


class RandomFaults:
    """What happens to which request."""

    def __init__(self, seed: int, rate: float, kinds: Collection[Kind]) -> None:
        unknown = set(kinds) - set(get_args(Kind))
        if not 0 <= rate <= 1 or unknown or not kinds:
            raise ValueError(f"rate must be 0 to 1 and kinds some of {get_args(Kind)}, not {rate}, {list(kinds)}")
        self._seed = seed
        self._rate = rate
        self._kinds: list[Kind] = sorted(kinds)
        self._seen: Counter[tuple[int, str, int]] = Counter()

    def draw(self, call: RequestInfo) -> Drawn | None:
        """What happens to this request; None: nothing."""
        key = call.request.api_key
        # Without it no client gets anywhere, and the connection says as much when it is cut.
        if key == ApiVersionsRequest.api_key:
            return None
        who = (call.node_id, call.client_id, key)
        self._seen[who] += 1
        random = Random(f"{self._seed} {who} {self._seen[who]}")
        if random.random() >= self._rate:
            return None
        error = _AFTER_ELECTION.get(call.request.route, ErrorCode.NONE)
        kinds: list[Kind] = [kind for kind in self._kinds if kind != "fail" or error]
        if not kinds:
            return None
        return Drawn(random.choice(kinds), error, random.uniform(0, _LONGEST_DELAY))

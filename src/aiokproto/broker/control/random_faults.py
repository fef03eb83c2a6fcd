"""Reproducible random faults: the same seed gives the same faults."""

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
    """The fault drawn for a request. ``error`` is for ``"fail"``, ``seconds`` for ``"delay"``."""

    kind: Kind
    error: ErrorCode
    seconds: float


class RandomFaults:
    """Draws faults.

    Each draw has its own generator, seeded with the seed, node, client id, API, and how many such requests came before.
    So a client's faults don't depend on how its requests interleave with other clients' requests.
    """

    def __init__(self, seed: int, rate: float, kinds: Collection[Kind]) -> None:
        unknown = set(kinds) - set(get_args(Kind))
        if not 0 <= rate <= 1 or unknown or not kinds:
            raise ValueError(f"rate must be 0 to 1 and kinds some of {get_args(Kind)}, not {rate}, {list(kinds)}")
        self._seed = seed
        self._rate = rate
        self._kinds: list[Kind] = sorted(kinds)
        self._seen: Counter[tuple[int, str, int]] = Counter()

    def draw(self, info: RequestInfo) -> Drawn | None:
        """Draw the fault for a request, or None for no fault."""
        key = info.request.api_key
        # Every connection starts with ApiVersions, so a fault there adds nothing to cutting the connection later.
        if key == ApiVersionsRequest.api_key:
            return None
        source = (info.node_id, info.client_id, key)
        self._seen[source] += 1
        random = Random(f"{self._seed} {source} {self._seen[source]}")
        if random.random() >= self._rate:
            return None
        error = _AFTER_ELECTION.get(info.request.route, ErrorCode.NONE)
        kinds: list[Kind] = [kind for kind in self._kinds if kind != "fail" or error]
        if not kinds:
            return None
        return Drawn(random.choice(kinds), error, random.uniform(0, _LONGEST_DELAY))

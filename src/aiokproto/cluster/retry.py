"""Whether to try again, and what to do before (pure; the one place where that is decided)."""

from __future__ import annotations

from typing import NamedTuple

from aiokproto.codec.schema import Route
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import AuthenticationError, BrokerConnectionError, BrokerError, DeadlineError, NotKafkaError

_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Decision(NamedTuple):
    """What a failed attempt leads to."""

    again: bool
    why: str
    refresh: bool = False
    """The picture of the cluster is out of date."""
    forget: bool = False
    """The coordinator must be looked up anew."""
    elsewhere: bool = False
    """Another broker is preferred, if any will do."""


def decide(error: BaseException, route: Route) -> Decision:
    """What to do after an attempt has ended with ``error``."""
    if isinstance(error, NotKafkaError | AuthenticationError):
        return Decision(False, "it will be the same again")
    if isinstance(error, BrokerConnectionError):
        return Decision(True, "the broker may be back, or another has taken over", True, True, True)
    if isinstance(error, DeadlineError):
        return Decision(True, "the broker is silent, but the call has time left", True, True, True)
    if not isinstance(error, BrokerError):
        return Decision(False, "it is no matter of time")
    code = error.code
    if not code.retriable:
        return Decision(False, "the broker says no")
    if code in _MOVED:
        return Decision(True, "the coordinator has moved", forget=True, elsewhere=route is Route.ANY)
    if code == ErrorCode.NOT_CONTROLLER:
        return Decision(True, "the controller has moved", refresh=True, elsewhere=True)
    if code.refresh_metadata:
        return Decision(True, "the picture is out of date", refresh=True)
    return Decision(True, "the broker asks for patience")

"""Requests to the coordinator: retried and final errors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokproto.cluster import CoordinatorKind
from aiokproto.cluster.coordinator_requests import CoordinatorRequests
from aiokproto.codec.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import AuthenticationError, BrokerConnectionError, DeadlineError, UnsupportedVersionError
from aiokproto.failures import Situation
from tests.group.fake import FakeCluster, run


class Beat:
    """Any request to a coordinator."""

    request_type = HeartbeatRequest
    situation = Situation(HeartbeatRequest.api_key, member=True)

    def highest(self) -> int | None:
        return 3

    def build(self, version: int) -> HeartbeatRequest:
        assert version == 3
        return HeartbeatRequest(group_id="g")

    def failure(self, response: HeartbeatResponse) -> ErrorCode:
        return ErrorCode(response.error_code)


def send(cluster: Any, timeout: float = 10.0) -> Any:
    return CoordinatorRequests(cluster, CoordinatorKind.GROUP, "g").send(
        Beat(), asyncio.get_running_loop().time() + timeout
    )


@pytest.mark.parametrize(
    ("failure", "forgotten"),
    [
        (ErrorCode.NOT_COORDINATOR, 1),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 1),
        (BrokerConnectionError("lost"), 1),
        (DeadlineError("silent"), 1),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 0),
    ],
    ids=str,
)
def test_retriable_errors_are_retried(failure: object, forgotten: int) -> None:
    async def program() -> None:
        cluster = FakeCluster()
        cluster.next[HeartbeatRequest] = [failure]
        response = await send(cluster)
        assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID, "the second response, which is final"
        assert len(cluster.requests) == 2
        assert cluster.forgotten == forgotten

    run(program())


@pytest.mark.parametrize("error", [AuthenticationError("refused"), UnsupportedVersionError("old")], ids=repr)
def test_final_errors_are_raised(error: Exception) -> None:
    async def program() -> None:
        cluster = FakeCluster()
        cluster.next[HeartbeatRequest] = [error]
        with pytest.raises(type(error)):
            await send(cluster)

    run(program())


def test_the_deadline_names_the_last_failure() -> None:
    async def program() -> None:
        cluster = FakeCluster()
        cluster.next[HeartbeatRequest] = [ErrorCode.NOT_COORDINATOR, *[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 100]
        began = asyncio.get_running_loop().time()
        with pytest.raises(DeadlineError, match=r"Heartbeat of group 'g': not done in 5 s.*COORDINATOR_LOAD"):
            await send(cluster, 5.0)
        assert asyncio.get_running_loop().time() - began == pytest.approx(5.0, abs=0.1)

    run(program())


def test_the_deadline_names_why_the_coordinator_was_not_found() -> None:
    """The lookup has more time than the call, and fails later, so its failure is newer than the last attempt's."""

    async def program() -> None:
        cluster = FakeCluster()
        cluster.lookup_failure = "the password cannot be read"
        cluster.next[HeartbeatRequest] = [ErrorCode.NOT_COORDINATOR, None]
        with pytest.raises(DeadlineError, match=r"1 failed attempt: the password cannot be read$"):
            await send(cluster, 5.0)

    run(program())


def test_a_silent_coordinator_is_replaced_long_before_the_deadline() -> None:
    async def program() -> None:
        cluster = FakeCluster()
        cluster.next[HeartbeatRequest] = [None]
        await send(cluster, 60.0)
        assert cluster.forgotten == 1
        assert asyncio.get_running_loop().time() < 40

    run(program())

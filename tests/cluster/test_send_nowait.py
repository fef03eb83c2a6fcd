"""`send_nowait`: the response is passed to a callback, and no task waits for it."""

from __future__ import annotations

import pytest

from aiokproto.codec.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokproto.errors import ClientClosedError
from tests.cluster.fake import brokers, started
from tests.net.waiting import until
from tests.timeouts import LONG_TIMEOUT

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


async def test_send_nowait_uses_an_open_connection_or_refuses() -> None:
    outcomes: list[object] = []
    async with brokers(2) as (_, (first, second)), started(first.port) as cluster:
        assert not cluster.send_nowait(BEAT, 2, outcomes.append)
        assert second.requests == []
        await cluster.version(HeartbeatRequest, 2)
        assert cluster.send_nowait(BEAT, 2, outcomes.append, timeout=LONG_TIMEOUT)
        await until(lambda: bool(outcomes))
        assert outcomes == [HeartbeatResponse(error_code=0)]
        second.drop_all()
        await until(lambda: not cluster.send_nowait(BEAT, 2, outcomes.append))
    with pytest.raises(ClientClosedError):
        cluster.send_nowait(BEAT, 2, outcomes.append)

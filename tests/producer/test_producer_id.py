"""A producer that waits for its producer id."""

from __future__ import annotations

import asyncio

import pytest

from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aiokproto.producer.sender import Sender
from tests.producer.fake import FakeCluster, producer_on

TURNS = 50


class SlowCluster(FakeCluster):
    """Delays the response to InitProducerId."""

    def __init__(self) -> None:
        super().__init__()
        self.requested = asyncio.Event()
        self.go_on = asyncio.Event()

    async def request(self, request: InitProducerIdRequest, *, timeout: float, hedged: bool) -> InitProducerIdResponse:
        self.requested.set()
        await self.go_on.wait()
        return await super().request(request, timeout=timeout, hedged=hedged)


async def test_the_sender_does_not_run_while_the_producer_id_is_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = 0
    real = Sender._run_once

    def counting(sender: Sender, now: float) -> None:
        nonlocal rounds
        rounds += 1
        real(sender, now)

    monkeypatch.setattr(Sender, "_run_once", counting)
    fake = SlowCluster()
    async with producer_on(fake, monkeypatch, linger_ms=1) as producer:
        sending = asyncio.ensure_future(producer.send("flights", b"v"))
        await fake.requested.wait()
        before = rounds
        for _ in range(TURNS):
            await asyncio.sleep(0)
        assert rounds == before
        fake.go_on.set()
        assert (await sending).offset == 0

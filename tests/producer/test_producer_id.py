"""A producer that waits for its id."""

from __future__ import annotations

import asyncio

import pytest

from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aiokproto.producer.sender import Sender
from tests.producer.fake import FakeCluster, producer_on

TURNS = 50


class SlowCluster(FakeCluster):
    """Keeps who asks for an id waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    async def request(self, request: InitProducerIdRequest, *, timeout: float, hedged: bool) -> InitProducerIdResponse:
        self.asked.set()
        await self.go_on.wait()
        return await super().request(request, timeout=timeout, hedged=hedged)


async def test_it_leaves_the_loop_alone_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
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
        await fake.asked.wait()
        before = rounds
        for _ in range(TURNS):
            await asyncio.sleep(0)
        assert rounds == before
        fake.go_on.set()
        assert (await sending).offset == 0

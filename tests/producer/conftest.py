"""Fixtures of the producer's tests."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from aiokproto.producer import Producer
from tests.producer.fake import FakeCluster, Make, producer_on


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Make:
    """A producer on a fake cluster."""

    def made(fake: FakeCluster, **options: Any) -> AbstractAsyncContextManager[Producer]:
        return producer_on(fake, monkeypatch, **options)

    return made

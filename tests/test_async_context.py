"""A plain ``with`` names ``async with``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aiokproto import Broker, Cluster, Consumer, Producer
from aiokproto.async_context import AsyncContext
from aiokproto.client import Client

SERVERS = "localhost:9092"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Producer(bootstrap_servers=SERVERS),
        lambda: Consumer(bootstrap_servers=SERVERS),
        lambda: Client(bootstrap_servers=SERVERS),
        Cluster,
        Broker,
    ],
)
def test_with_names_async_with(make: Callable[[], AsyncContext]) -> None:
    made = make()
    with pytest.raises(TypeError, match=f"use `async with {type(made).__name__}"), made:
        pass

"""Holds back work that the broker does in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.timeouts import LONG_TIMEOUT


class Gate:
    """Holds back the calls of a function that are made in a thread."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        where: str,
        function: Callable[..., Any],
    ) -> None:
        self.is_open = threading.Event()
        self.entered = threading.Event()
        self.in_threads = 0
        self._function = function
        monkeypatch.setattr(where, self.call)

    def call(self, *args: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            self.in_threads += 1
            self.entered.set()
            assert self.is_open.wait(LONG_TIMEOUT)
        return self._function(*args)

    async def wait(self) -> None:
        while not self.entered.is_set():
            await asyncio.sleep(0)

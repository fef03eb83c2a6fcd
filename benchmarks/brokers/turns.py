"""``python -m benchmarks.brokers.turns``: how long others wait while a client sends the embedded broker its worst.

A request of 100 KB is sent by a user with all permissions and by one with none, in each shape of
``tests/broker/costly_requests.py``. What counts is the longest turn of the event loop, as CPU time of its thread: the
time that every other connection waits, whatever else the machine does.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import sys
import time
from typing import NamedTuple

from aiokproto.broker.handlers import SERVED
from aiokproto.codec.frames import encode_request
from aiokproto.codec.registry import api_name
from tests.broker.costly_requests import SHAPES, Shape, request
from tests.broker.secure import guarded, logged_in

SIZE = 100_000
"""Bytes of a request."""
LIMIT_MS = 50.0
USERS = {"admin": "all permissions", "alice": "none"}
SAMPLE = (50, 100)


class Turn(NamedTuple):
    """The longest turn of a request: of which API, user and shape, with how many items, and its CPU time.

    ``collecting`` is the part of it in which Python collected garbage: it looks at all objects of the process.
    """

    api: str
    user: str
    shape: Shape
    items: int
    milliseconds: float
    collecting: float


class Watch:
    """Measures the turns of the event loop from now on."""

    def __init__(self) -> None:
        self.longest = self.collecting = 0.0
        self._collected = self._collection = 0.0
        # Neither what is left of other measurements counts nor what was imported, which the command freezes, too.
        gc.collect()
        gc.freeze()
        gc.callbacks.append(self._collects)
        self._since = time.thread_time()
        self._next = asyncio.get_running_loop().call_soon(self._turn)

    def end(self) -> None:
        """Stop."""
        self._next.cancel()
        gc.callbacks.remove(self._collects)
        gc.unfreeze()

    def _collects(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._collection = time.thread_time()
        else:
            self._collected += time.thread_time() - self._collection

    def _turn(self) -> None:
        now = time.thread_time()
        if now - self._since > self.longest:
            self.longest, self.collecting = now - self._since, self._collected
        self._since, self._collected = now, 0.0
        self._next = asyncio.get_running_loop().call_soon(self._turn)


async def measure(api_key: int, user: str, shape: Shape) -> Turn:
    """Send one request to a broker of its own."""
    version = SERVED[api_key].highest
    few, many = (len(encode_request(request(api_key, version, size, shape), version, 1, "")) for size in SAMPLE)
    items = int(SIZE / (many - few) * (SAMPLE[1] - SAMPLE[0])) if many > few else 1
    async with guarded(**{"delegation.token.secret.key": "x"}) as broker, logged_in(broker, user) as wire:
        for number, salt in ((1, "a"), (items, "b")):
            frame = encode_request(request(api_key, version, number, shape, salt), version, 1, "")
            watch = Watch()
            wire.writer.write(frame)
            try:
                await wire.frame()
            # Not every response can say that all was refused.
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            finally:
                watch.end()
    return Turn(api_name(api_key), USERS[user], shape, items, watch.longest * 1000, watch.collecting * 1000)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.brokers.turns", description=__doc__)
    parser.add_argument("apis", nargs="*", type=int, metavar="KEY", help="of these APIs (default all)")
    wanted = parser.parse_args().apis or list(SERVED)
    logging.getLogger("aiokproto").setLevel(logging.CRITICAL)
    print(f"{'API':38}{'permissions':17}{'shape':7}{'items':>7}{'longest turn, ms':>18}{'of it GC':>10}{'limit':>7}")
    above = 0
    for api_key in wanted:
        for user in USERS:
            turns = [asyncio.run(measure(api_key, user, shape)) for shape in SHAPES]
            worst = max(turns, key=lambda turn: turn.milliseconds)
            above += worst.milliseconds > LIMIT_MS
            named = f"{worst.api:38}{worst.user:17}{worst.shape:7}{worst.items:7}"
            print(f"{named}{worst.milliseconds:18.1f}{worst.collecting:10.1f}{LIMIT_MS:7.0f}", flush=True)
    print(f"{above} above {LIMIT_MS:g} ms")
    sys.exit(above > 0)


if __name__ == "__main__":
    main()

"""Counts work, for tests of how work grows: the number of calls doesn't depend on the machine, but time does."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """Count the calls of this thread: the work of broker and client, without their waiting."""
    count = [0]

    def called(_frame: object, event: str, _arg: object) -> None:
        count[0] += event in ("call", "c_call")

    before, collects = sys.getprofile(), gc.isenabled()
    # A garbage collection calls its callbacks at any time.
    gc.disable()
    sys.setprofile(called)
    try:
        yield count
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()

"""Stand-ins for the accumulator's parts: a sticky partitioner that draws the lowest partition, and sinks."""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import Any

from aiokproto.producer.sink import Sinks
from aiokproto.producer.sticky import StickyPartitioner
from aiokproto.runtime import Runtime


class Lowest(Random):
    """Draws the first of several."""

    def choice(self, seq: Any) -> Any:
        return seq[0]

    def choices(self, population: Any, *args: Any, **kwargs: Any) -> Any:
        return [population[0]]


class FreeSinks(Sinks):
    """Sinks that have capacity, but for some nodes, and send nothing."""

    def __init__(self, busy: Collection[int] = ()) -> None:
        self.busy = busy

    def has_capacity(self, node: int) -> bool:
        return node not in self.busy


def lowest() -> StickyPartitioner:
    return StickyPartitioner(lambda: Runtime(Lowest()))

"""A sticky partitioner that draws the lowest partition."""

from __future__ import annotations

from random import Random
from typing import Any

from aiokproto.producer.sticky import StickyPartitioner
from aiokproto.runtime import Runtime


class Lowest(Random):
    """Draws the first of several."""

    def choice(self, seq: Any) -> Any:
        return seq[0]

    def choices(self, population: Any, *args: Any, **kwargs: Any) -> Any:
        return [population[0]]


def lowest() -> StickyPartitioner:
    return StickyPartitioner(lambda: Runtime(Lowest()))

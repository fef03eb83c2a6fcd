"""Long-running work in steps: a generator yields after each item, so its caller can pause there.

The names of such generators end in -ing: ``refusing`` does what ``refuse`` does.
"""

from __future__ import annotations

from collections.abc import Generator

# typing isn't imported, for the reason in ``schema``.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import TypeAlias, TypeVar

    T = TypeVar("T")
    Steps: TypeAlias = Generator[None, None, T]
else:
    Steps = Generator


def finish(steps: Steps[T]) -> T:
    """Run all steps without pausing, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result

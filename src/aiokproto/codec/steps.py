"""Long work in steps: a generator yields after each item, so that its caller can pause there.

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
    """Do all steps without a pause, and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result

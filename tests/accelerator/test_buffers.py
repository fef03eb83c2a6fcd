"""Room for an answer, in both forms."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aiokproto.codec.schema import Buffer
from tests.accelerator.twins import each_form

each_room = pytest.mark.parametrize("room", each_form("aiokproto.net.protocol", "room"))


@each_room
@pytest.mark.parametrize("size", [0, 1, 100_000, 8 << 20])
def test_room_is_there_to_be_written(room: Callable[[int], Buffer], size: int) -> None:
    """The forms differ in what the room is made of: only views of it are used."""
    found = memoryview(room(size))
    assert (len(found), found.format, found.readonly) == (size, "B", False)
    found[:] = (data := b"z" * size)
    assert found == data


@each_room
def test_no_room_is_of_negative_size(room: Callable[[int], Buffer]) -> None:
    with pytest.raises(ValueError):
        room(-1)

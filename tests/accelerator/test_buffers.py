"""Room for an answer, in both forms."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.accelerator.twins import each_form

each_room = pytest.mark.parametrize("room", each_form("aiokproto.net.protocol", "room"))


@each_room
@pytest.mark.parametrize("size", [0, 1, 100_000, 8 << 20])
def test_room_is_there_to_be_written(room: Callable[[int], bytearray], size: int) -> None:
    found = room(size)
    assert len(found) == size
    found[:] = (data := b"z" * size)
    assert memoryview(found) == data


@each_room
def test_no_room_is_of_negative_size(room: Callable[[int], bytearray]) -> None:
    with pytest.raises(ValueError):
        room(-1)

"""Buffers of announced frames, in both forms."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.accelerator.forms import each_form

each_buffer = pytest.mark.parametrize("buffer", each_form("aiokproto.codec.frames", "frame_buffer"))


@each_buffer
@pytest.mark.parametrize("size", [0, 1, 100_000, 8 << 20])
def test_a_buffer_is_there_to_be_written(buffer: Callable[[int], memoryview], size: int) -> None:
    found = buffer(size)
    assert (len(found), found.format, found.readonly) == (size, "B", False)
    found[:] = (data := b"z" * size)
    assert found == data


@each_buffer
def test_no_buffer_is_of_negative_size(buffer: Callable[[int], memoryview]) -> None:
    with pytest.raises(ValueError):
        buffer(-1)

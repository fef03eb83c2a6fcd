"""CRC-32C, and the checksum of what is known by its checksums only; both forms."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.records import crc
from aiokproto.records.crc import crc32c
from tests.accelerator.forms import each_form

Join = Callable[[int, int, int], int]

each_join = pytest.mark.parametrize("join", each_form("aiokproto.records.crc", "join"))


def test_the_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_the_library_is_loaded_without_its_package() -> None:
    """Whose import takes tens of milliseconds, most likely in an event loop."""
    code = "import sys; from aiokproto.records.crc import crc32c; print(crc32c(b'123456789'), 'crc32c' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(0xE3069283), "False"]


def test_a_library_with_another_layout_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nowhere:
        @staticmethod
        def find_spec(name: str, path: object = None) -> None:
            return None

    monkeypatch.setattr(crc, "PathFinder", Nowhere)
    assert crc._load()(b"123456789") == 0xE3069283


@each_join
@given(first=st.binary(max_size=300), second=st.binary(max_size=3000))
def test_joined_checksums_are_that_of_the_whole(join: Join, first: bytes, second: bytes) -> None:
    assert join(crc32c(first), crc32c(second), len(second)) == crc32c(first + second)


@each_join
@pytest.mark.parametrize("length", [0, 1, 255, 256, 65_536, 10_000_019])
def test_joined_checksums_of_much(join: Join, length: int) -> None:
    assert join(crc32c(b"head"), crc32c(bytes(length)), length) == crc32c(b"head" + bytes(length))


@each_join
@given(parts=st.tuples(*[st.integers(0, 2**32 - 1)] * 3), lengths=st.tuples(*[st.integers(0, 2**50)] * 2))
def test_joining_is_associative(join: Join, parts: tuple[int, int, int], lengths: tuple[int, int]) -> None:
    """Also for lengths that are too large to compute the checksum directly."""
    first, second, third = parts
    middle, last = lengths
    left = join(join(first, second, middle), third, last)
    assert left == join(first, join(second, third, last), middle + last)

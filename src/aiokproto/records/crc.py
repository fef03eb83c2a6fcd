"""CRC-32C (Castagnoli), the checksum of record batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from threading import Lock

from aiokproto.accelerator import has_compiled_form

Compute = Callable[["bytes | bytearray | memoryview"], int]

_compute: Compute | None = None
_loading = Lock()

# The bits of a checksum are the coefficients of a polynomial. The highest bit belongs to x^0.
_POLYNOMIAL = 0x82F63B78
_ONE = 1 << 31
_X = 1 << 30


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """Return the CRC-32C of ``data``. The GIL is released for long data."""
    global _compute
    # Load the library on first use: a client that reads and writes nothing doesn't need it.
    if _compute is None:
        # Like `import`, this loads the module once, even if several threads get here.
        with _loading:
            _compute = _compute or _load()
    return _compute(data)


def _load() -> Compute:
    """Return the library's compiled function without importing its package, which also imports its command line.

    That takes tens of milliseconds, for which the first produced batch would block the event loop.
    """
    package = PathFinder.find_spec("crc32c")
    if package is not None:
        extension = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if extension is not None and extension.loader is not None:
            module = module_from_spec(extension)
            extension.loader.exec_module(module)
            direct: Compute = module.crc32c
            return direct
    # The package is laid out differently, or is missing. A plain import then works, or raises the proper error.
    from crc32c import crc32c as compute

    return compute


@has_compiled_form
def join(first: int, second: int, length: int) -> int:
    """Return the checksum of two adjacent pieces of data from the checksums of the pieces.

    Args:
        first: The checksum of the first piece.
        second: The checksum of the second piece.
        length: Size of the second piece in bytes, up to 2**60.
    """
    # Appending `length` zero bytes multiplies the first checksum by x^(8·length). Then add the second one.
    power = _ONE
    for bit in range(length.bit_length()):
        if length >> bit & 1:
            # Each byte is a multiplication by x^8.
            power = _multiply(_squares()[bit + 3], power)
    return _multiply(power, first) ^ second


def _multiply(a: int, b: int) -> int:
    """Return the product of two polynomials, modulo the polynomial of the checksum."""
    product = 0
    # Long division bit by bit, in the reflected order of this CRC.
    while a:
        if a & _ONE:
            product ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ _POLYNOMIAL if b & 1 else b >> 1
    return product


@cache
def _squares() -> tuple[int, ...]:
    """Return x, x^2, x^4, and so on, each the square of the one before."""
    powers = [_X]
    for _ in range(63):
        powers.append(_multiply(powers[-1], powers[-1]))
    return tuple(powers)

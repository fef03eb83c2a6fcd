"""Converts command line input to bytes, and bytes to frames."""

from __future__ import annotations

import os
import re
import sys
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from struct import Struct as Packer
from typing import NamedTuple

from aiokproto.cli.codec.names import InputError, UsageError

_LENGTH = Packer(">i")
_SPACE = re.compile(rb"\s+")
# The common notations of hex dumps: 0x000a; 0x00 0x0a; 00, 0a; 00:0a.
_BETWEEN_DIGITS = re.compile(rb"(?<![^\s,:])0[xX]|[\s,:]+")
_HALF_A_BYTE = re.compile(rb"(?<![^\s,:])0[xX](?:[0-9a-fA-F]{2})*[0-9a-fA-F](?![0-9a-fA-F])")
_HEX = re.compile(rb"(?:[0-9a-fA-F]{2})*")
_DIGITS = re.compile(rb"[0-9a-fA-F]{8,}")
_BASE64 = re.compile(rb"[A-Za-z0-9+/]+={0,2}")


class Frame(NamedTuple):
    """A frame in the input.

    Attributes:
        offset: The frame's position in the input, after its length.
        data: The frame's bytes, without a length.
        fault: Why the frame is incomplete. Empty if it's complete.
    """

    offset: int
    data: memoryview
    fault: str = ""


def read_bytes(source: str, form: str = "auto") -> bytes:
    """Return the bytes of ``source``: the text itself, ``@file``, or ``-`` for standard input.

    Args:
        source: The command line argument.
        form: ``hex``, ``base64``, ``binary``, or ``auto``, which tries hex, then base64, and otherwise, for a file or
            standard input, uses the bytes as they are. Whitespace in text is ignored, and so are ``0x``, commas and
            colons in hex.

    Raises:
        UsageError: ``binary`` is given for text.
        InputError: The input isn't in that form.
        OSError: The file can't be read.
    """
    if source == "-":
        raw, origin = sys.stdin.buffer.read(), "standard input"
    elif source.startswith("@"):
        raw, origin = Path(source[1:]).read_bytes(), source[1:]
    else:
        raw, origin = source.encode("utf-8", "surrogateescape"), "the input"
        if form == "binary":
            raise UsageError("binary input comes from a @file or from - (standard input)")
    if form == "binary":
        return raw
    digits = _BETWEEN_DIGITS.sub(b"", raw)
    is_hex = _HEX.fullmatch(digits) and form in ("auto", "hex")
    if is_hex and not _HALF_A_BYTE.search(raw):
        return bytes.fromhex(digits.decode())
    if is_hex or (form == "auto" and _DIGITS.fullmatch(digits)):
        raise InputError(f"{origin} has an odd number of hex digits")
    text = _SPACE.sub(b"", raw)
    # Base64 copied from logs is often the URL-safe variant.
    standard = text.translate(bytes.maketrans(b"-_", b"+/"))
    if form in ("auto", "base64") and _BASE64.fullmatch(standard) and len(standard.rstrip(b"=")) % 4 != 1:
        return b64decode(standard.rstrip(b"=") + b"=" * (-len(standard.rstrip(b"=")) % 4))
    if form == "auto" and (source == "-" or source.startswith("@")):
        return raw
    # Path.exists() raises if the text is too long to be a file name.
    hint = f"; the file of that name is @{source}" if os.path.exists(source) else ""  # noqa: PTH110
    raise InputError(f"{origin} is {'neither hex nor base64' if form == 'auto' else f'no {form}'}{hint}")


def split(data: bytes, framing: str, is_bare: Callable[[memoryview], bool], *, bare_first: bool = False) -> list[Frame]:
    """Return the frames of an input.

    Args:
        data: The whole input.
        framing: ``length`` if each frame follows its length, ``none`` if the input is one frame without a length,
            ``auto`` to detect it.
        is_bare: Whether the whole input is valid as one frame without a length.
        bare_first: Whether to call ``is_bare`` first. Otherwise it's called only if the lengths don't add up to the end
            of the input.

    Raises:
        InputError: The input is empty.
    """
    view = memoryview(data)
    if not data:
        raise InputError("the input is empty")
    if framing == "none" or (framing == "auto" and bare_first and is_bare(view)):
        return [Frame(0, view)]
    frames = _walk(view)
    if framing == "length" or not frames[-1].fault:
        return frames
    # If the first length is impossible, it isn't a length. Otherwise the input was truncated, unless it's valid as a
    # whole.
    impossible = len(frames) == 1 and not frames[0].data
    return [Frame(0, view)] if impossible or is_bare(view) else frames


def _walk(view: memoryview) -> list[Frame]:
    """Return the frames according to their lengths. If the lengths don't add up to the end, the last frame has a
    fault."""
    frames: list[Frame] = []
    pos = 0
    while pos < len(view):
        start = pos + _LENGTH.size
        if start > len(view):
            return [*frames, Frame(pos, view[:0], f"{len(view) - pos} bytes are too few for its length")]
        (size,) = _LENGTH.unpack_from(view, pos)
        if size <= 0:
            return [*frames, Frame(start, view[:0], f"its length cannot be {size}")]
        pos = start + size
        fault = f"its length is {size}, but only {len(view) - start} bytes are there" if pos > len(view) else ""
        frames.append(Frame(start, view[start:pos], fault))
    return frames

"""Generates the encoder and decoder of a message version.

For each message version that is used, it generates flat Python functions: nested structs are inlined, adjacent
fixed-size fields share one ``unpack_from``, and only lengths are checked. On bad input the functions may raise any
exception; ``explain`` then walks the same schema slowly to find the field. ``Message.source(version)`` prints the code,
and :mod:`linecache` shows it in tracebacks.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from aiokproto.codec import wire
from aiokproto.codec.generate import DecoderWriter, EncoderWriter
from aiokproto.codec.limits import OverLimit, worst

if TYPE_CHECKING:
    from aiokproto.codec.schema import Message, Struct
    from aiokproto.codec.steps import Steps


def compile_decoder(message: type[Message], version: int) -> tuple[Callable[[Any, int], tuple[Any, int]], int]:
    """Return ``decode(data, pos) -> (message, end)`` for a version, and the maximum memory per input byte that it can
    take."""
    writer = DecoderWriter(version, version in message.flexible)
    title = f"{message.__name__} v{version} decode"
    decode: Callable[[Any, int], tuple[Any, int]] = _build(writer.function(message), "decode", writer.names, title)
    return decode, worst(message, version)


@lru_cache(maxsize=256)
def compile_careful_decoder(message: type[Message], version: int) -> Callable[[Any, int, int], Steps[tuple[Any, int]]]:
    """Return ``decode(data, pos, memory)`` for a version. It runs in steps, returns (message, end), and raises before
    it takes more than ``memory`` bytes."""
    writer = DecoderWriter(version, version in message.flexible, careful=True)
    title = f"{message.__name__} v{version} decode, careful"
    decode: Callable[[Any, int, int], Steps[tuple[Any, int]]]
    decode = _build(writer.function(message), "decode", writer.names, title)
    return decode


def compile_encoder(message: type[Message], version: int) -> Callable[[Any, bytearray], None]:
    """Return ``encode(message, out)`` for a version."""
    writer = EncoderWriter(version, version in message.flexible)
    title = f"{message.__name__} v{version} encode"
    encode: Callable[[Any, bytearray], None] = _build(writer.function(message), "encode", writer.names, title)
    return encode


@lru_cache(maxsize=256)
def compile_careful_encoder(message: type[Message], version: int) -> Callable[[Any, bytearray], Steps[None]]:
    """Return ``encode(message, out)`` for a version. It runs in steps."""
    writer = EncoderWriter(version, version in message.flexible, careful=True)
    title = f"{message.__name__} v{version} encode, careful"
    encode: Callable[[Any, bytearray], Steps[None]] = _build(writer.function(message), "encode", writer.names, title)
    return encode


def compile_init(struct: type[Struct]) -> Callable[..., None]:
    """Return the keyword-only ``__init__`` of a struct."""
    names: dict[str, Any] = {}
    parameters, body = [], []
    for spec in struct.fields():
        if spec.factory is not None:
            # The default is a sentinel and not None, because null is a separate value on the wire.
            parameters.append(f"{spec.name}=MISSING")
            new = "[]"
            if spec.factory is not list:
                names[f"make_{spec.name}"] = spec.factory
                new = f"make_{spec.name}()"
            value = f"{new} if {spec.name} is MISSING else {spec.name}"
        else:
            names[f"default_{spec.name}"] = spec.default
            parameters.append(f"{spec.name}=default_{spec.name}")
            value = spec.name
        body.append(f"    self.{spec.name} = {value}")
    star = "*, " if parameters else ""
    lines = [f"def __init__(self, {star}{', '.join([*parameters, 'unknown_tags=None'])}):", *body]
    if not parameters:
        lines[0] = "def __init__(self, *, unknown_tags=None):"
    lines.append("    self.unknown_tags = unknown_tags")
    init: Callable[..., None] = _build(lines, "__init__", names, f"{struct.__name__}.__init__")
    init.__qualname__ = f"{struct.__name__}.__init__"
    return init


def source(message: type[Message], version: int) -> str:
    """Return the generated code of a version's encoder and decoder."""
    flexible = version in message.flexible
    encoder = EncoderWriter(version, flexible).function(message)
    decoder = DecoderWriter(version, flexible).function(message)
    return "\n".join([*encoder, "", "", *decoder, ""])


_RUNTIME: dict[str, Any] = {
    "MISSING": object(),
    "OverLimit": OverLimit,
    "read_tag": wire.read_tag,
    "read_tags": wire.read_tags,
    "read_uvarint": wire.read_uvarint,
    "reading_tags": wire.reading_tags,
    "write_tags": wire.write_tags,
    "write_uuids": wire.write_uuids,
    "write_uvarint": wire.write_uvarint,
    "ZERO_UUID": wire.ZERO_UUID,
}


def _build(lines: list[str], name: str, names: dict[str, Any], title: str) -> Any:
    text = "\n".join(lines) + "\n"
    filename = f"<aiokproto {title}>"
    # Each function has its own scope, so one version doesn't see another's names.
    scope: dict[str, Any] = {"__name__": "aiokproto.codec.generated", **_RUNTIME, **names}
    exec(compile(text, filename, "exec"), scope)
    # With None as the time, linecache.checkcache() keeps the entry although there is no file.
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    return scope[name]

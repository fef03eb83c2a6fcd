"""The base of the decoder and encoder writers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from aiokproto.codec.wire import FORMATS, packer

if TYPE_CHECKING:
    from aiokproto.codec.schema import FieldSpec, Struct


def is_made_of_fields(spec: FieldSpec) -> bool:
    """Whether the field's default is a struct of defaults, rather than null, a number or a list."""
    return spec.struct is not None and not spec.array and spec.factory is not None


class Writer:
    """Collects indented lines, and the names that the code refers to."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.depth = 1
        self._serial = 0

    def line(self, text: str) -> None:
        """Add a line at the current depth."""
        self.lines.append("    " * self.depth + text)

    def block(self, text: str) -> _Block:
        """Add the line that starts a block; the ``with`` body is indented."""
        self.line(text)
        return _Block(self)

    def fresh(self, prefix: str) -> str:
        """Return a local name that is not used yet."""
        self._serial += 1
        return f"{prefix}{self._serial}"

    def new(self, struct: type[Struct]) -> str:
        """Return an expression for an instance with nothing set."""
        name = f"new_{struct.__name__}"
        self.names[name] = partial(object.__new__, struct)
        return f"{name}()"

    def pack(self, formats: str) -> str:
        """Return the name of a function that packs values of these formats."""
        name = f"pack_{letters(formats)}"
        self.names[name] = packer(formats).pack
        return name

    def unpack(self, formats: str) -> str:
        """Return the name of a function that unpacks values of these formats at a position."""
        name = f"unpack_{letters(formats)}"
        self.names[name] = packer(formats).unpack_from
        return name

    def length_format(self, spec: FieldSpec) -> str:
        """Return the format that a length or count starts with: a varint's first byte, or all of it."""
        if self.compact(spec):
            return "B"
        return "h" if spec.kind == "string" and not spec.array else "i"

    def present(self, spec: FieldSpec) -> bool:
        """Return whether this version contains the field."""
        return self.version in spec.versions

    def nullable(self, spec: FieldSpec) -> bool:
        """Return whether the field can be null in this version."""
        return self.version in spec.nullable

    def compact(self, spec: FieldSpec) -> bool:
        """Return whether lengths are unsigned varints, plus one (KIP-482)."""
        return self.flexible and spec.flexible

    def runs(self, struct: type[Struct]) -> list[list[FieldSpec]]:
        """Return the untagged fields of this version. Adjacent fixed-size fields are grouped together."""
        runs: list[list[FieldSpec]] = []
        for spec in struct.fields():
            if not self.present(spec) or spec.tag is not None:
                continue
            if is_fixed(spec) and runs and is_fixed(runs[-1][-1]):
                runs[-1].append(spec)
            else:
                runs.append([spec])
        return runs

    def tagged(self, struct: type[Struct]) -> list[FieldSpec]:
        """Return the tagged fields of this version, in order of tag."""
        found = [spec for spec in struct.fields() if self.present(spec) and spec.tag is not None]
        return sorted(found, key=lambda spec: spec.tag or 0)


class _Block:
    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    def __enter__(self) -> None:
        self.writer.depth += 1

    def __exit__(self, *_: object) -> None:
        self.writer.depth -= 1


def letters(formats: str) -> str:
    """Return formats as part of a name: U for a uuid, T for a bool."""
    return formats.replace("16s", "U").replace("?", "T")


def is_fixed(spec: FieldSpec) -> bool:
    """Whether the field always takes the same number of bytes."""
    return not spec.array and spec.kind in FORMATS


def is_counted(spec: FieldSpec) -> bool:
    """Whether the field starts with its length or count."""
    return spec.array or (spec.struct is None and spec.kind not in FORMATS)

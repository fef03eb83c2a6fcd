"""Find the field that a compiled encoder or decoder failed on, by a slow walk over the schema.

The compiled codecs check just enough to be safe. When one fails, the same bytes or values are walked once more here,
field by field, to name the first field that does not fit. No objects are built.
"""

from __future__ import annotations

from struct import error as struct_error
from typing import TYPE_CHECKING, Any

from aiokproto.codec import wire
from aiokproto.codec.limits import TAG, TAGS, item_cost
from aiokproto.codec.steps import finish
from aiokproto.codec.wire import FORMATS, packer
from aiokproto.errors import DecodeError, EncodeError

if TYPE_CHECKING:
    from aiokproto.codec.schema import FieldSpec, Message, Struct
    from aiokproto.codec.steps import Steps


class _Mismatch(Exception):
    """The first field that does not match the schema."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path = path
        self.why = why


def explain_decode(
    message: type[Message], data: Any, pos: int, version: int, limits: wire.Limits, cause: Exception
) -> DecodeError:
    """Return an error that names the message, version, field path and position of the bytes that a decoder rejected."""
    return finish(explaining_decode(message, data, pos, version, limits, cause))


def explaining_decode(
    message: type[Message], data: Any, pos: int, version: int, limits: wire.Limits, cause: Exception
) -> Steps[DecodeError]:
    """Like :func:`explain_decode`, but in steps."""
    walker = _Walker(memoryview(data).cast("B"), pos, version, version in message.flexible, limits.memory)
    title = f"{message.__name__} v{version}"
    try:
        yield from walker.struct(message, "")
    except _Mismatch as found:
        return DecodeError(
            f"{title}: {found.path.lstrip('.') or 'body'} at byte {walker.pos} of {len(data)}: {found.why}"
        )
    return DecodeError(f"{title}: cannot be decoded: {cause!r}")


class _Walker:
    """Walks a schema over bytes without building objects."""

    def __init__(self, data: memoryview, pos: int, version: int, flexible: bool, memory: int) -> None:
        self.data = data
        self.pos = pos
        self.version = version
        self.flexible = flexible
        self.memory = memory
        self.limit = memory
        self.present: dict[type[Struct], list[FieldSpec]] = {}

    def struct(self, struct: type[Struct], path: str) -> Steps[None]:
        if struct not in self.present:
            self.present[struct] = [spec for spec in struct.fields() if self.version in spec.versions]
        for spec in self.present[struct]:
            if spec.tag is None:
                yield from self.field(spec, f"{path}.{spec.name}")
        if self.flexible:
            yield from self.tag_section(struct, path)

    def field(self, spec: FieldSpec, path: str) -> Steps[None]:
        compact = self.flexible and spec.flexible
        if spec.array:
            count = self.length(path, compact, short=False, nullable=self.version in spec.nullable)
            left = len(self.data) - self.pos
            if count > left:
                raise _Mismatch(path, f"a count of {count}, more than the {left} bytes left")
            self.spend(count * item_cost(spec), f"{count} items", path)
            if spec.kind in FORMATS:
                self.take(count * packer(FORMATS[spec.kind]).size, path, f"{count} {spec.kind}")
                return
            item = spec.item
            for index in range(count):
                yield from self.single(item, f"{path}[{index}]")
                yield
        else:
            yield from self.single(spec, path)

    def single(self, spec: FieldSpec, path: str) -> Steps[None]:
        if spec.struct is not None:
            if self.version not in spec.nullable or self.marker(spec, path):
                yield from self.struct(spec.struct, path)
        elif spec.kind in FORMATS:
            self.take(packer(FORMATS[spec.kind]).size, path, spec.kind)
        else:
            short = spec.kind == "string"
            nullable = self.version in spec.nullable or spec.kind == "recordset"
            size = self.length(path, self.flexible and spec.flexible, short=short, nullable=nullable)
            if short and size > wire.MAX_STRING:
                raise _Mismatch(path, f"a string of {size} bytes; the protocol allows {wire.MAX_STRING}")
            start = self.pos
            self.take(size, path, spec.kind)
            if short:
                try:
                    str(self.data[start : self.pos], "utf-8")
                except UnicodeDecodeError as error:
                    raise _Mismatch(path, f"not UTF-8: {error.reason}") from None

    def spend(self, cost: int, what: str, path: str) -> None:
        """Count memory like a counting decoder (see ``limits``)."""
        self.memory -= cost
        if self.memory < 0:
            raise _Mismatch(path, f"{what} would bring the memory taken above the limit of {self.limit} bytes")

    def marker(self, spec: FieldSpec, path: str) -> bool:
        """Read the byte before a nullable struct. Return whether the struct follows."""
        value = self.data[self.take(1, path, "null marker")]
        if value not in (1, 255 if spec.tag is None else 0):
            raise _Mismatch(path, f"null marker {value}")
        return value == 1

    def take(self, size: int, path: str, what: str) -> int:
        left = len(self.data) - self.pos
        if size > left:
            raise _Mismatch(path, f"{what} needs {size} bytes, {left} are left")
        start = self.pos
        self.pos += size
        return start

    def uvarint(self, path: str) -> int:
        try:
            value, self.pos = wire.read_uvarint(self.data, self.pos)
        except IndexError:
            raise _Mismatch(path, "the data ends inside a varint") from None
        except ValueError:
            raise _Mismatch(path, "a varint of more than 32 bits") from None
        return value

    def length(self, path: str, compact: bool, *, short: bool, nullable: bool) -> int:
        """Read a length or count. Null counts as 0."""
        if compact:
            value = self.uvarint(path) - 1
        else:
            form = packer("h" if short else "i")
            (value,) = form.unpack_from(self.data, self.take(form.size, path, "length"))
        if value < -1 or (value == -1 and not nullable):
            raise _Mismatch(path, "null, but the field is not nullable" if value == -1 else f"length {value}")
        return max(value, 0)

    def tag_section(self, struct: type[Struct], path: str) -> Steps[None]:
        count = self.uvarint(f"{path}.tags")
        if count * 2 > len(self.data) - self.pos:
            raise _Mismatch(f"{path}.tags", f"{count} tagged fields in {len(self.data) - self.pos} bytes")
        if not count:
            return
        self.spend(TAGS + TAG * count, f"{count} tagged fields", f"{path}.tags")
        known = {spec.tag: spec for spec in self.present[struct] if spec.tag is not None}
        last = -1
        for _ in range(count):
            tag = self.uvarint(f"{path}.tags")
            if tag <= last:
                raise _Mismatch(f"{path}.tags", f"tag {tag} after tag {last}")
            last = tag
            size = self.uvarint(f"{path}.tags")
            start = self.pos
            spec = known.get(tag)
            field_path = f"{path}.{spec.name if spec else f'tag {tag}'}"
            self.take(size, field_path, "tagged field")
            if spec is not None:
                stop, self.pos = self.pos, start
                yield from self.field(spec, field_path)
                if self.pos != stop:
                    raise _Mismatch(field_path, f"takes {self.pos - start} bytes, but its tagged field has {size}")
            yield


def explain_encode(message: Message, version: int, cause: Exception) -> EncodeError:
    """Return an error that names the message, version and field path of the value that an encoder rejected."""
    title = f"{type(message).__name__} v{version}"
    try:
        _check_struct(message, version, version in type(message).flexible, "")
    except _Mismatch as found:
        return EncodeError(f"{title}: {found.path.lstrip('.') or 'body'}: {found.why}")
    return EncodeError(f"{title}: cannot be encoded: {cause!r}")


def check_structs(message: Message) -> None:
    """Check that all nested values are structs of the declared types, so code can walk the message by its fields.

    Raises:
        EncodeError: A value isn't. Names the message and the field path, as encoding would.
    """
    try:
        _check_nested(message, "")
    except _Mismatch as found:
        raise EncodeError(f"{type(message).__name__}: {found.path.lstrip('.')}: {found.why}") from None


def _check_nested(value: Struct, path: str) -> None:
    for spec in type(value).fields():
        item = getattr(value, spec.name)
        if item is None or not (spec.array or spec.struct):
            continue
        field_path = f"{path}.{spec.name}"
        if spec.array:
            _check_list(item, field_path)
        for index, each in enumerate(item if spec.array else (item,)):
            item_path = f"{field_path}[{index}]" if spec.array else field_path
            if spec.struct is not None:
                _check_type(each, spec.struct, item_path)
                _check_nested(each, item_path)


def _check_list(value: Any, path: str) -> None:
    if isinstance(value, (str, bytes, bytearray, memoryview)) or not hasattr(value, "__len__"):
        raise _Mismatch(path, f"expected a list, got {_brief(value)}")


def _check_type(value: Any, struct: type[Struct], path: str) -> None:
    if not isinstance(value, struct):
        raise _Mismatch(path, f"expected {struct.__name__}, got {_brief(value)}")


def _check_struct(value: Struct, version: int, flexible: bool, path: str) -> None:
    known: set[int | None] = set()
    for spec in type(value).fields():
        field_path = f"{path}.{spec.name}"
        if not hasattr(value, spec.name):
            raise _Mismatch(field_path, "not set")
        item = getattr(value, spec.name)
        if version in spec.versions:
            known.add(spec.tag)
            _check_field(spec, item, version, flexible, field_path)
        elif not spec.ignorable and item != spec.default_value():
            raise _Mismatch(
                field_path, f"{_brief(item)} would be lost: this version lacks the field (versions {spec.versions})"
            )
    tags = value.unknown_tags
    if tags and not flexible:
        raise _Mismatch(f"{path}.unknown_tags", "this version has no tagged fields")
    for tag in tags or {}:
        if tag in known:
            raise _Mismatch(f"{path}.unknown_tags", f"tag {tag} is a field of this version")


def _check_field(spec: FieldSpec, value: Any, version: int, flexible: bool, path: str) -> None:
    if value is None:
        if version not in spec.nullable and spec.kind != "recordset":
            raise _Mismatch(path, "None, but the field is not nullable in this version")
    elif spec.array:
        _check_list(value, path)
        for index, item in enumerate(value):
            _check_field(spec.item, item, version, flexible, f"{path}[{index}]")
    elif spec.struct is not None:
        _check_type(value, spec.struct, path)
        _check_struct(value, version, flexible, path)
    else:
        _check_basic(spec.kind, value, path)


def _check_basic(kind: str, value: Any, path: str) -> None:
    if kind == "string":
        if not isinstance(value, str):
            raise _Mismatch(path, f"expected str, got {_brief(value)}")
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            raise _Mismatch(path, f"cannot be written as UTF-8: {error.reason}") from None
        if size > wire.MAX_STRING:
            raise _Mismatch(path, f"a string of {size} bytes; the protocol allows {wire.MAX_STRING}")
    elif kind in ("bytes", "recordset", "uuid"):
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise _Mismatch(path, f"expected bytes, got {_brief(value)}")
        if kind == "uuid" and len(value) != 16:
            raise _Mismatch(path, f"a uuid is 16 bytes, not {len(value)}")
    else:
        try:
            packer(FORMATS[kind]).pack(value)
        except (struct_error, TypeError, OverflowError):
            raise _Mismatch(path, f"{_brief(value)} does not fit {kind}") from None


def _brief(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"

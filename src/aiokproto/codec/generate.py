"""Writes the source of one decoder or encoder. Only text here; ``compiler`` turns it into functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiokproto.codec.schema import MISSING
from aiokproto.codec.wire import FORMATS, MAX_STRING, ZERO_UUID, packer

if TYPE_CHECKING:
    from aiokproto.codec.schema import FieldSpec, Message, Struct


def minimal_size(struct: type[Struct], version: int, flexible: bool) -> int:
    """The fewest bytes an instance takes: what bounds a hostile count."""
    size = 1 if flexible else 0
    for spec in struct.fields():
        if version in spec.versions and spec.tag is None:
            compact = flexible and spec.flexible
            if spec.array or spec.kind in ("string", "bytes", "recordset"):
                size += 1 if compact else (2 if spec.kind == "string" and not spec.array else 4)
            elif spec.struct is not None:
                size += 1 if version in spec.nullable else minimal_size(spec.struct, version, flexible)
            else:
                size += packer(FORMATS[spec.kind]).size
    return max(size, 1)


def is_made_of_fields(spec: FieldSpec) -> bool:
    """Whether the field's default is a struct of defaults, rather than null, a number or a list."""
    return spec.struct is not None and not spec.array and spec.default is MISSING


class _Writer:
    """Lines with indentation, and the names the code refers to."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.depth = 1
        self._serial = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def block(self, text: str) -> _Block:
        self.line(text)
        return _Block(self)

    def fresh(self, prefix: str) -> str:
        self._serial += 1
        return f"{prefix}{self._serial}"

    def named(self, prefix: str, value: Any) -> str:
        name = (
            f"{prefix}_{value.__name__}"
            if isinstance(value, type)
            else f"{prefix}_{value.replace('16s', 'U').replace('?', 'B')}"
        )
        self.names[name] = value
        return name

    def present(self, spec: FieldSpec) -> bool:
        return self.version in spec.versions

    def nullable(self, spec: FieldSpec) -> bool:
        return self.version in spec.nullable

    def compact(self, spec: FieldSpec) -> bool:
        return self.flexible and spec.flexible

    def runs(self, struct: type[Struct]) -> list[list[FieldSpec]]:
        """The untagged fields of this version; adjacent fixed-size ones together."""
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
        found = [spec for spec in struct.fields() if self.present(spec) and spec.tag is not None]
        return sorted(found, key=lambda spec: spec.tag or 0)


class _Block:
    def __init__(self, writer: _Writer) -> None:
        self.writer = writer

    def __enter__(self) -> None:
        self.writer.depth += 1

    def __exit__(self, *_: object) -> None:
        self.writer.depth -= 1


def is_fixed(spec: FieldSpec) -> bool:
    """Whether the field always takes the same number of bytes."""
    return not spec.array and spec.kind in FORMATS


class DecoderWriter(_Writer):
    """``decode(data, pos)``: reads front to back; ``pos`` is where it is."""

    def function(self, message: type[Message]) -> list[str]:
        self.lines = ["def decode(data, pos):"]
        if message.in_place(self.version):
            self.line("view = memoryview(data)")
            self.line("data = view.obj if type(view.obj) is bytes and view.nbytes == len(view.obj) else view")
        self.line("size = len(data)")
        self.struct(message, "m")
        self.line("return m, pos")
        return self.lines

    def struct(self, struct: type[Struct], target: str) -> None:
        self.line(f"{target} = new({self.named('new', struct)})")
        for spec in struct.fields():
            if not self.present(spec) or spec.tag is not None:
                self.absent(spec, f"{target}.{spec.name}")
        for run in self.runs(struct):
            if is_fixed(run[0]):
                self.fixed(run, target)
            else:
                self.value(run[0], f"{target}.{run[0].name}")
        self.line(f"{target}.unknown_tags = None")
        if self.flexible:
            self.tag_section(struct, target)

    def absent(self, spec: FieldSpec, target: str) -> None:
        """Give a field that is not there its default. A struct is made in line: its ``__init__`` costs a call."""
        if is_made_of_fields(spec):
            assert spec.struct is not None
            item = self.fresh("s")
            self.line(f"{item} = new({self.named('new', spec.struct)})")
            for inner in spec.struct.fields():
                self.absent(inner, f"{item}.{inner.name}")
            self.line(f"{item}.unknown_tags = None")
            self.line(f"{target} = {item}")
        elif spec.factory is list or (spec.array and spec.required):
            self.line(f"{target} = []")
        else:
            value = spec.default_value()
            self.line(f"{target} = {'ZERO_UUID' if value == ZERO_UUID else repr(value)}")

    def fixed(self, run: list[FieldSpec], target: str) -> None:
        formats = "".join(FORMATS[spec.kind] for spec in run)
        left = ", ".join(f"{target}.{spec.name}" for spec in run)
        self.line(f"{left}, = {self.named('unpack', formats)}(data, pos)")
        self.line(f"pos += {packer(formats).size}")

    def length(self, spec: FieldSpec, name: str, *, short: bool) -> None:
        """Read a length into ``name``; null is -1."""
        if self.compact(spec):
            self.uvarint(name)
            self.line(f"{name} -= 1")
        else:
            self.line(f"{name}, = {self.named('unpack', 'h' if short else 'i')}(data, pos)")
            self.line(f"pos += {2 if short else 4}")

    def uvarint(self, name: str) -> None:
        self.line(f"{name} = data[pos]")
        self.line("pos += 1")
        with self.block(f"if {name} > 127:"):
            self.line(f"{name}, pos = read_uvarint(data, pos - 1)")

    def value(self, spec: FieldSpec, target: str) -> None:
        if spec.array:
            self.array(spec, target)
        elif spec.struct is not None:
            self.nested(spec, target)
        else:
            self.variable(spec, target)

    def variable(self, spec: FieldSpec, target: str) -> None:
        length = self.fresh("n")
        self.length(spec, length, short=spec.kind == "string")
        with self.block(f"if {length} < 0:"):
            if self.nullable(spec) or spec.kind == "recordset":
                self.line(f"if {length} != -1: raise ValueError")
                self.line(f"{target} = None")
            else:
                self.line("raise ValueError")
        with self.block("else:"):
            self.line(f"end = pos + {length}")
            self.line("if end > size: raise IndexError")
            if spec.kind == "string":
                self.line(f"{target} = str(data[pos:end], 'utf-8')")
            elif spec.kind == "recordset":
                self.line(f"{target} = view[pos:end]")
            else:
                self.line(f"{target} = bytes(data[pos:end])")
            self.line("pos = end")

    def array(self, spec: FieldSpec, target: str) -> None:
        count = self.fresh("n")
        self.length(spec, count, short=False)
        with self.block(f"if {count} < 0:"):
            if self.nullable(spec):
                self.line(f"if {count} != -1: raise ValueError")
                self.line(f"{target} = None")
            else:
                self.line("raise ValueError")
        with self.block("else:"):
            if spec.kind in FORMATS:
                code = FORMATS[spec.kind]
                width = packer(code).size
                self.line(f"{target} = read_array({code!r}, {count}, data, pos)")
                self.line(f"pos += {width} * {count}" if width > 1 else f"pos += {count}")
                return
            least = 1 if spec.struct is None else minimal_size(spec.struct, self.version, self.flexible)
            self.line(f"if {count} * {least} > size - pos: raise IndexError")
            items, item = self.fresh("a"), self.fresh("s")
            self.line(f"{target} = {items} = []")
            with self.block(f"for _ in range({count}):"):
                if spec.struct is None:
                    self.variable(spec._replace(array=False), item)
                else:
                    self.struct(spec.struct, item)
                self.line(f"{items}.append({item})")

    def nested(self, spec: FieldSpec, target: str) -> None:
        assert spec.struct is not None
        item = self.fresh("s")
        if not self.nullable(spec):
            self.struct(spec.struct, item)
            self.line(f"{target} = {item}")
            return
        # A null struct is marked by one signed byte, -1; as a tagged field by an unsigned varint, 0.
        present = self.fresh("n")
        self.line(f"{present} = data[pos]")
        self.line("pos += 1")
        absent = 255 if spec.tag is None else 0
        with self.block(f"if {present} == {absent}:"):
            self.line(f"{target} = None")
        with self.block(f"elif {present} != 1:"):
            self.line("raise ValueError")
        with self.block("else:"):
            self.struct(spec.struct, item)
            self.line(f"{target} = {item}")

    def tag_section(self, struct: type[Struct], target: str) -> None:
        specs = self.tagged(struct)
        count = self.fresh("n")
        self.uvarint(count)
        with self.block(f"if {count}:"):
            if not specs:
                self.line(f"{target}.unknown_tags, pos = read_tags(data, pos, {count})")
                return
            tag, last, stop = (self.fresh(x) for x in ("tag", "last", "stop"))
            self.line(f"{last} = -1")
            with self.block(f"for _ in range({count}):"):
                self.line(f"{tag}, {stop}, pos = read_tag(data, pos, {last})")
                self.line(f"{last} = {tag}")
                branch = "if"
                for spec in specs:
                    with self.block(f"{branch} {tag} == {spec.tag}:"):
                        if is_fixed(spec):
                            self.fixed([spec], target)
                        else:
                            self.value(spec, f"{target}.{spec.name}")
                        self.line(f"if pos != {stop}: raise ValueError")
                    branch = "elif"
                with self.block("else:"):
                    self.line(f"if {target}.unknown_tags is None: {target}.unknown_tags = {{}}")
                    self.line(f"{target}.unknown_tags[{tag}] = bytes(data[pos:{stop}])")
                    self.line(f"pos = {stop}")


class EncoderWriter(_Writer):
    """``encode(m, out)``: appends to ``out``."""

    def function(self, message: type[Message]) -> list[str]:
        self.lines = ["def encode(m, out):"]
        self.struct(message, "m", "out")
        self.line("return None")
        return self.lines

    def struct(self, struct: type[Struct], source: str, out: str) -> None:
        for spec in struct.fields():
            if not self.present(spec) and not spec.ignorable:
                self.line(f"if {self.differs(spec, f'{source}.{spec.name}')}: raise ValueError")
        for run in self.runs(struct):
            if is_fixed(run[0]):
                self.fixed(run, source, out)
            else:
                self.value(run[0], f"{source}.{run[0].name}", out)
        if self.flexible:
            self.tag_section(struct, source, out)
        else:
            self.line(f"if {source}.unknown_tags: raise ValueError")

    def differs(self, spec: FieldSpec, source: str) -> str:
        """An expression: the value is not the default."""
        if is_made_of_fields(spec):
            assert spec.struct is not None
            inner = [self.differs(field, f"{source}.{field.name}") for field in spec.struct.fields()]
            return " or ".join([f"{source} is None", *inner, f"{source}.unknown_tags"])
        value = spec.default_value()
        if value is None:
            return f"{source} is not None"
        if spec.array:
            return f"{source} is None or len({source})"
        if value is False or value is True:
            return f"{source} is not {value}"
        return f"{source} != {value!r}"

    def fixed(self, run: list[FieldSpec], source: str, out: str) -> None:
        for spec in run:
            if spec.kind == "uuid":
                self.line(f"if len({source}.{spec.name}) != 16: raise ValueError")
        formats = "".join(FORMATS[spec.kind] for spec in run)
        values = ", ".join(f"{source}.{spec.name}" for spec in run)
        self.line(f"{out} += {self.named('pack', formats)}({values})")

    def length(self, spec: FieldSpec, name: str, out: str, *, short: bool) -> None:
        if not self.compact(spec):
            self.line(f"{out} += {self.named('pack', 'h' if short else 'i')}({name})")
            return
        self.line(f"{name} += 1")
        self.line(f"if {name} < 128: {out}.append({name})")
        self.line(f"else: write_uvarint({out}, {name})")

    def null(self, spec: FieldSpec, out: str, *, short: bool) -> None:
        """Write null, if this version can say it."""
        if not self.nullable(spec) and spec.kind != "recordset":
            self.line("raise ValueError")
        elif self.compact(spec):
            self.line(f"{out}.append(0)")
        else:
            self.line(f"{out} += {self.named('pack', 'h' if short else 'i')}(-1)")

    def value(self, spec: FieldSpec, source: str, out: str) -> None:
        if spec.array:
            self.array(spec, source, out)
        elif spec.struct is not None:
            self.nested(spec, source, out)
        else:
            self.variable(spec, source, out)

    def variable(self, spec: FieldSpec, source: str, out: str) -> None:
        short = spec.kind == "string"
        data, length = self.fresh("b"), self.fresh("n")
        self.line(f"{data} = {source}")
        with self.block(f"if {data} is None:"):
            self.null(spec, out, short=short)
        with self.block("else:"):
            if short:
                self.line(f"{data} = {data}.encode()")
            self.line(f"{length} = len({data})")
            if short and self.compact(spec):
                self.line(f"if {length} > {MAX_STRING}: raise ValueError")
            if not short:
                self.line(f"if type({data}) is str: raise TypeError")
            self.length(spec, length, out, short=short)
            self.line(f"{out} += {data}")

    def array(self, spec: FieldSpec, source: str, out: str) -> None:
        items, count = self.fresh("a"), self.fresh("n")
        self.line(f"{items} = {source}")
        with self.block(f"if {items} is None:"):
            self.null(spec, out, short=False)
        with self.block("else:"):
            self.line(f"{count} = len({items})")
            self.length(spec, count, out, short=False)
            if spec.kind in FORMATS:
                self.line(f"write_array({FORMATS[spec.kind]!r}, {out}, {items})")
                return
            item = self.fresh("s")
            with self.block(f"for {item} in {items}:"):
                if spec.struct is None:
                    self.variable(
                        spec._replace(array=False, nullable=spec.nullable._replace(lowest=1, highest=0)), item, out
                    )
                else:
                    self.struct(spec.struct, item, out)

    def nested(self, spec: FieldSpec, source: str, out: str) -> None:
        assert spec.struct is not None
        item = self.fresh("s")
        self.line(f"{item} = {source}")
        if not self.nullable(spec):
            self.struct(spec.struct, item, out)
            return
        with self.block(f"if {item} is None:"):
            self.line(f"{out}.append({255 if spec.tag is None else 0})")
        with self.block("else:"):
            self.line(f"{out}.append(1)")
            self.struct(spec.struct, item, out)

    def tag_section(self, struct: type[Struct], source: str, out: str) -> None:
        specs = self.tagged(struct)
        unknown = f"{source}.unknown_tags"
        if not specs:
            self.line(f"if {unknown}: write_tags({out}, {unknown})")
            self.line(f"else: {out}.append(0)")
            return
        tags = self.fresh("t")
        known = self.fresh("known")
        self.names[known] = frozenset(spec.tag for spec in specs)
        self.line(f"{tags} = dict({unknown}) if {unknown} else {{}}")
        self.line(f"if not {known}.isdisjoint({tags}): raise ValueError")
        for spec in specs:
            body = self.fresh("o")
            with self.block(f"if {self.differs(spec, f'{source}.{spec.name}')}:"):
                self.line(f"{tags}[{spec.tag}] = {body} = bytearray()")
                if is_fixed(spec):
                    self.fixed([spec], source, body)
                else:
                    self.value(spec, f"{source}.{spec.name}", body)
        self.line(f"if {tags}: write_tags({out}, {tags})")
        self.line(f"else: {out}.append(0)")

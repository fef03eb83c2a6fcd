"""Writes the source of one decoder or encoder. Only text here; ``compiler`` turns it into functions."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from aiokproto.codec import limits
from aiokproto.codec.schema import MISSING
from aiokproto.codec.wire import FORMATS, MAX_STRING, ZERO_UUID, array_packers, array_readers, packer

if TYPE_CHECKING:
    from aiokproto.codec.schema import FieldSpec, Message, Struct


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

    def new(self, struct: type[Struct]) -> str:
        """An expression: an instance with nothing set."""
        name = f"new_{struct.__name__}"
        self.names[name] = struct
        return f"new({name})"

    def pack(self, formats: str) -> str:
        name = f"pack_{_letters(formats)}"
        self.names[name] = packer(formats).pack
        return name

    def unpack(self, formats: str) -> str:
        name = f"unpack_{_letters(formats)}"
        self.names[name] = packer(formats).unpack_from
        return name

    def length_format(self, spec: FieldSpec) -> str:
        """What a length or count begins with: a varint's first byte, or all of it."""
        if self.compact(spec):
            return "B"
        return "h" if spec.kind == "string" and not spec.array else "i"

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


def _letters(formats: str) -> str:
    """A name's part: U for a uuid, T for a bool."""
    return formats.replace("16s", "U").replace("?", "T")


def is_fixed(spec: FieldSpec) -> bool:
    """Whether the field always takes the same number of bytes."""
    return not spec.array and spec.kind in FORMATS


def is_counted(spec: FieldSpec) -> bool:
    """Whether the field begins with its length or count."""
    return spec.array or (spec.struct is None and spec.kind not in FORMATS)


class DecoderWriter(_Writer):
    """``decode(data, pos)``: reads front to back; ``pos`` is where it is.

    A length that follows fixed-size fields is read together with them: ``ahead`` is the name it then has.
    """

    def __init__(self, version: int, flexible: bool, *, counting: bool = False) -> None:
        super().__init__(version, flexible)
        self.counting = counting
        self.ahead = ""

    def function(self, message: type[Message]) -> list[str]:
        self.lines = ["def decode(data, pos, memory):" if self.counting else "def decode(data, pos):"]
        if message.in_place(self.version):
            self.line("view = memoryview(data)")
            self.line("data = view.obj if type(view.obj) is bytes and view.nbytes == len(view.obj) else view")
        self.line("size = len(data)")
        self.struct(message, "m")
        self.line("return m, pos")
        return self.lines

    def struct(self, struct: type[Struct], target: str) -> None:
        self.line(f"{target} = {self.new(struct)}")
        for spec in struct.fields():
            if not self.present(spec) or spec.tag is not None:
                self.absent(spec, f"{target}.{spec.name}")
        runs = self.runs(struct)
        for index, run in enumerate(runs):
            if not is_fixed(run[0]):
                self.value(run[0], f"{target}.{run[0].name}")
            elif index + 1 == len(runs):
                self.fixed(run, target, "B" if self.flexible else "")
            else:
                following = runs[index + 1][0]
                self.fixed(run, target, self.length_format(following) if is_counted(following) else "")
        self.line(f"{target}.unknown_tags = None")
        if self.flexible:
            self.tag_section(struct, target)

    def absent(self, spec: FieldSpec, target: str) -> None:
        """Give a field that is not there its default. A struct is made in line: its ``__init__`` costs a call."""
        if is_made_of_fields(spec):
            assert spec.struct is not None
            item = self.fresh("s")
            self.line(f"{item} = {self.new(spec.struct)}")
            for inner in spec.struct.fields():
                self.absent(inner, f"{item}.{inner.name}")
            self.line(f"{item}.unknown_tags = None")
            self.line(f"{target} = {item}")
        elif spec.factory is list or (spec.array and spec.required):
            self.line(f"{target} = []")
        else:
            value = spec.default_value()
            self.line(f"{target} = {'ZERO_UUID' if value == ZERO_UUID else repr(value)}")

    def fixed(self, run: list[FieldSpec], target: str, ahead: str) -> None:
        """Read fixed-size fields, and the length of format ``ahead`` behind them."""
        formats = "".join(FORMATS[spec.kind] for spec in run) + ahead
        names = [f"{target}.{spec.name}" for spec in run]
        if ahead:
            self.ahead = self.fresh("n")
            names.append(self.ahead)
        self.line(f"{', '.join(names)}{'' if len(names) > 1 else ','} = {self.unpack(formats)}(data, pos)")
        self.line(f"pos += {packer(formats).size}")

    def length(self, spec: FieldSpec) -> str:
        """Read a length; null is -1."""
        if self.compact(spec):
            name = self.uvarint(MAX_STRING + 1 if spec.kind == "string" and not spec.array else 0)
            self.line(f"{name} -= 1")
        elif self.ahead:
            name, self.ahead = self.ahead, ""
        else:
            name, form = self.fresh("n"), self.length_format(spec)
            self.line(f"{name}, = {self.unpack(form)}(data, pos)")
            self.line(f"pos += {packer(form).size}")
        return name

    def uvarint(self, limit: int = 0) -> str:
        name, self.ahead = self.ahead, ""
        if not name:
            name = self.fresh("n")
            self.line(f"{name} = data[pos]")
            self.line("pos += 1")
        with self.block(f"if {name} > 127:"):
            self.line(f"{name}, pos = read_uvarint(data, pos - 1)")
            if limit:
                self.line(f"if {name} > {limit}: raise ValueError")
        return name

    def spend(self, cost: str) -> None:
        if self.counting:
            self.line(f"memory -= {cost}")
            self.line("if memory < 0: raise OverLimit")

    def value(self, spec: FieldSpec, target: str) -> None:
        if spec.array:
            self.array(spec, target)
        elif spec.struct is not None:
            self.nested(spec, target)
        else:
            self.variable(spec, target)

    def null(self, spec: FieldSpec, length: str, target: str) -> None:
        """Deal with a negative length; an ``else`` may follow."""
        if self.nullable(spec) or spec.kind == "recordset":
            with self.block(f"if {length} < 0:"):
                if not self.compact(spec):
                    self.line(f"if {length} != -1: raise ValueError")
                self.line(f"{target} = None")
        else:
            self.line(f"if {length} < 0: raise ValueError")

    def variable(self, spec: FieldSpec, target: str) -> None:
        length = self.length(spec)
        self.null(spec, length, target)
        with self.block("else:") if self.nullable(spec) or spec.kind == "recordset" else nullcontext():
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
        count = self.length(spec)
        self.null(spec, count, target)
        with self.block("else:") if self.nullable(spec) else nullcontext():
            self.items(spec, count, target)

    def items(self, spec: FieldSpec, count: str, target: str) -> None:
        if spec.kind == "uuid":
            self.spend(f"{count} * {limits.item_cost(spec)}")
            self.line(f"end = pos + 16 * {count}")
            self.line("if end > size: raise IndexError")
            self.line(f"{target} = [bytes(data[i : i + 16]) for i in range(pos, end, 16)]")
            self.line("pos = end")
            return
        if spec.kind in FORMATS:
            code = FORMATS[spec.kind]
            width = packer(code).size
            reader = f"unpack_n{_letters(code)}"
            self.names[reader] = array_readers(code)
            self.spend(f"{count} * {limits.item_cost(spec)}")
            # Offline replicas are the most frequent numbers, and there are mostly none.
            self.line(f"{target} = [*{reader}[{count}](data, pos)] if {count} else []")
            self.line(f"pos += {width} * {count}" if width > 1 else f"pos += {count}")
            return
        least = limits.minimal_item(spec, self.version, self.flexible)
        self.line(f"if {f'{count} * {least}' if least > 1 else count} > size - pos: raise IndexError")
        self.spend(f"{count} * {limits.item_cost(spec)}")
        items, item = self.fresh("a"), self.fresh("s")
        self.line(f"{target} = {items} = []")
        with self.block(f"for _ in range({count}):"):
            if spec.struct is None:
                self.variable(spec.item, item)
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
        count = self.uvarint()
        with self.block(f"if {count}:"):
            self.spend(f"{limits.TAGS} + {limits.TAG} * {count}")
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
                            self.fixed([spec], target, "")
                        else:
                            self.value(spec, f"{target}.{spec.name}")
                        self.line(f"if pos != {stop}: raise ValueError")
                    branch = "elif"
                with self.block("else:"):
                    self.line(f"if {target}.unknown_tags is None: {target}.unknown_tags = {{}}")
                    self.line(f"{target}.unknown_tags[{tag}] = bytes(data[pos:{stop}])")
                    self.line(f"pos = {stop}")


class EncoderWriter(_Writer):
    """``encode(m, out)``: appends to ``out``.

    Fixed-size fields wait, to be packed together with a length behind them.
    """

    def __init__(self, version: int, flexible: bool) -> None:
        super().__init__(version, flexible)
        self.waiting: list[tuple[str, str]] = []

    def function(self, message: type[Message]) -> list[str]:
        self.lines = ["def encode(m, out):"]
        self.struct(message, "m", "out")
        self.line("return None")
        return self.lines

    def struct(self, struct: type[Struct], source: str, out: str) -> None:
        for spec in struct.fields():
            if not self.present(spec) and not spec.ignorable:
                self.line(f"if {self.differs(spec, f'{source}.{spec.name}')}: raise ValueError")
        runs = self.runs(struct)
        for index, run in enumerate(runs):
            if not is_fixed(run[0]):
                self.value(run[0], f"{source}.{run[0].name}", out)
                continue
            self.fixed(run, source)
            if index + 1 == len(runs) or not is_counted(runs[index + 1][0]):
                self.flush(out)
        if self.flexible:
            self.tag_section(struct, source, out)
        else:
            self.line(f"if {source}.unknown_tags: raise ValueError")

    def differs(self, spec: FieldSpec, source: str) -> str:
        """An expression: the value is not the default."""
        if is_made_of_fields(spec):
            assert spec.struct is not None
            item = self.fresh("s")
            inner = [self.differs(field, f"{item}.{field.name}") for field in spec.struct.fields()]
            return " or ".join([f"({item} := {source}) is None", *inner, f"{item}.unknown_tags"])
        value = spec.default_value()
        if value is None:
            return f"{source} is not None"
        if spec.array:
            return f"{source} is None or len({source})"
        if value is False or value is True:
            return f"{source} is not {value}"
        return f"{source} != {value!r}"

    def fixed(self, run: list[FieldSpec], source: str) -> None:
        """Have fixed-size fields written, with what comes next."""
        for spec in run:
            if spec.kind == "uuid":
                self.line(f"if len({source}.{spec.name}) != 16: raise ValueError")
        self.waiting = [(FORMATS[spec.kind], f"{source}.{spec.name}") for spec in run]

    def flush(self, out: str, *more: tuple[str, str]) -> None:
        """Write the fixed-size fields that wait, and ``more``, each a format and a value."""
        parts = [*self.waiting, *more]
        self.waiting = []
        if [form for form, _ in parts] == ["B"]:
            self.line(f"{out}.append({parts[0][1]})")
        elif parts:
            formats = "".join(form for form, _ in parts)
            self.line(f"{out} += {self.pack(formats)}({', '.join(value for _, value in parts)})")

    def length(self, spec: FieldSpec, name: str, out: str) -> None:
        """Write the length ``name``, as it is on the wire."""
        if not self.compact(spec):
            self.flush(out, (self.length_format(spec), name))
            return
        waiting = self.waiting
        with self.block(f"if {name} < 128:"):
            self.flush(out, ("B", name))
        self.waiting = waiting
        with self.block("else:"):
            if spec.kind == "string" and not spec.array:
                self.line(f"if {name} > {MAX_STRING + 1}: raise ValueError")
            self.flush(out)
            self.line(f"write_uvarint({out}, {name})")

    def can_be_null(self, spec: FieldSpec) -> bool:
        return self.nullable(spec) or spec.kind == "recordset"

    def value(self, spec: FieldSpec, source: str, out: str) -> None:
        if spec.array:
            self.array(spec, source, out)
        elif spec.struct is not None:
            self.nested(spec, source, out)
        else:
            self.variable(spec, source, out)

    def variable(self, spec: FieldSpec, source: str, out: str) -> None:
        data, length = self.fresh("b"), self.fresh("n")
        encoded = ".encode()" if spec.kind == "string" else ""
        plus = " + 1" if self.compact(spec) else ""
        if not self.can_be_null(spec):
            self.line(f"{data} = {source}{encoded}")
            self.line(f"{length} = len({data}){plus}")
        else:
            self.line(f"{data} = {source}")
            with self.block(f"if {data} is None:"):
                self.line(f"{data}, {length} = b'', {0 if self.compact(spec) else -1}")
            with self.block("else:"):
                if encoded:
                    self.line(f"{data} = {data}{encoded}")
                self.line(f"{length} = len({data}){plus}")
        self.length(spec, length, out)
        self.line(f"{out} += {data}")

    def array(self, spec: FieldSpec, source: str, out: str) -> None:
        items, count = self.fresh("a"), self.fresh("n")
        self.line(f"{items} = {source}")
        plus = " + 1" if self.compact(spec) else ""
        if self.can_be_null(spec):
            with self.block(f"if {items} is None:"):
                self.line(f"{items}, {count} = (), {0 if self.compact(spec) else -1}")
            self.line(f"else: {count} = len({items}){plus}")
        else:
            self.line(f"{count} = len({items}){plus}")
        if spec.kind in FORMATS and spec.kind != "uuid" and not self.can_be_null(spec):
            self.integers(spec, items, count, out)
            return
        self.length(spec, count, out)
        if spec.kind == "uuid":
            self.line(f"write_uuids({out}, {items})")
        elif spec.kind in FORMATS:
            self.line(f"{out} += {self.packers('', spec)}[len({items})](*{items})")
        else:
            if spec.kind == "string":
                # A lone str is iterable, too.
                self.line(f"if type({items}) is str: raise TypeError")
            item = self.fresh("s")
            with self.block(f"for {item} in {items}:"):
                if spec.struct is None:
                    self.variable(spec.item, item, out)
                else:
                    self.struct(spec.struct, item, out)

    def integers(self, spec: FieldSpec, items: str, count: str, out: str) -> None:
        """Write fixed-size fields that wait, the count, and the items with one pack; many items with another."""
        waiting = self.waiting
        before = "".join(form for form, _ in waiting) + self.length_format(spec)
        values = [value for _, value in waiting]
        index = f"{count} - 1" if self.compact(spec) else count
        whole = f"{out} += {self.packers(before, spec)}[{index}]({', '.join([*values, count, f'*{items}'])})"
        if not self.compact(spec):
            self.waiting = []
            self.line(whole)
            return
        self.line(f"if {count} < 128: {whole}")
        with self.block("else:"):
            self.flush(out)
            self.line(f"write_uvarint({out}, {count})")
            self.line(f"{out} += {self.packers('', spec)}[{index}](*{items})")

    def packers(self, before: str, spec: FieldSpec) -> str:
        code = FORMATS[spec.kind]
        name = f"pack_{_letters(before)}n{_letters(code)}"
        self.names[name] = array_packers(before, code)
        return name

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
        self.line(f"if {tags} and not {known}.isdisjoint({tags}): raise ValueError")
        for spec in specs:
            body = self.fresh("o")
            with self.block(f"if {self.differs(spec, f'{source}.{spec.name}')}:"):
                self.line(f"{tags}[{spec.tag}] = {body} = bytearray()")
                if is_fixed(spec):
                    self.fixed([spec], source)
                    self.flush(body)
                else:
                    self.value(spec, f"{source}.{spec.name}", body)
        self.line(f"if {tags}: write_tags({out}, {tags})")
        self.line(f"else: {out}.append(0)")

"""Generates the source code of an encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiokproto.codec.generate.writer import Writer, is_counted, is_fixed, is_made_of_fields, letters
from aiokproto.codec.wire import FORMATS, MAX_STRING, array_packers

if TYPE_CHECKING:
    from aiokproto.codec.schema import FieldSpec, Message, Struct


class EncoderWriter(Writer):
    """``encode(m, out)``: appends to ``out``.

    Fixed-size fields are held back, to pack them together with a length that follows.

    If ``careful`` is set, the encoder is a generator that yields after each item. It's used for long messages.
    """

    def __init__(self, version: int, flexible: bool, *, careful: bool = False) -> None:
        super().__init__(version, flexible)
        self.careful = careful
        self.waiting: list[tuple[str, str]] = []

    def function(self, message: type[Message]) -> list[str]:
        """Return the lines of a message's ``encode``."""
        self.lines = ["def encode(m, out):"]
        # Without items, the function must be a generator too.
        if self.careful:
            self.line("yield")
        self.struct(message, "m", "out")
        self.line("return None")
        return self.lines

    def struct(self, struct: type[Struct], source: str, out: str) -> None:
        """Write the struct in the expression ``source`` to the buffer ``out``."""
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
        """Return an expression that is true if the value isn't the default."""
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
        """Hold back fixed-size fields, to write them together with what comes next."""
        for spec in run:
            if spec.kind == "uuid":
                self.line(f"if len({source}.{spec.name}) != 16: raise ValueError")
        self.waiting = [(FORMATS[spec.kind], f"{source}.{spec.name}") for spec in run]

    def flush(self, out: str, *more: tuple[str, str]) -> None:
        """Write the fixed-size fields that were held back, and ``more``. Each is a format and a value."""
        parts = [*self.waiting, *more]
        self.waiting = []
        if [form for form, _ in parts] == ["B"]:
            self.line(f"{out}.append({parts[0][1]})")
        elif parts:
            formats = "".join(form for form, _ in parts)
            self.line(f"{out} += {self.pack(formats)}({', '.join(value for _, value in parts)})")

    def length(self, spec: FieldSpec, name: str, out: str) -> None:
        """Write a length. The variable ``name`` contains its value on the wire."""
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
        """Return whether the value can be None. A null record set can be written in every version."""
        return self.nullable(spec) or spec.kind == "recordset"

    def value(self, spec: FieldSpec, source: str, out: str) -> None:
        """Write a field that is not of fixed size."""
        if spec.array:
            self.array(spec, source, out)
        elif spec.struct is not None:
            self.nested(spec, source, out)
        else:
            self.variable(spec, source, out)

    def variable(self, spec: FieldSpec, source: str, out: str) -> None:
        """Write a string, bytes or record set."""
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
        """Write an array: its count, then its items."""
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
            self.line(f"{out} += {self.packers('', spec, False)}[len({items})](*{items})")
        else:
            if spec.kind == "string":
                # A str would be iterable too.
                self.line(f"if type({items}) is str: raise TypeError")
            item = self.fresh("s")
            with self.block(f"for {item} in {items}:"):
                if spec.struct is None:
                    self.variable(spec.item, item, out)
                else:
                    self.struct(spec.struct, item, out)
                if self.careful:
                    self.line("yield")

    def integers(self, spec: FieldSpec, items: str, count: str, out: str) -> None:
        """Write the fields that were held back, the count, and the items with one pack call. If there are many items,
        they need a second call."""
        waiting = self.waiting
        before = "".join(form for form, _ in waiting) + self.length_format(spec)
        values = [value for _, value in waiting]
        compact = self.compact(spec)
        whole = f"{self.packers(before, spec, compact)}[{count}]({', '.join([*values, count, f'*{items}'])})"
        if not compact:
            self.waiting = []
            self.line(f"{out} += {whole}")
            return
        self.line(f"if {count} < 128: {out} += {whole}")
        with self.block("else:"):
            self.flush(out)
            self.line(f"write_uvarint({out}, {count})")
            self.line(f"{out} += {self.packers('', spec, compact)}[{count}](*{items})")

    def packers(self, before: str, spec: FieldSpec, compact: bool) -> str:
        """Return the name of pack functions, by the items' count. They pack values of the formats ``before``, then the
        items."""
        code = FORMATS[spec.kind]
        name = f"pack_{letters(before)}{'m' if compact else 'n'}{letters(code)}"
        self.names[name] = array_packers(before, code, compact)
        return name

    def nested(self, spec: FieldSpec, source: str, out: str) -> None:
        """Write a struct, or null."""
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
        """Write tagged fields that differ from their defaults, and unknown ones, in order of tag."""
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

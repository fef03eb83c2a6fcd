"""Generates the source code of a decoder."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from aiokproto.codec import limits
from aiokproto.codec.generate.writer import Writer, is_counted, is_fixed, is_made_of_fields, letters
from aiokproto.codec.wire import FORMATS, MAX_STRING, ZERO_UUID, array_readers, few_readers, packer

if TYPE_CHECKING:
    from aiokproto.codec.schema import FieldSpec, Message, Struct


class DecoderWriter(Writer):
    """``decode(data, pos)``: reads from front to back; ``pos`` is the current position.

    A length that follows fixed-size fields is read together with them. If so, ``ahead`` is the name of its variable.

    If ``careful`` is set, the decoder counts memory, and is a generator that yields after each item. It's used for long
    messages from untrusted peers.
    """

    def __init__(self, version: int, flexible: bool, *, careful: bool = False) -> None:
        super().__init__(version, flexible)
        self.careful = careful
        self.ahead = ""

    def function(self, message: type[Message]) -> list[str]:
        """Return the lines of a message's ``decode``."""
        self.lines = ["def decode(data, pos, memory):" if self.careful else "def decode(data, pos):"]
        # Without items, the function must be a generator too.
        self.pause()
        if message.in_place(self.version):
            self.line("view = memoryview(data)")
            self.line("data = view.obj if type(view.obj) is bytes and view.nbytes == len(view.obj) else view")
        self.line("size = len(data)")
        self.struct(message, "m")
        self.line("return m, pos")
        return self.lines

    def struct(self, struct: type[Struct], target: str) -> None:
        """Read a struct into a new instance named ``target``: absent fields, then present fields in order, then
        tags."""
        self.line(f"{target} = {self.new(struct)}")
        for spec in struct.fields():
            if not self.present(spec) or spec.tag is not None:
                self.absent(spec, f"{target}.{spec.name}")
        runs = self.runs(struct)
        for index, run in enumerate(runs):
            if is_fixed(run[0]):
                self.fixed(run, target, self.behind(runs[index + 1 :]))
            else:
                self.value(run[0], f"{target}.{run[0].name}")
        self.line(f"{target}.unknown_tags = None")
        if self.flexible:
            self.tag_section(struct, target)

    def behind(self, following: list[list[FieldSpec]]) -> str:
        """Return the format of the length that comes next, or an empty string if none does."""
        if not following:
            return "B" if self.flexible else ""
        return self.length_format(following[0][0]) if is_counted(following[0][0]) else ""

    def absent(self, spec: FieldSpec, target: str) -> None:
        """Set a missing field to its default. A struct is created inline, to save the call of its ``__init__``."""
        if is_made_of_fields(spec):
            assert spec.struct is not None
            item = self.fresh("s")
            self.line(f"{item} = {self.new(spec.struct)}")
            for inner in spec.struct.fields():
                self.absent(inner, f"{item}.{inner.name}")
            self.line(f"{item}.unknown_tags = None")
            self.line(f"{target} = {item}")
        elif spec.factory is list:
            self.line(f"{target} = []")
        else:
            value = spec.default_value()
            self.line(f"{target} = {'ZERO_UUID' if value == ZERO_UUID else repr(value)}")

    def fixed(self, run: list[FieldSpec], target: str, ahead: str) -> None:
        """Read fixed-size fields, and the length after them, whose format is ``ahead``."""
        formats = "".join(FORMATS[spec.kind] for spec in run) + ahead
        names = [f"{target}.{spec.name}" for spec in run]
        if ahead:
            self.ahead = self.fresh("n")
            names.append(self.ahead)
        self.line(f"{', '.join(names)}{'' if len(names) > 1 else ','} = {self.unpack(formats)}(data, pos)")
        self.line(f"pos += {packer(formats).size - (ahead == 'B')}")

    def length(self, spec: FieldSpec) -> str:
        """Read a length, so that ``pos`` + length is the end of what follows.

        If it isn't compact, null is -1 and ``pos`` is after the length. A compact length is 0 for null, and otherwise
        one more than the real length, and ``pos`` is at its last byte.
        """
        if self.compact(spec):
            name = self.first_byte()
            self.rest_of_varint(name, MAX_STRING + 1 if spec.kind == "string" and not spec.array else 0)
        elif self.ahead:
            name, self.ahead = self.ahead, ""
        else:
            name, form = self.fresh("n"), self.length_format(spec)
            self.line(f"{name}, = {self.unpack(form)}(data, pos)")
            self.line(f"pos += {packer(form).size}")
        return name

    def first_byte(self) -> str:
        """Read a varint's first byte, without advancing ``pos``."""
        name, self.ahead = self.ahead, ""
        if not name:
            name = self.fresh("n")
            self.line(f"{name} = data[pos]")
        return name

    def rest_of_varint(self, name: str, limit: int = 0) -> None:
        """Read the rest of a varint whose first byte is in ``name``. ``limit`` is its maximum, or 0 for no limit."""
        with self.block(f"if {name} > 127:"):
            self.line(f"{name}, pos = read_uvarint(data, pos)")
            if limit:
                self.line(f"if {name} > {limit}: raise ValueError")
            self.line("pos -= 1")

    def spend(self, cost: str) -> None:
        """Count memory before it's allocated. ``cost`` is an expression, in bytes."""
        if self.careful:
            self.line(f"memory -= {cost}")
            self.line("if memory < 0: raise OverLimit")

    def pause(self) -> None:
        """Let the caller pause."""
        if self.careful:
            self.line("yield")

    def value(self, spec: FieldSpec, target: str) -> None:
        """Read a field that is not of fixed size."""
        if spec.array:
            self.array(spec, target)
        elif spec.struct is not None:
            self.nested(spec, target)
        else:
            self.variable(spec, target)

    def null(self, spec: FieldSpec, length: str, target: str) -> AbstractContextManager[None]:
        """Handle null. The returned block is for all other lengths."""
        null = f"not {length}" if self.compact(spec) else f"{length} < 0"
        if not (self.nullable(spec) or spec.kind == "recordset"):
            self.line(f"if {null}: raise ValueError")
            return nullcontext()
        with self.block(f"if {null}:"):
            if self.compact(spec):
                self.line("pos += 1")
            else:
                self.line(f"if {length} != -1: raise ValueError")
            self.line(f"{target} = None")
        return self.block("else:")

    def variable(self, spec: FieldSpec, target: str) -> None:
        """Read a string, bytes or record set."""
        length = self.length(spec)
        with self.null(spec, length, target):
            start = "pos + 1" if self.compact(spec) else "pos"
            self.line(f"end = pos + {length}")
            self.line("if end > size: raise IndexError")
            if spec.kind == "string":
                self.line(f"{target} = str(data[{start}:end], 'utf-8')")
            elif spec.kind == "recordset":
                self.line(f"{target} = view[{start}:end]")
            else:
                self.line(f"{target} = bytes(data[{start}:end])")
            self.line("pos = end")

    def array(self, spec: FieldSpec, target: str) -> None:
        """Read an array: its count, then its items."""
        if self.compact(spec) and spec.kind in FORMATS and spec.kind != "uuid" and not self.nullable(spec):
            self.compact_numbers(spec, target)
            return
        count = self.length(spec)
        with self.null(spec, count, target):
            if self.compact(spec):
                self.line(f"{count} -= 1")
                self.line("pos += 1")
            self.items(spec, count, target)

    def compact_numbers(self, spec: FieldSpec, target: str) -> None:
        """Read the most common kind of array in as few steps as possible."""
        code = FORMATS[spec.kind]
        width = packer(code).size
        few, many = f"unpack_few_{letters(code)}", f"unpack_many_{letters(code)}"
        self.names[few] = few_readers(code)
        self.names[many] = array_readers("x", code)
        count = self.first_byte()
        # Usually there are no items: no offline replicas, for example.
        with self.block(f"if {count} == 1:"):
            self.line(f"{target} = []")
            self.line("pos += 1")
        with self.block("else:"):
            with self.block(f"if {count} > 127:"):
                self.line(f"{count}, pos = read_uvarint(data, pos)")
                self.line("pos -= 1")
                self.spend(f"({count} - 1) * {limits.item_cost(spec)}")
                self.line(f"{target} = [*{many}[{count} - 1](data, pos)]")
            with self.block("else:"):
                self.spend(f"({count} - 1) * {limits.item_cost(spec)}")
                # The items are read together with the last byte of the count. There is no reader for a count of 0
                # (null).
                self.line(f"{target} = [*{few}[{count}](data, pos)]")
            self.line(f"pos += {width} * {count} - {width - 1}" if width > 1 else f"pos += {count}")

    def items(self, spec: FieldSpec, count: str, target: str) -> None:
        """Read ``count`` items, after checking that the frame can contain that many."""
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
            reader = f"unpack_n{letters(code)}"
            self.names[reader] = array_readers("", code)
            self.spend(f"{count} * {limits.item_cost(spec)}")
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
            self.pause()

    def nested(self, spec: FieldSpec, target: str) -> None:
        """Read a struct, or null."""
        assert spec.struct is not None
        item = self.fresh("s")
        if not self.nullable(spec):
            self.struct(spec.struct, item)
            self.line(f"{target} = {item}")
            return
        # A null struct is marked by a signed byte, -1. In a tagged field, it's an unsigned varint, 0.
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
        """Read a struct's tagged fields; their count is nearly always 0."""
        specs = self.tagged(struct)
        count = self.first_byte()
        with self.block(f"if {count}:"):
            self.line(f"{count}, pos = read_uvarint(data, pos)")
            self.spend(f"{limits.TAGS} + {limits.TAG} * {count}")
            if not specs:
                read = "yield from reading_tags" if self.careful else "read_tags"
                self.line(f"{target}.unknown_tags, pos = {read}(data, pos, {count})")
            else:
                self.known_tags(specs, target, count)
        self.line("else: pos += 1")

    def known_tags(self, specs: list[FieldSpec], target: str, count: str) -> None:
        """Read ``count`` tagged fields: declared fields into their attributes, unknown ones into ``unknown_tags``."""
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
            self.pause()

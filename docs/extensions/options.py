"""What the options of a class are, read from its signature and docstrings, and the page that lists them.

``python -m docs.extensions.options`` writes the options into ``docs/configuration.md``; a test compares the two.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from aiokproto import config
from aiokproto.consumer import Consumer
from aiokproto.producer import Producer
from aiokproto.security.option_types import SaslOptions
from aiokproto.share import ShareConsumer

PAGE = Path(__file__).parents[1] / "configuration.md"

_UNITS = {"_ms": "milliseconds", "_seconds": "seconds", "_bytes": "bytes", "_size": "bytes", "_memory": "bytes"}
_ROLE = re.compile(r":(\w+):`(?:~[\w.]*\.)?([\w.]+)`")
_ARGUMENT = re.compile(r"    (\w+): (.*)")
_DOCUMENTED_DEFAULT = re.compile(r"Default (``[^`]+``|\d[\d,]*(?: MiB)?(?<!,))|(``[^`]+``) \(the default\)")


class Option(NamedTuple):
    """One option.

    Attributes:
        name: Its name.
        kind: The type, as it is annotated.
        default: The default as Python text; None where the option must be given.
        unit: What numbers count; empty where it is no quantity.
        meaning: The text of the docstring, reStructuredText.
    """

    name: str
    kind: str
    default: str | None
    unit: str
    meaning: str


def options_of(cls: type) -> list[Option]:
    """The keyword-only parameters of a class's ``__init__``.

    Raises:
        LookupError: Signature and docstring do not name the same parameters.
    """
    parameters = inspect.signature(cls).parameters.values()
    named = {one.name: one for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}
    docstrings = (inspect.getdoc(cls), inspect.getdoc(vars(cls)["__init__"]))
    texts = {name: text for docstring in docstrings for name, text in _arguments(docstring or "")}
    others = {one.name for one in parameters} - named.keys()
    if missing := named.keys() ^ (texts.keys() - others):
        raise LookupError(f"{cls.__name__}: signature and docstring differ in {', '.join(sorted(missing))}")
    return [
        Option(name, _plain(str(one.annotation)), _default(one), _unit(name), texts[name])
        for name, one in named.items()
    ]


def connection_options() -> list[Option]:
    """The entries of :class:`~aiokproto.config.ConnectionOptions`; their defaults are in their texts.

    Raises:
        LookupError: One has no text, or its text no default.
    """
    options = []
    entries: list[ast.stmt] = []
    for part in (config.ConnectionOptions, SaslOptions):
        (body,) = ast.parse(inspect.getsource(part)).body
        assert isinstance(body, ast.ClassDef)
        entries += body.body
    for entry, text in zip(entries, [*entries[1:], None], strict=True):
        if not isinstance(entry, ast.AnnAssign):
            continue
        name, kind = ast.unparse(entry.target), ast.unparse(entry.annotation)
        if not (isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)):
            raise LookupError(f"ConnectionOptions.{name} has no docstring")
        meaning = " ".join(str(text.value.value).split())
        required = kind.removeprefix("Required[") != kind
        default = None if required else _documented_default(name, kind, meaning)
        kind = kind.removeprefix("Required[").removesuffix("]") if required else kind
        options.append(Option(name, kind, default, _unit(name), meaning))
    return options


def _arguments(docstring: str) -> Iterator[tuple[str, str]]:
    """The entries of a Google docstring's ``Args`` section."""
    lines = docstring.partition("Args:\n")[2].splitlines()
    section = lines[: next((at for at, line in enumerate(lines) if line and not line.startswith(" ")), len(lines))]
    entry: list[str] = []
    for line in [*section, "    end: "]:
        if found := _ARGUMENT.fullmatch(line):
            if entry:
                yield entry[0], " ".join(entry[1:])
            entry = [found[1], found[2]]
        elif line.strip():
            entry.append(line.strip())


def _documented_default(name: str, kind: str, meaning: str) -> str:
    found = _DOCUMENTED_DEFAULT.search(meaning)
    if found:
        text = (found[1] or found[2]).strip("`").replace(",", "_")
        return _as_text(int(text[:-4]) << 20) if text.endswith(" MiB") else text
    if kind.endswith("| None"):
        return "None"
    raise LookupError(f"ConnectionOptions.{name}: its text does not say the default")


def _unit(name: str) -> str:
    return next((unit for suffix, unit in _UNITS.items() if name.endswith(suffix)), "")


def _plain(kind: str) -> str:
    """``Literal[0, "all"]`` as ``0 | "all"``."""
    return re.sub(r"Literal\[([^]]*)\]", lambda found: found[1].replace(", ", " | "), kind).replace("'", '"')


def _default(parameter: inspect.Parameter) -> str | None:
    return None if parameter.default is parameter.empty else _as_text(parameter.default)


def _as_text(default: object) -> str:
    if isinstance(default, int | float) and not isinstance(default, bool):
        return f"{default:_}"
    return repr(default).replace("'", '"')


def markdown(options: list[Option]) -> str:
    """The options as sections of a page, which also readers of the source see on a Git host."""
    return "\n".join(map(_section, options))


def _section(option: Option) -> str:
    kind = f"`{option.kind}`" + (f", {option.unit}" if option.unit else "")
    default = "must be given" if option.default is None else f"default `{option.default}`"
    meaning = _ROLE.sub(lambda role: f"`{role[2]}{'()' if role[1] == 'meth' else ''}`", option.meaning)
    text = textwrap.fill(meaning.replace("``", "`"), 120, break_long_words=False, break_on_hyphens=False)
    return f"### {option.name}\n\n{kind}; {default}\n\n{text}\n"


def page(text: str) -> str:
    """``docs/configuration.md`` with the options of today between its marks."""
    for name, options in (
        ("Producer", options_of(Producer)),
        ("Consumer", options_of(Consumer)),
        ("ShareConsumer", options_of(ShareConsumer)),
        ("ConnectionOptions", connection_options()),
    ):
        start, end = f"<!-- options of {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = text.partition(start)
        text = f"{before}{start}\n{markdown(options)}\n{end}{rest.partition(end)[2]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))

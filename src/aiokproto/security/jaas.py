"""Java's option ``sasl.jaas.config``: a login module, and its options. Pure.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";

Any part of it may be a password: if a quote is missing, values end up in the wrong places. So errors name only known
modules and options, and don't show anything else from the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from aiokproto.errors import ConfigurationError

OPTION = "sasl_jaas_config"

_FLAGS = ("required", "requisite", "sufficient", "optional")
_MODULE = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*")
# A word may contain characters that would have to be quoted in Java.
_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)"""
    r"""|"(?P<double>(?:[^"\\\n]|\\.)*)"|'(?P<single>(?:[^'\\\n]|\\.)*)'"""
    r"""|(?P<word>[^\s"'=;/]+)|(?P<mark>[=;])""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasEntry(NamedTuple):
    """A login module.

    Attributes:
        module: Its name, without the package: ``PlainLoginModule``.
        options: Its options.
    """

    module: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"JaasEntry({self.module!r})"


class _Token(NamedTuple):
    kind: str
    text: str


def parse_jaas(text: object) -> JaasEntry:
    """Parse the value of ``sasl.jaas.config``.

    Raises:
        ConfigurationError: The text is malformed, or contains several modules. The error shows only the name of the
            module.
    """
    if not isinstance(text, str):
        raise ConfigurationError(f"{OPTION}: expected text, got {type(text).__name__}")
    tokens = list(_tokens(text))
    if not tokens or tokens[0].kind != "word" or not _MODULE.fullmatch(tokens[0].text):
        raise ConfigurationError(f"{OPTION}: it does not begin with the name of a login module")
    if len(tokens) > 1 and tokens[1].text.startswith("{"):
        raise ConfigurationError(
            f"{OPTION}: it is a file's section: expected the login module alone, without the braces"
        )
    if len(tokens) < 2 or tokens[1].text.lower() not in _FLAGS:
        raise ConfigurationError(f"{OPTION}: after the login module, expected {' or '.join(map(repr, _FLAGS))}")
    options: dict[str, str] = {}
    index = 2
    while index < len(tokens) and tokens[index] != ("mark", ";"):
        number = len(options) + 1
        key, mark, value = (*tokens[index : index + 3], *[_Token("end", "")] * 2)[:3]
        if key.kind == "mark" or mark != ("mark", "=") or value.kind in ("mark", "end"):
            raise ConfigurationError(f'{OPTION}: its option number {number} is no name="value"')
        options[key.text] = value.text
        index += 3
    if index == len(tokens):
        raise ConfigurationError(f"{OPTION}: it does not end with a semicolon")
    if index + 1 < len(tokens):
        raise ConfigurationError(f"{OPTION}: something follows the semicolon: expected one login module")
    return JaasEntry(tokens[0].text.rpartition(".")[2], options)


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ConfigurationError(f"{OPTION}: a quote or a comment does not end, or a value needs quotes")
        position = found.end()
        kind = found.lastgroup or ""
        if kind in ("double", "single"):
            yield _Token("quoted", _ESCAPE.sub(_unescaped, found[kind]))
        elif kind != "space":
            yield _Token(kind, found[kind])


def _unescaped(found: re.Match[str]) -> str:
    text = found[1]
    return chr(int(text, 8)) if text[0] in "01234567" else _ESCAPES.get(text, text)


def check_options(entry: JaasEntry, known: tuple[str, ...], prefixes: tuple[str, ...] = ()) -> None:
    """Check that an entry contains only options of its module.

    Raises:
        ConfigurationError: It contains a different option. The error doesn't show the option's name, which may be part
            of a value.
    """
    for number, name in enumerate(entry.options, 1):
        if name not in known and not name.startswith(prefixes or ("\0",)):
            raise ConfigurationError(
                f"{OPTION}: option number {number} is none of {entry.module}: expected {', '.join(known)}"
            )

"""``python -m tools.prose [PATH …]``: measure the English of comments, docstrings and pages, beside other projects'.

Each figure is the number of occurrences in 10,000 words of prose; comments with a bare start are a share of all
comments. The range is what websockets, httpx with httpcore, trio and franz-go have. A figure outside of its range says
where to read again: it gauges a habit, and isn't a rule about a sentence.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tools.setup.project import ROOT

CODE, PAGES = ("src",), ("docs", "README.md", "DESIGN.md", "CONTRIBUTING.md")


class Habit(NamedTuple):
    """Something that prose has more or less of.

    Attributes:
        name: How the table calls it.
        pattern: What is counted.
        code: The least and the most that the other projects have in comments and docstrings.
        pages: The same in pages of documentation; None if nobody has measured it there.
    """

    name: str
    pattern: re.Pattern[str]
    code: tuple[float, float]
    pages: tuple[float, float] | None = None


def _habit(name: str, pattern: str, code: tuple[float, float], pages: tuple[float, float] | None = None) -> Habit:
    return Habit(name, re.compile(pattern, re.IGNORECASE), code, pages)


HABITS = (
    _habit("that of, those of", r"\b(?:that|those) of\b", (0, 0.7), (0, 0.4)),
    _habit("of, by, to which", r"\b(?:of|by|to) (?:which|what|whom)\b", (2.5, 5.0), (2.7, 4.3)),
    _habit("whoever, whatever, nobody", r"\b(?:whoever|whatever|nobody)\b", (0, 5.6), (0, 3.3)),
    _habit(", also if, also in", r", also (?:if|in|when|for|of|by|on|with)\b", (0, 1.4), (0.2, 1.0)),
    _habit("begin, began", r"\b(?:begins?|began|begun|beginning)\b", (0, 6.7), (0, 0.4)),
    _habit("because", r"\bbecause\b", (8.1, 23.9), (12.5, 13.6)),
    _habit("contractions", r"\b\w+(?:n't|'re|'ll|'ve)\b|\b(?:it|that|there|what|let)'s\b", (5.8, 138), (74, 114)),
)

BARE = re.compile(
    r"(?:Of|In|On|At|By|For|From|To|With|Without|Before|After|Behind|Beyond|Below|Above|Under|Within|Until|Unless|Else"
    r"|Here|There|Then|Also|Even|Only|Not|Again|Once|Where|Whether|While|Meanwhile|Otherwise|Instead|Given|Taken|Called"
    r"|Read|Written|Sent|Kept|Made|Done|Left|Compared|Counted|Cancelled|Closed|Found|Shown|Spelled|Looked|Asked|Known)\b"
)
"""Prepositions, adverbs and participles that seldom begin a sentence of native writers' comments."""
MAX_BARE = 0.06
"""The greatest share of comments that begin so in the other projects: websockets 6 %, httpcore 4.5, trio 3."""

_DIRECTIVE = re.compile(r"#\s*(?:noqa|type:|pyright:|cython:|distutils:|pragma|!|----|guard:|->|import:)", re.I)
_CODE_SPAN = re.compile(r"``[^`]*``|`[^`]*`|:\w+:`[^`]*`|https?://\S+")
_BLOCK = re.compile(r"^( *)(```|:::).*?^\1\2.*?$", re.MULTILINE | re.DOTALL)


def main(arguments: list[str] | None = None) -> int:
    """Print the table; return 0."""
    parser = argparse.ArgumentParser(prog="python -m tools.prose", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="files or folders of code or pages; default: all of both")
    parser.add_argument("--show", metavar="HABIT", help="list the places that one row counts, instead of the table")
    options = parser.parse_args(arguments)
    code = list(_files(options.paths or [ROOT / each for each in CODE], {".py", ".pyx", ".pxd"}))
    pages = list(_files(options.paths or [ROOT / each for each in PAGES], {".md"}))
    if options.show:
        return _show(options.show, code, pages)
    for title, texts, bare in (("comments and docstrings", _of_code(code), True), ("pages", _of_pages(pages), False)):
        prose = list(texts)
        if prose:
            _table(title, prose, bare)
    return 0


def _table(title: str, prose: list[Text], code: bool) -> None:
    words = sum(len(re.findall(r"[A-Za-z']+", text.text)) for text in prose)
    print(f"{title}: {words:,} words")
    for habit in HABITS:
        expected = habit.code if code else habit.pages
        count = sum(len(habit.pattern.findall(text.text)) for text in prose)
        rate = count * 10_000 / words
        low, high = expected or (0, float("inf"))
        mark = "" if low <= rate <= high else "  <-"
        print(f"  {habit.name:28} {count:6} {rate:8.1f}   ({low:g} to {high:g}){mark}")
    if code:
        comments = [text for text in prose if text.comment]
        bare = sum(_is_bare(text) for text in comments)
        share = bare / len(comments) if comments else 0.0
        mark = "" if share <= MAX_BARE else "  <-"
        print(f"  {'comments with a bare start':28} {bare:6} {share:8.1%}   (0 to {MAX_BARE:.0%}){mark}")


def _show(name: str, code: list[Path], pages: list[Path]) -> int:
    prose = [*_of_code(code), *_of_pages(pages)]
    if name == "bare":
        found = [text for text in prose if text.comment and _is_bare(text)]
    else:
        (habit,) = [each for each in HABITS if name in each.name]
        found = [text for text in prose if habit.pattern.search(text.text)]
    for text in found:
        print(f"{text.path}:{text.line}: {' '.join(text.text.split())}")
    return 0


class Text(NamedTuple):
    """A comment, a docstring or a page."""

    path: Path
    line: int
    text: str
    comment: bool


def _is_bare(text: Text) -> bool:
    return BARE.match(text.text.lstrip()) is not None


def _files(paths: Iterable[Path], suffixes: set[str]) -> Iterator[Path]:
    for path in paths:
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (each for each in found if each.suffix in suffixes and ".cache" not in each.parts)


def _of_pages(paths: Iterable[Path]) -> Iterator[Text]:
    for path in paths:
        text = _BLOCK.sub("", path.read_text())
        yield Text(path, 1, _CODE_SPAN.sub(" ", re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)), comment=False)


def _of_code(paths: Iterable[Path]) -> Iterator[Text]:
    for path in paths:
        source = path.read_text()
        yield from _comments(path, source)
        docstrings = _docstrings(source) if path.suffix == ".py" else _quoted(source)
        yield from (Text(path, line, _CODE_SPAN.sub(" ", text), comment=False) for line, text in docstrings)


def _comments(path: Path, source: str) -> Iterator[Text]:
    """Yield the comments; those of successive lines are one."""
    block: list[str] = []
    begin = last = 0
    for line, comment in [*_comment_lines(path, source), (0, "")]:
        if block and line != last + 1:
            yield Text(path, begin, _CODE_SPAN.sub(" ", " ".join(block)), comment=True)
            block = []
        if not block:
            begin = line
        if comment and not _DIRECTIVE.match(comment):
            block.append(comment.lstrip("#: "))
        last = line


def _comment_lines(path: Path, source: str) -> Iterator[tuple[int, str]]:
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
        return
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith("#"):
            yield number, line.strip()


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield docstrings, and the texts that stand after a field or a constant."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def _quoted(source: str) -> Iterator[tuple[int, str]]:
    for match in re.finditer(r'"""(.*?)"""', source, re.DOTALL):
        yield source.count("\n", 0, match.start()) + 1, match[1]


if __name__ == "__main__":
    sys.exit(main())

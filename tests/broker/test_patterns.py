"""Regular expressions: syntax, matches, and linear time for any name."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.broker.patterns import Pattern, PatternError, compile_pattern
from aiokproto.broker.patterns.automaton import MAX_LENGTH, MAX_SIZE
from aiokproto.broker.patterns.syntax import MAX_DEPTH
from aiokproto.codec.messages.list_transactions import ListTransactionsRequest
from aiokproto.error_codes import ErrorCode
from tests.broker.epoch_harness import refused
from tests.broker.test_third_party_clients import java
from tests.broker.wire import Wire


@pytest.mark.parametrize(
    "pattern",
    [
        *("[", "[a", "(", ")", "(a", "a)", "*", "|*", "(*a)", "a**", "a{2}{3}", "a{2}+", "a++", "{+", "\\", "[\\"),
        *("a{2,1}", "a{1001}", "a{1,9999999999}", r"\8", r"(a)\1", r"\C", r"\Z", r"\q", r"\x4", r"\x{110000}", r"\x{}"),
        *("[z-a]", "[[:foo:]]", r"[a-\d]", r"\p", r"\pX", r"\p{Foo}", r"\p{L", r"\p{Greek}"),
        *("a(?=b)", "a(?!b)", "(?<=a)b", "(?<!a)b", "(?>a)", "(?#a)", "(?P=a)", "(?x)a", "(?-)a", "(?i-)a"),
        *("(?P<a", "(?P<>a)", "(?P<a-b>a)", "(?P<a>a)(?P<a>b)"),
        *(
            "x" * (MAX_LENGTH + 1),
            "(" * (MAX_DEPTH + 1) + ")" * (MAX_DEPTH + 1),
            "((a{40}){40}){40}",
            "(((){99}){99}){99}",
        ),
    ],
)
def test_invalid_patterns_are_refused(pattern: str) -> None:
    with refused(ErrorCode.INVALID_REGULAR_EXPRESSION):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("", [""], ["a"]),
        ("a|bc?|", ["a", "b", "bc", ""], ["ab", "c"]),
        ("(a|b)+?c*", ["abac", "b", "bccc"], ["", "c"]),
        ("a{2}b{1,}c{0,2}", ["aab", "aabbcc"], ["ab", "aabccc"]),
        ("a{,2}|{|x{y", ["a{,2}", "{", "x{y"], ["", "aa"]),
        (r"a\.1", ["a.1"], ["ab1"]),
        ("a.b", ["a-b", "aéb"], ["a\nb", "ab"]),
        ("(?s)a.b", ["a\nb"], []),
        ("[(?=+]+|[]1]", ["(?=", "]"], ["a", "]]"]),
        ("[^a-c]", ["d", "\n", "é"], ["a", ""]),
        (r"[a-z-9][\d.-]", ["-1", "9.", "m-"], ["8."]),
        (r"\w\W\s\S\d\D", ["_- -0a"], ["é- -0a"]),
        ("[[:upper:]][[:^digit:]]", ["Aa"], ["aa", "A1"]),
        (r"\pL\p{Lu}\P{Nd}\p{^L}\p{Any}", ["éÉ--x"], ["éé--x", "éÉ1-x"]),
        ("(?i)abc|É", ["aBC", "é"], ["ab"]),
        ("(?i:a)b(?-i)|(?i)c", ["Ab", "C"], ["AB"]),
        ("((?i)a|b)c", ["Ac", "Bc"], ["aC"]),
        (r"^a$|\Ab\z", ["a", "b"], ["ab"]),
        ("(?m)a$\n^b", ["a\nb"], ["ab"]),
        (r"a\b-\Bb?", ["a-"], ["a-b"]),
        (r"\Qa.b\E+|\Qc*", ["a.bb", "c*"], ["axb", "ccc"]),
        (r"\x41\x{62}\101\01\t", ["AbA\1\t"], []),
        ("(?P<one>a)(?<two>b)(?:c)", ["abc"], []),
        ("(?U)a*(?)b", ["aab"], []),
        ("(a*)*|(|b)+", ["", "aaa", "bb"], ["ab"]),
    ],
)
def test_what_a_pattern_matches(pattern: str, matches: list[str], others: list[str]) -> None:
    found = [text for text in [*matches, *others] if Pattern(pattern).fullmatch(text)]
    assert found == matches


# Python's own syntax and RE2 agree on these.
SIMPLE = st.recursive(
    st.sampled_from(["a", "b", "[ab]", "[^a]", ".", r"\w", "^", "$", r"\b", r"\B", ""]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join).map("(?:{})".format),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "*?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=6,
)


@given(SIMPLE, st.text("ab-", min_size=1, max_size=6))
def test_matches_are_the_same_as_pythons_re(pattern: str, text: str) -> None:
    assert Pattern(pattern).fullmatch(text) == bool(re.fullmatch(pattern, text))


@given(st.text(st.sampled_from("ab.-\\(){}[]|*+?^$:<>=!PQEpdLwx012,i\n"), max_size=30), st.text("ab-", max_size=6))
def test_any_text_is_a_pattern_or_is_rejected(pattern: str, text: str) -> None:
    try:
        found = Pattern(pattern)
    except PatternError:
        return
    assert found.fullmatch(text) in (True, False)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(a*)*b", "(x+x+)+y", "(.*){25}b", "(a|b)*a(a|b){9}c"])
def test_matching_takes_linear_time(pattern: str) -> None:
    """Backtracking would take centuries."""
    for length in (100, 1000, 10_000):
        assert not Pattern(pattern).fullmatch("a" * length + "!")


class Counted(Pattern):
    """Counts how often it has to compute the next states."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.found_out: list[int] = []

    def _read(self, states: frozenset[int], char: str) -> frozenset[int]:
        self.found_out.append(len(states))
        return super()._read(states, char)


@given(st.text("ab", max_size=300))
def test_the_work_per_character_is_bounded_by_the_pattern_size(text: str) -> None:
    pattern = Counted("(a|b)*a(a|b){100}")
    pattern.fullmatch(text)
    assert len(pattern.found_out) <= len(text) + 1
    assert max(pattern.found_out) <= MAX_SIZE
    pattern.found_out.clear()
    pattern.fullmatch(text)
    assert not pattern.found_out or len(text) > 50, "what was found out is remembered"


async def test_patterns_of_transactional_ids_use_the_same_syntax(wire: Wire) -> None:
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[], transactional_id_pattern=r"(a)\1")
    assert (await wire.ask(request)).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    request.transactional_id_pattern = "(a+)+$"
    assert (await wire.ask(request)).error_code == 0


# ---- RE2 itself

PIECES = [
    *("a", "b", "c", "A", "-", "_", ".", "1", "\n", "é", "|", "|", "(", "(", "(?:", ")", ")", ")", "^", "$", "\\", "-"),
    *(r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\b", r"\B", r"\A", r"\z", r"\Z", r"\a", r"\n", r"\q", r"\_", r"\\"),
    *("[", "]", "[^", "[a-c]", "[^a-c]", "[]a]", "[^]]", "[[:alpha:]]", "[[:^digit:]]", "[:alpha:]", "[a-z-9]", "a-"),
    *(r"[\d-x]", r"[\w.]", r"[^\W]", r"[a-\d]", "[z-a]", r"[\]]", r"[\pL]", r"[^\PL]", r"[\Q]", "(?i)[^a]", r"(?i)\W"),
    *("*", "+", "?", "??", "*?", "{2}", "{0,2}", "{1,}", "{,2}", "{2,1}", "{", "}", "{0}", "{01}"),
    *(r"\pL", r"\p{Lu}", r"\P{Nd}", r"\p{^L}", r"\pN", r"\p{Foo}", r"\p", r"\Qa.b\E", r"\Q", r"\E"),
    *("(?i)", "(?i:", "(?-i)", "(?m)", "(?s)", "(?s-m:", "(?P<n>", "(?<m>", "(?P<", "(?=", "(?!", "(?<=", "(?#"),
    *("(?U)", "(?)", "(?-)", r"\1", r"\01", r"\101", r"\x41", r"\x{62}", r"\x{110000}", r"\xZ"),
]
TEXTS = [
    *(
        "",
        "a",
        "b",
        "c",
        "A",
        "B",
        "ab",
        "ba",
        "abc",
        "aa",
        "aaa",
        "aab",
        "a-b",
        "a.b",
        "a_b",
        "1",
        "12",
        "a1",
        "-",
        ".",
    ),
    *("\n", "a\nb", "é", "É", "éa", "[", "]", "(", ")", "n", "{", "{2", "a{,2}", "Z", "\\", "^", "$", "a b"),
]


@pytest.mark.kafka
@pytest.mark.java
async def test_matches_are_the_same_as_kafkas(tmp_path: Path) -> None:
    picked = random.Random(2)
    patterns = ["".join(picked.choices(PIECES, k=picked.randint(1, 8))) for _ in range(5000)]
    pattern_file = tmp_path / "patterns"
    pattern_file.write_text(
        "".join(" ".join(each.encode().hex() for each in (text, *TEXTS)) + "\n" for text in patterns)
    )
    theirs = await java(str(pattern_file), program="Patterns")
    ours = [_judge(pattern) for pattern in patterns]
    assert [each for each in zip(patterns, ours, theirs, strict=True) if each[1] != each[2]] == []
    assert ours.count("invalid") < len(ours) * 3 / 4


def _judge(text: str) -> str:
    try:
        pattern = Pattern(text)
    except PatternError:
        return "invalid"
    return "".join("01"[pattern.fullmatch(name)] for name in TEXTS)

"""Which patterns the broker may match instead of the client: only those that mean the same to both."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.broker.patterns.automaton import compile_pattern
from aiokproto.consumer.subscription import SubscriptionState, to_pattern

PIECES = (
    *"abA.-_09|()[]{}^$*+?\\, &~",
    "a*",
    "(?:",
    "(?i)",
    "(?P<n>",
    "(?=",
    "[^a]",
    "[a-c]",
    "[[:alpha:]]",
    "{2}",
    "{1,2}",
    "{,2}",
    r"\d",
    r"\w+",
    r"\b",
    r"\.",
    r"\1",
    r"\A",
    r"\Z",
    r"\n",
)
NAMES = st.text(alphabet="abAB.-_019 ", min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("flights", "flights"),
        ("flights-.*", "flights-.*"),
        (r"(a|b)\.[0-9]{1,3}", r"(a|b)\.[0-9]{1,3}"),
        (r"^a\w+$", r"^a\w+$"),
        ("a.*?", "a.*?"),
        (re.compile("Flights.*", re.IGNORECASE), "(?i)Flights.*"),
        (re.compile("a b", re.VERBOSE), None),
        ("a(?!b).*", None),
        (r"(a)\1", None),
        ("(?P<n>a)", None),
        ("a++", None),
        (r"a\Z", None),
        ("grün", None),
        # A broker would match its internal topics, too.
        (".*", None),
        ("__consumer_.*", None),
    ],
)
def test_a_pattern_is_sent_to_the_broker_only_if_it_means_the_same_there(
    pattern: str | re.Pattern[str], expected: str | None
) -> None:
    if pattern == "a++":
        compiled = re.compile("a++") if hasattr(re, "NOFLAG") else re.compile("(?=a)a")
    else:
        compiled = to_pattern(pattern)
    assert SubscriptionState(pattern=compiled).broker_pattern() == expected


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), st.lists(NAMES, min_size=1, max_size=8))
def test_the_broker_matches_the_same_names(text: str, names: list[str]) -> None:
    try:
        compiled = re.compile(text)
    except (re.error, FutureWarning, DeprecationWarning):
        return
    sent = SubscriptionState(pattern=compiled).broker_pattern()
    if sent is not None:
        matches = compile_pattern(sent).fullmatch
        assert [matches(name) for name in names] == [compiled.fullmatch(name) is not None for name in names]

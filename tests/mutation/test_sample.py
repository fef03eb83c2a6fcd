"""Which mutants are drawn."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.mutation.sample import PACKAGES, draw, shares

MODULE = "def f(a, b):\n    return a < b, a + 1\n"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of few modules, and of some whose mutants are not drawn."""
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "module.py").write_text(MODULE)
    for file in ("codec/messages/fetch.py", "codec/payloads/state.py", "broker/__main__.py"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("LIMIT = 1\n" * 100)
    return tmp_path


def test_a_seed_draws_the_same_mutants_again(package: Path) -> None:
    drawn = draw(package, 12, seed=1)
    assert len(set(drawn)) == 12
    assert draw(package, 12, seed=1) == drawn
    assert draw(package, 12, seed=2) != drawn


def test_all_mutants_are_of_modules_that_decide_something(package: Path) -> None:
    drawn = draw(package, 1000, seed=1)
    assert {mutant.file for mutant in drawn} == {f"{name}/module.py" for name in PACKAGES}
    assert set(Counter(mutant.package for mutant in drawn).values()) == {4}


@pytest.mark.parametrize(
    ("places", "count", "expected"),
    [
        ({"a": 3000, "b": 1000}, 100, {"a": 75, "b": 25}),
        ({"a": 9900, "b": 100}, 100, {"a": 80, "b": 20}),
        ({"a": 9900, "b": 10}, 100, {"a": 90, "b": 10}),
        ({"a": 900, "b": 100}, 10, {"a": 5, "b": 5}),
        ({"a": 3, "b": 2}, 100, {"a": 3, "b": 2}),
    ],
)
def test_packages_are_drawn_from_by_their_size_but_none_too_rarely(
    places: dict[str, int], count: int, expected: dict[str, int]
) -> None:
    assert shares(places, count) == expected

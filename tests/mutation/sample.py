"""A sample of mutants, drawn at random by a seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from tests.mutation.mutants import Mutant, is_program, mutants_of

PACKAGES = ("codec", "records", "producer", "consumer", "group", "broker")
DECLARATIONS = ("codec/messages/", "codec/payloads/")
"""Modules without decisions, which Kafka's own vectors test."""
LEAST = 20
"""How many mutants each package has at least, so that its figure means something."""


def draw(package_folder: Path, count: int, seed: int) -> list[Mutant]:
    """Return mutants of all packages in a random order, so that some of the first ones are a sample, too."""
    texts = {package: _texts(package_folder, package) for package in PACKAGES}
    candidates = {
        package: [mutant for file, text in modules.items() for mutant in mutants_of(file, text)]
        for package, modules in texts.items()
    }
    chance, drawn = random.Random(seed), list[Mutant]()
    for package, share in shares({name: len(found) for name, found in candidates.items()}, count).items():
        pool = candidates[package]
        chance.shuffle(pool)
        programs = (mutant for mutant in pool if is_program(mutant, texts[package][mutant.file]))
        drawn += [mutant for mutant, _ in zip(programs, range(share), strict=False)]
    chance.shuffle(drawn)
    return drawn


def shares(places: Mapping[str, int], count: int) -> dict[str, int]:
    """Divide a count by the number of places of each package; none gets less than `LEAST`, if there are as many."""
    found = {name: min(LEAST, count // len(places), number) for name, number in places.items()}
    for _ in range(min(count, sum(places.values())) - sum(found.values())):
        # Each mutant goes to the package that has the fewest for its size (the method of highest averages).
        open_places = (name for name, number in places.items() if found[name] < number)
        found[max(open_places, key=lambda name: places[name] / (found[name] + 1))] += 1
    return found


def _texts(package_folder: Path, package: str) -> dict[str, str]:
    """Return the text of every module that is mutated, by its path below the package."""
    paths = sorted((package_folder / package).rglob("*.py"))
    texts = {path.relative_to(package_folder).as_posix(): path.read_text() for path in paths}
    return {
        file: text
        for file, text in texts.items()
        if not file.startswith(DECLARATIONS) and not file.endswith("__main__.py")
    }

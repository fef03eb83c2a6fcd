"""``python -m tools.wheels``: builds and proves a source distribution, a compiled and a pure wheel, all in ``dist``.

Each is installed into a virtual environment of its own, in a folder that has the tests but not the package, and those
tests run there that need neither Java nor another client.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tools.setup.project import ROOT
from tools.setup.system import MissingError, run
from tools.wheels.contents import Kind, faults, kind_of, names_in
from tools.wheels.proof import OUTSIDE, Proof, build_source

DIST = ROOT / "dist"


def main() -> int:
    shutil.rmtree(DIST, ignore_errors=True)
    try:
        distributions = build()
        check(distributions)
        for distribution in distributions:
            prove(distribution)
    except MissingError as error:
        print(f"not good: {error}")
        return 1
    print("good:", *(path.relative_to(ROOT) for path in distributions), sep="\n  ")
    return 0


def build() -> list[Path]:
    """Build both wheels from the source distribution, as its users would."""
    print("building", flush=True)
    source = build_source(DIST)
    # Debug information is most of an extension module, and of use only beside its source.
    for environment in ({"LDFLAGS": "-Wl,-S"}, {"AIOKPROTO_PURE": "1"}):
        run([sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", DIST, source], OUTSIDE | environment)
    return [source, *sorted(DIST.glob("*.whl"), key=lambda wheel: kind_of(wheel) is Kind.PURE)]


def check(distributions: list[Path]) -> None:
    """Compare the files and the metadata with those expected."""
    for distribution in distributions:
        found = faults(kind_of(distribution), names_in(distribution), ROOT)
        if found:
            raise MissingError("\n  ".join([distribution.name, *found]))
    run([sys.executable, "-m", "twine", "check", "--strict", *distributions], OUTSIDE)
    # W009: the second package is how PySpark finds the source by its name.
    run([Path(sys.executable).with_name("check-wheel-contents"), "--ignore", "W009", *distributions[1:]], OUTSIDE)


def prove(distribution: Path) -> None:
    """Install a distribution where nothing else of the project is, and run its tests there."""
    kind = kind_of(distribution)
    print(f"proving the {kind.value}", flush=True)
    with tempfile.TemporaryDirectory(prefix="aiokproto-") as name:
        proof = Proof(Path(name))
        proof.prepare(Path(sys.executable), distribution)
        proof.expect(accelerated=kind is not Kind.PURE)
        if not proof.test():
            raise MissingError(f"tests of the {kind.value} failed")


if __name__ == "__main__":
    sys.exit(main())

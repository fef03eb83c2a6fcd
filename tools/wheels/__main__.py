"""``python -m tools.wheels``: builds and proves a source distribution, a compiled and a pure wheel, all in ``dist``.

Each is installed into a virtual environment of its own, in a folder that has the tests but not the package, and those
tests run there that need neither Java nor another client.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.setup.project import ROOT
from tools.setup.system import MissingError, run
from tools.wheels.contents import Kind, faults, kind_of, names_in

DIST = ROOT / "dist"
WHICH = "import aiokproto; print(aiokproto.accelerated, aiokproto.__file__)"
TESTS = ("accelerator", "codec", "records", "producer", "consumer", "behaviour")
MARKS = "not java and not kafka and not spark"
# Of the extra `test`, what these tests take: the rest brings Spark.
TEST_PACKAGES = ("hypothesis", "pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist", "trustme")
# The environment, less what would decide here which package is built or imported.
OUTSIDE = {name: value for name, value in os.environ.items() if name not in ("AIOKPROTO_PURE", "PYTHONPATH")}


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
    run([sys.executable, "-m", "build", "--sdist", "--outdir", DIST, ROOT], OUTSIDE)
    (source,) = DIST.glob("*.tar.gz")
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
        folder = Path(name)
        for part in ("docs", "tests", "tools"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        run([sys.executable, "-m", "venv", folder / "venv"])
        python = folder / "venv" / "bin" / "python"
        wanted = f"aiokproto[arrow] @ {distribution.as_uri()}"
        run([python, "-m", "pip", "install", "--disable-pip-version-check", wanted, *TEST_PACKAGES], OUTSIDE)
        output = subprocess.run(
            [python, "-I", "-c", WHICH], env=OUTSIDE, capture_output=True, text=True, check=True
        ).stdout
        expected = f"{kind is not Kind.PURE} {folder}"
        if not output.startswith(expected):
            raise MissingError(f"accelerated, and where: expected {expected}, found {output}")
        pytest: list[str | Path] = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-r", "", "-m", MARKS]
        pytest += ["-n", "2", "--dist", "loadfile"]
        tests = [folder / "tests" / part for part in TESTS]
        if subprocess.run([*pytest, *tests], cwd=folder, env=OUTSIDE, check=False).returncode != 0:
            raise MissingError(f"tests of the {kind.value} failed")


if __name__ == "__main__":
    sys.exit(main())

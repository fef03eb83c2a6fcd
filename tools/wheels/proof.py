"""Proves a distribution where nothing else of the project is: in a folder with a virtual environment and the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.setup.project import ROOT
from tools.setup.system import MissingError, run

WHICH = "import aiokproto; print(aiokproto.accelerated, aiokproto.__file__)"
TESTS = ("accelerator", "codec", "records", "producer", "consumer", "behaviour", "test_threads.py")
MARKS = "not java and not kafka and not spark"
# Of the extra `test`, what these tests take: the rest brings Spark.
TEST_PACKAGES = ("botocore", "hypothesis", "pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist", "trustme")
OUTSIDE = {name: value for name, value in os.environ.items() if name not in ("AIOKPROTO_PURE", "PYTHONPATH")}
"""The environment, less what would decide here which package is built or imported."""


def build_source(folder: Path) -> Path:
    """Build the source distribution into a folder that has no other."""
    run([sys.executable, "-m", "build", "--sdist", "--outdir", folder, ROOT], OUTSIDE)
    (source,) = folder.glob("*.tar.gz")
    return source


class Proof:
    """A folder with the tests, and with a virtual environment that has a distribution installed.

    Attributes:
        folder: The folder, which must be empty or not exist.
        python: The virtual environment's Python.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"

    def prepare(self, interpreter: Path, distribution: Path, packages: Iterable[str] = TEST_PACKAGES) -> None:
        """Copy the tests, and install a distribution and what they need into an environment of an interpreter.

        Raises:
            MissingError: Something cannot be installed.
        """
        for part in ("docs", "tests", "tools"):
            shutil.copytree(ROOT / part, self.folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", self.folder)
        run([interpreter, "-m", "venv", self.folder / "venv"])
        self.install(f"aiokproto[arrow] @ {distribution.as_uri()}", *packages)

    def install(self, *wanted: str) -> None:
        run([self.python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *wanted], OUTSIDE)

    def expect(self, *, accelerated: bool) -> None:
        """Raise `MissingError` unless it is the installed package that is imported, compiled or not."""
        output = subprocess.run(
            [self.python, "-I", "-c", WHICH], env=OUTSIDE, capture_output=True, text=True, check=True
        ).stdout
        expected = f"{accelerated} {self.folder}"
        if not output.startswith(expected):
            raise MissingError(f"accelerated, and where: expected {expected}, found {output}")

    def test(self, tests: Sequence[str] = TESTS, *options: str, marks: str = MARKS) -> bool:
        """Run tests, named by their places in ``tests``; return whether they pass."""
        command: list[str | Path] = [
            self.python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-r",
            "f",
            "-m",
            marks,
        ]
        command += ["-n", "2", "--dist", "loadfile", *options, *(self.folder / "tests" / name for name in tests)]
        return subprocess.run(command, cwd=self.folder, env=OUTSIDE, check=False).returncode == 0

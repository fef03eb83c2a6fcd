"""Downloads that single tests need. They are fetched into ``.cache`` on first use, once for all workers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.once import made_once
from tools.setup.project import CACHE, MAVEN_OPTIONS
from tools.setup.system import find_maven

Commands = Callable[[Path], Sequence[Sequence[str]]]
"""Returns the commands that fill a folder."""


def fetched(name: str, commands: Commands) -> Path:
    """Return the complete folder of this name. A folder whose making was interrupted is made again.

    The name has to change with the content. If the download fails, the test is skipped; under CI it fails: a run there
    must do everything.
    """

    def make(folder: Path) -> None:
        for command in commands(folder):
            _run(name, command)

    return made_once(CACHE / name, make)


def maven_copy(coordinates: str) -> Commands:
    """Return commands that fetch one jar without its dependencies."""
    return lambda folder: [_maven("dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}")]


def maven_copy_dependencies(pom: Path) -> Commands:
    """Return commands that fetch a project's dependencies."""
    return lambda folder: [_maven("-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}")]


def _maven(*arguments: str) -> list[str]:
    return [str(find_maven() or "mvn"), *MAVEN_OPTIONS, *arguments]


def _run(name: str, command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        problem = (done.stdout + done.stderr).strip()[-500:] if done.returncode else None
    except FileNotFoundError as error:
        problem = str(error)
    if problem is not None and "CI" in os.environ:
        pytest.fail(f"{name} cannot be fetched: {problem}", pytrace=False)
    if problem is not None:
        pytest.skip(f"{name} cannot be fetched: {problem}")

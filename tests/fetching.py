"""Downloads that single tests need: fetched into ``.cache`` on first use, once for all workers."""

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
"""The commands that fill a folder."""


def fetched(name: str, commands: Commands) -> Path:
    """The folder of this name, whole: one whose making was interrupted is made anew.

    The name has to change with what is fetched. Skips the test where it cannot be had; under CI, where a run that does
    less than it should is no run, fails it.
    """

    def make(folder: Path) -> None:
        for command in commands(folder):
            _run(name, command)

    return made_once(CACHE / name, make)


def maven_copy(coordinates: str) -> Commands:
    """Fetches one jar, alone."""
    return lambda folder: [_maven("dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}")]


def maven_copy_dependencies(pom: Path) -> Commands:
    """Fetches what a project depends on."""
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

"""Tests that run in a process of their own, with other packages than this one has."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import cast
from xml.etree import ElementTree

import pytest

from tools.setup.project import ROOT

Failures = dict[str, str]
"""What went wrong in each test that failed or was not run; an empty text for those that passed."""


def all_tests(module: ModuleType) -> list[FunctionType]:
    """Return the tests of a module."""
    return [test for name, test in vars(module).items() if name.startswith("test_")]


def selected_cases(request: pytest.FixtureRequest, test: Callable[..., None], parameter: str) -> dict[str, list[str]]:
    """Return what this run has of a test with the parameters ``parameter`` and ``name``: the names for each value."""
    found: dict[str, list[str]] = {}
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.originalname == test.__name__:
            case = cast("dict[str, str]", item.callspec.params)
            found.setdefault(case[parameter], []).append(case["name"])
    return found


def python_path(*folders: Path) -> str:
    """Return the value of ``PYTHONPATH`` with which these folders come first."""
    return os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])


def run_tests(tests: Iterable[FunctionType], report: Path, environment: Mapping[str, str], *arguments: str) -> Failures:
    """Run tests with further environment variables and arguments of pytest, which writes a report."""
    files = {test.__name__: test.__code__.co_filename for test in tests}
    selected = [f"{file}::{name}" for name, file in files.items()]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments, f"--junit-xml={report}", *selected]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    unknown = dict.fromkeys(files, f"not run:\n{done.stdout}{done.stderr}")
    return unknown | _problems(report) if report.exists() else unknown


def _problems(report: Path) -> Failures:
    """Return the problems of each test in a JUnit report; parametrized tests are one."""
    found: Failures = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.attrib["name"].partition("[")[0]
        found[name] = found.get(name, "") + "\n".join(problem.text or "" for problem in case)
    return found

"""Which tests try a mutant, by a map that a run of tests records."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.mutation.mutants import Mutant, mutants_of
from tools.setup.project import ROOT

pytest.importorskip("coverage", reason="the `dev` extra has it")

from tests.mutation.coverage_map import Choice, CoverageMap
from tests.mutation.recorder import FOLDER

LIMITS = "MOST = 5\n"
LOW = """LIMIT = 1

def double(n):
    return n * 2

def triple(n):
    return n * 3

def unused(n):
    return n * 4
"""
HIGH = """from aiokproto.codec.limits import MOST
from aiokproto.codec.low import double

def twice(n):
    return double(double(min(n, MOST)))
"""
TESTS = """import time

from aiokproto.codec import low
from aiokproto.records.high import twice

def test_double():
    assert low.double(2) == 4

def test_twice():
    started = time.perf_counter()
    while time.perf_counter() < started + 0.05:
        assert twice(2) == 8

def test_failing():
    assert low.double(2) == 5

def test_nothing():
    pass
"""
DOUBLE, TWICE = "test_here.py::test_double", "test_here.py::test_twice"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoverageMap]:
    tree, folder = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("map")
    package = tree / "src" / "aiokproto"
    modules = {"__init__.py": "", "codec/low.py": LOW, "codec/limits.py": LIMITS, "records/high.py": HIGH}
    for name, text in modules.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    (tree / "test_here.py").write_text(TESTS)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(tree / "src"), str(ROOT))),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        FOLDER: str(folder),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.mutation.recorder", "-p", "no:cacheprovider"]
    subprocess.run(command, cwd=tree, env=environment, check=False, stdout=subprocess.DEVNULL)
    coverage_map = CoverageMap(folder, package)
    yield coverage_map
    coverage_map.close()


def constant(file: str, text: str, value: str) -> Mutant:
    """The mutant of a constant of a module."""
    return next(mutant for mutant in mutants_of(file, text) if mutant.old == value)


def test_tests_that_run_the_line_are_chosen_quickest_first(recorded: CoverageMap) -> None:
    mutant = constant("codec/low.py", LOW, "2")
    assert recorded.choose(mutant, lambda test: True, 60) == Choice([DOUBLE, TWICE], 0)


def test_what_takes_longer_than_the_limit_is_cut(recorded: CoverageMap) -> None:
    mutant = constant("codec/low.py", LOW, "2")
    limit = recorded.seconds[DOUBLE] + recorded.seconds[TWICE] / 2
    assert recorded.choose(mutant, lambda test: True, limit) == Choice([DOUBLE], 1)


def test_only_tests_of_the_selection_are_chosen(recorded: CoverageMap) -> None:
    mutant = constant("codec/low.py", LOW, "2")
    assert recorded.choose(mutant, lambda test: test != DOUBLE, 60) == Choice([TWICE], 0)


@pytest.mark.parametrize("value", ["3", "4"])
def test_a_line_that_no_test_runs_has_no_tests(recorded: CoverageMap, value: str) -> None:
    assert recorded.choose(constant("codec/low.py", LOW, value), lambda test: True, 60) == Choice([], 0)


def test_what_runs_at_the_import_has_the_tests_of_its_module_then_of_its_importers(recorded: CoverageMap) -> None:
    of_module, of_importer = constant("codec/low.py", LOW, "1"), constant("codec/limits.py", LIMITS, "5")
    assert recorded.choose(of_module, lambda test: True, 60) == Choice([DOUBLE, TWICE], 0)
    assert recorded.choose(of_importer, lambda test: True, 60) == Choice([TWICE], 0)


def test_a_test_that_fails_without_a_mutant_is_none_of_the_map(recorded: CoverageMap) -> None:
    assert recorded.failed == ["test_here.py::test_failing"]
    assert set(recorded.seconds) == {DOUBLE, TWICE, "test_here.py::test_nothing"}

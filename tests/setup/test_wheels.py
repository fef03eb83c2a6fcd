"""What the distributions hold. That they can be installed and work is proved by `make wheels`, which takes minutes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.setup.project import ROOT
from tools.wheels.contents import Kind, faults, kind_of, names_in

COMPILED = "cpython-311-x86_64-linux-gnu.so"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files that the distributions are built from, because building leaves files behind."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("CHANGELOG.md", "LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def built(project: Path) -> dict[Kind, Path]:
    """The two distributions for which nothing has to be compiled."""
    command = [sys.executable, "-W", "ignore", "setup.py", "-q", "sdist", "bdist_wheel"]
    environment = {**os.environ, "AIOKPROTO_PURE": "1"}
    subprocess.run(command, cwd=project, env=environment, capture_output=True, check=True)
    return {kind_of(path): path for path in (project / "dist").iterdir()}


@pytest.mark.parametrize("kind", [Kind.SOURCE, Kind.PURE])
def test_a_distribution_has_all_files(project: Path, built: dict[Kind, Path], kind: Kind) -> None:
    assert set(built) == {Kind.SOURCE, Kind.PURE}
    assert faults(kind, names_in(built[kind]), project) == []


def test_the_pure_wheel_needs_nothing_of_the_machine(built: dict[Kind, Path]) -> None:
    assert built[Kind.PURE].name.endswith("-py3-none-any.whl")


def small_project(folder: Path) -> Path:
    for name in ("aiokproto/__init__.py", "aiokproto/py.typed", "aiokproto/records/_record.pyx"):
        path = folder / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


WHEEL = {"aiokproto/__init__.py", "aiokproto/py.typed"}
RECORD = f"aiokproto/records/_record.{COMPILED}"
SOURCE = {f"src/{name}" for name in (*WHEEL, "aiokproto/records/_record.pyx")} | {
    *("pyproject.toml", "setup.py", "README.md", "LICENSE", "CHANGELOG.md")
}


@pytest.mark.parametrize(
    ("kind", "names", "expected"),
    [
        (Kind.PURE, WHEEL, []),
        (Kind.COMPILED, {*WHEEL, RECORD}, []),
        (Kind.SOURCE, SOURCE, []),
        (Kind.PURE, WHEEL - {"aiokproto/py.typed"}, ["aiokproto/py.typed is missing"]),
        (Kind.PURE, {*WHEEL, RECORD}, [f"{RECORD} does not belong there"]),
        (Kind.PURE, {*WHEEL, "a/_record.pyx"}, ["a/_record.pyx does not belong there"]),
        (Kind.COMPILED, WHEEL, ["aiokproto/records/_record is not compiled"]),
        (Kind.COMPILED, {*WHEEL, RECORD, "a/_record.c"}, ["a/_record.c does not belong there"]),
        (Kind.SOURCE, SOURCE - {"setup.py"}, ["setup.py is missing"]),
        (
            Kind.SOURCE,
            SOURCE - {"src/aiokproto/records/_record.pyx"},
            ["src/aiokproto/records/_record.pyx is missing"],
        ),
        (Kind.SOURCE, {*SOURCE, "src/a/_record.so"}, ["src/a/_record.so does not belong there"]),
    ],
)
def test_defects_of_a_distribution_are_named(tmp_path: Path, kind: Kind, names: set[str], expected: list[str]) -> None:
    assert faults(kind, names, small_project(tmp_path)) == expected


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aiokproto-1.0.tar.gz", Kind.SOURCE),
        ("aiokproto-1.0-py3-none-any.whl", Kind.PURE),
        ("aiokproto-1.0-cp311-cp311-linux_x86_64.whl", Kind.COMPILED),
    ],
)
def test_the_kind_of_a_distribution_is_in_its_name(name: str, kind: Kind) -> None:
    assert kind_of(Path(name)) is kind

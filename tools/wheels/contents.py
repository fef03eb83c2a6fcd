"""The files of a distribution, compared with those expected."""

from __future__ import annotations

import tarfile
import zipfile
from enum import Enum
from pathlib import Path, PurePosixPath

SOURCES = (".pxd", ".pyx")
COMPILED = (".so", ".pyd")
GENERATED = (".c", ".cpp", ".o")


class Kind(Enum):
    """The three distributions of a release."""

    COMPILED = "compiled wheel"
    PURE = "pure wheel"
    SOURCE = "source distribution"


def kind_of(distribution: Path) -> Kind:
    if distribution.suffix != ".whl":
        return Kind.SOURCE
    return Kind.PURE if distribution.name.endswith("-py3-none-any.whl") else Kind.COMPILED


def names_in(distribution: Path) -> set[str]:
    """The files of a wheel; those of a source distribution, without the folder that all of them are in."""
    if kind_of(distribution) is not Kind.SOURCE:
        with zipfile.ZipFile(distribution) as wheel:
            return set(wheel.namelist())
    with tarfile.open(distribution) as archive:
        return {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}


def faults(kind: Kind, names: set[str], project: Path) -> list[str]:
    """How the files of a distribution differ from what those in the folder of the project ask for, one a line."""
    expected, unwanted = _expected(kind, project / "src"), _unwanted(kind)
    lacking = [f"{name} is missing" for name in sorted(expected - names)]
    too_many = [f"{name} does not belong there" for name in sorted(names) if PurePosixPath(name).suffix in unwanted]
    if kind is Kind.COMPILED:
        lacking += _not_compiled(names, project / "src")
    return lacking + too_many


def _expected(kind: Kind, src: Path) -> set[str]:
    suffixes = (".py", ".typed", *SOURCES) if kind is Kind.SOURCE else (".py", ".typed")
    files = {
        path.relative_to(src).as_posix()
        for path in src.rglob("*")
        if path.suffix in suffixes or path.name == "py.typed"
    }
    if kind is Kind.SOURCE:
        return {f"src/{name}" for name in files} | {
            "pyproject.toml",
            "setup.py",
            "README.md",
            "LICENSE",
            "CHANGELOG.md",
        }
    return files


def _unwanted(kind: Kind) -> tuple[str, ...]:
    if kind is Kind.COMPILED:
        return (*SOURCES, *GENERATED)
    return (*COMPILED, *GENERATED, *(SOURCES if kind is Kind.PURE else ()))


def _not_compiled(names: set[str], src: Path) -> list[str]:
    compiled = {name.partition(".")[0] for name in names if PurePosixPath(name).suffix in COMPILED}
    sources = {path.relative_to(src).with_suffix("").as_posix() for path in src.rglob("*.pyx")}
    return [f"{name} is not compiled" for name in sorted(sources - compiled)]

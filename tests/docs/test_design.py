"""The map in DESIGN.md is the tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.setup.project import ROOT

PACKAGE = ROOT / "src" / "aiokproto"
DESIGN = (ROOT / "DESIGN.md").read_text()
HOUSE = DESIGN[DESIGN.index("## 1.") : DESIGN.index("## 2.")]
ROWS = re.findall(r"^\| `([\w/]+)/` \| (.+) \| (.+) \|$", HOUSE, re.MULTILINE)


def test_every_folder_has_a_row_and_every_row_a_folder() -> None:
    folders = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("__init__.py")} - {"."}
    assert sorted(folder for folder, _, _ in ROWS) == sorted(folders)


def test_the_files_to_open_first_are_there() -> None:
    for folder, _, first in ROWS:
        for name in re.findall(r"`(\w+)`", first):
            assert (PACKAGE / folder / f"{name}.py").exists(), f"{folder}: {name}"


@pytest.mark.parametrize(("which", "folder"), [("the package", PACKAGE), ("`broker/`", PACKAGE / "broker")])
def test_the_files_at_a_root_are_named(which: str, folder: Path) -> None:
    """What is left at a root has a reason to be there; the rest belongs into a folder that says what it is."""
    sentence = HOUSE.partition(f"Files at the root of {which}:")[2].partition("\n\n")[0]
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__", "_version"}
    assert set(re.findall(r"`(\w+)`", sentence)) == modules


def test_the_places_where_things_are_decided_are_there() -> None:
    """A function is named behind its file."""
    table = HOUSE.partition("| question | file |")[2]
    for cell in re.findall(r"^\| .+ \| (.+) \|$", table, re.MULTILINE):
        for name, functions in re.findall(r"`([\w/]+\.(?:py|md))`(?:: ((?:`\w+`(?:, )?)+))?", cell):
            path = (ROOT if name.endswith(".md") or name.startswith("tests/") else PACKAGE) / name
            assert path.exists(), name
            for function in re.findall(r"\w+", functions):
                assert f"def {function}(" in path.read_text(), f"{name}: {function}"


def test_the_functions_that_refresh_metadata_are_there() -> None:
    """The theory of `failures` follows one error code through the code."""
    text = (PACKAGE / "failures" / "__init__.py").read_text()
    rows = re.findall(r"``(\w+/\w+\.py)``: (.+)$", text, re.MULTILINE)
    assert len(rows) > 4
    for name, functions in rows:
        for function in re.findall(r"``(\w+)``", functions):
            assert f"def {function}(" in (PACKAGE / name).read_text(), f"{name}: {function}"


def test_the_drawing_fits_a_screen_and_the_cells_are_short() -> None:
    drawing = HOUSE.split("```")[1].strip("\n").splitlines()
    assert len(drawing) <= 40
    assert max(map(len, drawing)) <= 110
    assert max(len(cell) for row in ROWS for cell in row) <= 80


def test_the_drawing_has_every_package() -> None:
    drawing = HOUSE.split("```")[1]
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages == {name for name in packages if re.search(rf"\b{name}\b", drawing)}

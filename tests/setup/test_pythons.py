"""Which interpreters `make pythons` finds, and what it says of those that it does not."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tools.pythons.__main__ import bounds, table
from tools.pythons.interpreters import PROMISED, Interpreter, ask, candidates, find
from tools.setup.project import ROOT


def fake_python(folder: Path, name: str, answer: object) -> Path:
    """A program that gives the same answer to every question."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    program.chmod(0o755)
    return program


def test_the_interpreter_that_runs_this_is_known() -> None:
    whole = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    if not whole.exists():
        pytest.skip(f"there is no {whole}")
    found = ask(whole)
    assert found is not None
    assert found.version == sys.version_info[:3]
    assert found.name.startswith(f"{sys.version_info[0]}.{sys.version_info[1]}")


def test_the_newest_of_each_release_is_taken(tmp_path: Path) -> None:
    older = fake_python(tmp_path / "a", "python3.12", ["cpython", [3, 12, 1], False, True])
    newer = fake_python(tmp_path / "b", "python3.12", ["cpython", [3, 12, 9], False, True])
    same = fake_python(tmp_path / "c", "python3.12", ["cpython", [3, 12, 9], False, True])
    free = fake_python(tmp_path / "d", "python3.12t", ["cpython", [3, 12, 2], True, True])
    oldest = fake_python(tmp_path / "e", "python3.10", ["cpython", [3, 10, 0], False, True])
    found = find([free, older, newer, same, oldest])
    assert list(found) == ["3.10", "3.12", "3.12t"]
    assert [one.python for one in found.values()] == [oldest, newer, free]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(["pypy", [3, 11, 1], False, True], id="another implementation"),
        pytest.param(["cpython", [3, 11, 1], False, False], id="a virtual environment"),
        pytest.param(["cpython", [3, 9, 9], False, True], id="too old"),
        pytest.param("hello", id="no Python"),
    ],
)
def test_what_the_package_cannot_be_tried_on_is_passed_over(tmp_path: Path, answer: object) -> None:
    assert find([fake_python(tmp_path, "python3.11", answer)]) == {}


def test_a_program_that_does_not_run_is_passed_over(tmp_path: Path) -> None:
    shim = tmp_path / "python3.11"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    assert find([shim, tmp_path / "missing"]) == {}


def test_programs_are_looked_for_on_the_path_and_where_pyenv_and_uv_keep_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYENV_ROOT", raising=False)
    wanted = [
        fake_python(tmp_path / "bin", "python3.14t", []),
        fake_python(tmp_path / ".pyenv/versions/3.12.1/bin", "python3.12", []),
        fake_python(tmp_path / ".local/share/uv/python/cpython-3.14/bin", "python3.14", []),
    ]
    fake_python(tmp_path / "bin", "python3.14-config", [])
    fake_python(tmp_path / "bin", "python3", [])
    assert list(candidates(tmp_path, f"{tmp_path}/bin:{tmp_path}/none:")) == wanted


def test_the_table_names_what_was_seen_and_what_was_not_found() -> None:
    outcomes = {"3.13": {"release": "3.13.0", "global lock": "on", "accelerated": "passed", "pure": "failed"}}
    assert table(outcomes, ("3.13", "3.14t")).splitlines() == [
        "Python  release    global lock  accelerated  pure    uvloop",
        "3.13    3.13.0     on           passed       failed  -",
        "3.14t   not found  -            -            -       -",
    ]


def test_a_free_threaded_interpreter_has_a_name_of_its_own() -> None:
    assert Interpreter(Path("python"), (3, 14, 2), free_threaded=True).name == "3.14t"


def test_the_metadata_names_the_releases_that_are_promised() -> None:
    metadata = (ROOT / "pyproject.toml").read_text()
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', metadata)
    assert named == [name for name in PROMISED if not name.endswith("t")]
    assert f'requires-python = ">={named[0]}"' in metadata
    assert ("Free Threading" in metadata) is any(name.endswith("t") for name in PROMISED)


@pytest.mark.parametrize(
    ("here", "expected"),
    [
        ([10, 11, 12, 13, 14], ["3.10", "3.14"]),
        ([11, 12, 13], ["3.12", "3.13"]),
        ([10, 11], ["3.10"]),
        ([11], []),
    ],
)
def test_the_bounds_are_the_oldest_and_the_newest_other_release(here: list[int], expected: list[str]) -> None:
    found = {f"3.{minor}": Interpreter(Path("python"), (3, minor, 1), False) for minor in here}
    assert [*bounds(found, (3, 11))] == expected

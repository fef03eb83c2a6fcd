"""The project has no type errors, and its public API says its types alike to mypy (strict) and to pyright.

Each checker runs once, on all files and on `rejected.txt`, where it must reject exactly the lines marked
``# expect-error``. mypy also reads the snippets of the short answers.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.typing import snippets
from tools.setup.project import CACHE, ROOT

REJECTED = (Path(__file__).parent / "rejected.txt").read_text()
FOLDER = CACHE / "typing"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Findings(NamedTuple):
    """What a checker reports: lines of `REJECTED`, and anything else."""

    rejected: dict[int, str]
    others: list[str]


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    """The checkers' settings, by their names."""
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 cannot read pyproject.toml")
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert isinstance(tools, dict)
    return tools


@pytest.fixture(scope="module")
def module() -> Path:
    """What is to be rejected, as a module. It stays where it is, so that mypy's cache holds."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    module = FOLDER / "rejected.py"
    module.write_text(REJECTED)
    return module


@pytest.fixture(scope="module")
def mypy(settings: dict[str, Any], module: Path) -> Findings:
    pytest.importorskip("mypy")
    pages = [str(page) for page in snippets.write(FOLDER)]
    assert len(pages) >= 30
    files = [*settings["mypy"]["files"], str(module), *pages]
    text = run("mypy", "--output=json", f"--cache-dir={FOLDER / 'mypy'}", *files)
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return sort(module, [(one["file"], one["line"], one["message"]) for one in found if one["severity"] == "error"])


@pytest.fixture(scope="module")
def pyright(settings: dict[str, Any], module: Path) -> Findings:
    pytest.importorskip("pyright")
    config = FOLDER / "pyrightconfig.json"
    # It wants them relative to its configuration, and leaves out what it is not given so.
    folders = [os.path.relpath(ROOT / folder, FOLDER) for folder in settings["pyright"]["include"]]
    paths = {"include": [*folders, module.name], "venvPath": str(ROOT), "extraPaths": [str(ROOT), str(ROOT / "src")]}
    config.write_text(json.dumps({**settings["pyright"], **paths}))
    report = json.loads(run("pyright", "--outputjson", "-p", str(config)))
    assert report["summary"]["filesAnalyzed"] > 1000
    found = [one for one in report["generalDiagnostics"] if one["severity"] == "error"]
    return sort(module, [(one["file"], one["range"]["start"]["line"] + 1, one["message"]) for one in found])


def run(*command: str) -> str:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    # Exit code 1 means that there are errors; anything above, that the checker couldn't run.
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def sort(module: Path, errors: list[tuple[str, int, str]]) -> Findings:
    """Errors (path, line, text) by the file they are in."""
    findings = Findings({}, [])
    for path, line, text in errors:
        if Path(path).name == module.name:
            findings.rejected[line] = text
        else:
            findings.others.append(f"{path}:{line}: {text}")
    return findings


@pytest.fixture(params=["mypy", "pyright"])
def findings(request: pytest.FixtureRequest) -> Findings:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Findings)
    return found


def test_the_project_has_no_type_errors(findings: Findings) -> None:
    assert not findings.others, "\n".join(findings.others)


def test_wrong_use_is_reported_in_every_marked_line_and_no_other(findings: Findings) -> None:
    lines = enumerate(REJECTED.splitlines(), 1)
    expected = {number: line for number, line in lines if re.search(r"# expect-error$", line)}
    assert len(expected) > 20
    missed = {number: line for number, line in expected.items() if number not in findings.rejected}
    surplus = {number: text for number, text in findings.rejected.items() if number not in expected}
    assert (missed, surplus) == ({}, {})

"""The public API says its types, and says them alike to mypy (strict) and to pyright.

Each checker runs once, on two files: `api.py`, which must pass, and what `rejected.txt` holds, of which exactly the
lines marked ``# expect-error`` must not.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SRC = ROOT / "src"
CACHE = ROOT / ".cache" / "mypy-typing"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class Findings(NamedTuple):
    """What a checker said: of lines in the files that are to be checked, and of anything else."""

    accepted: dict[int, str]
    rejected: dict[int, str]
    others: list[str]


class Files(NamedTuple):
    """The files to check, where nothing of this project's configuration reaches them."""

    folder: Path
    accepted: Path
    rejected: Path

    def sort(self, errors: list[tuple[str, int, str]]) -> Findings:
        """Errors (path, line, text) by the file they are in."""
        findings = Findings({}, {}, [])
        for path, line, text in errors:
            name = Path(path).name
            if name == self.accepted.name:
                findings.accepted[line] = text
            elif name == self.rejected.name:
                findings.rejected[line] = text
            else:
                findings.others.append(f"{path}:{line}: {text}")
        return findings


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("typing")
    found = Files(folder, folder / "accepted.py", folder / "rejected.py")
    found.accepted.write_text((HERE / "api.py").read_text())
    found.rejected.write_text((HERE / "rejected.txt").read_text())
    return found


def run(files: Files, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=files.folder, capture_output=True, text=True, check=False
    )
    # 1 is "there are errors"; anything above, that it could not work.
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def mypy(files: Files) -> Findings:
    pytest.importorskip("mypy")
    config = files.folder / "mypy.ini"
    config.write_text(f"[mypy]\nstrict = true\npython_version = 3.10\nmypy_path = {SRC}\ncache_dir = {CACHE}\n")
    text = run(files, "mypy", f"--config-file={config}", "--output=json", "--follow-imports=silent",
               str(files.accepted), str(files.rejected))  # fmt: skip
    errors = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return files.sort([(one["file"], one["line"], one["message"]) for one in errors if one["severity"] == "error"])


@pytest.fixture(scope="module")
def pyright(files: Files) -> Findings:
    pytest.importorskip("pyright")
    config = files.folder / "pyrightconfig.json"
    settings = {
        "include": [files.accepted.name, files.rejected.name],
        "extraPaths": [str(SRC)],
        "pythonVersion": "3.10",
        "typeCheckingMode": "standard",
    }
    config.write_text(json.dumps(settings))
    report = json.loads(run(files, "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(config)))
    return files.sort(
        [
            (one["file"], one["range"]["start"]["line"] + 1, one["message"])
            for one in report["generalDiagnostics"]
            if one["severity"] == "error"
        ]
    )


@pytest.fixture(params=["mypy", "pyright"])
def findings(request: pytest.FixtureRequest) -> Findings:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Findings)
    return found


def test_types_are_what_they_should_be(findings: Findings) -> None:
    assert findings.accepted == {}
    assert findings.others == []


def test_wrong_use_is_reported_in_every_marked_line_and_no_other(findings: Findings) -> None:
    lines = enumerate((HERE / "rejected.txt").read_text().splitlines(), 1)
    expected = {number: line for number, line in lines if re.search(r"# expect-error$", line)}
    assert len(expected) > 20
    missed = {number: line for number, line in expected.items() if number not in findings.rejected}
    surplus = {number: text for number, text in findings.rejected.items() if number not in expected}
    assert (missed, surplus) == ({}, {})

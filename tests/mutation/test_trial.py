"""What a trial runs and reports, and that it leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.mutation import runner
from tests.mutation.runner import in_parts
from tests.mutation.trial import Ending, replaced, run_all, run_trial, verdict
from tools.setup.project import ROOT

ENVIRONMENT = {"PYTHONPATH": str(ROOT)}
"""The plugin that reports comes from this tree."""
TESTS = """import subprocess

def test_first():
    assert False

def test_second():
    pass

def test_third():
    with open("written", "w") as pipe:
        subprocess.Popen(["sleep", "600"], stdout=pipe)
"""
BEGUN, FAILED, ENDED = ["begun", "test_a"], ["failed", "test_a"], ["ended", "test_a"]


async def test_only_chosen_tests_run_in_their_order_and_what_they_started_ends(tmp_path: Path) -> None:
    (tmp_path / "test_here.py").write_text(TESTS)
    os.mkfifo(tmp_path / "written")
    reader = os.open(tmp_path / "written", os.O_RDONLY | os.O_NONBLOCK)
    tests = ["third", "gone", "second", "first"]
    chosen = {f"test_here.py::test_{name}": 60.0 for name in tests}
    trial = await run_trial(tmp_path, ["test_here.py"], ENVIRONMENT, chosen)
    assert trial[:3] == (Ending.FAILED, "test_here.py::test_first", 3)
    os.set_blocking(reader, True)
    # The pipe ends when the last process that could write to it has ended.
    assert os.read(reader, 1) == b""
    os.close(reader)


async def test_a_trial_is_killed_at_its_limit(tmp_path: Path) -> None:
    (tmp_path / "test_here.py").write_text("while True: pass")
    trial = await run_trial(tmp_path, ["test_here.py"], ENVIRONMENT, limit=0.1)
    assert trial.ending is Ending.KILLED


def test_a_trial_is_killed_when_the_process_that_runs_it_is_terminated(tmp_path: Path) -> None:
    (tmp_path / "test_here.py").write_text("while True: pass")

    async def run() -> None:
        asyncio.get_running_loop().call_later(0.1, signal.raise_signal, signal.SIGTERM)
        await run_trial(tmp_path, ["test_here.py"], ENVIRONMENT)

    # It ends only if the trial has ended.
    with pytest.raises(SystemExit):
        run_all(run())


@pytest.mark.parametrize(
    ("status", "events", "output", "ending", "test"),
    [
        (0, [BEGUN, ENDED], "", Ending.PASSED, None),
        (5, [], "", Ending.PASSED, None),
        (1, [BEGUN, FAILED, ENDED], "", Ending.FAILED, "test_a"),
        (1, [BEGUN], "++ Timeout ++", Ending.HUNG, "test_a"),
        (-11, [BEGUN], "", Ending.FAILED, "test_a"),
        (None, [BEGUN], "", Ending.KILLED, None),
        (None, [BEGUN, FAILED], "", Ending.FAILED, "test_a"),
        (2, [["failed", "test_a.py"]], "", Ending.BROKEN, "test_a.py"),
        (4, [], "", Ending.BROKEN, None),
    ],
)
def test_only_a_test_that_fails_has_noticed_the_change(
    status: int | None, events: Sequence[Sequence[str]], output: str, ending: Ending, test: str | None
) -> None:
    assert verdict(status, events, output)[:2] == (ending, test)


def test_a_module_is_what_it_was_also_for_those_that_import_it(tmp_path: Path) -> None:
    """Python takes texts of one size that are written in the same second for the same, and keeps its bytecode."""
    module = tmp_path / "module.py"
    module.write_text("print(1)")

    def printed() -> str:
        command = [sys.executable, "-c", "import module"]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout

    before = printed()
    stamp = module.stat().st_mtime
    with replaced(module, "print(2)"):
        os.utime(module, (stamp, stamp))
        assert printed() == "2\n"
    os.utime(module, (stamp, stamp))
    assert printed() == before == "1\n"


def test_tests_of_the_files_that_come_first_run_before_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "FIRST_FILES", 2)
    assert in_parts(["a::1", "b::1", "c::1", "a::2"]) == [["a::1", "b::1", "a::2"], ["c::1"]]
    assert in_parts(["a::1", "b::1"]) == [["a::1", "b::1"]]

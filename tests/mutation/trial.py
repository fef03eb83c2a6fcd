"""A trial: tests run on a copy of the tree with one change, until one of them fails.

Only a test that fails has noticed the change. One that does not end within its timeout is an ending of its own: the
suite's timeout would fail it, but the machine may be slow. A trial that has to be killed from outside proves nothing.
"""

from __future__ import annotations

import asyncio
import enum
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

from tests.mutation.trial_plugin import CHOSEN, LOG
from tools.setup.project import ROOT

FOLDERS = ("benchmarks", "docs", "examples", "src", "tests", "tools")
OPTIONS = (
    *("-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "tests.mutation.trial_plugin"),
    # The thread ends the process. An exception that a signal raises can be caught: an event loop reports it and
    # continues.
    "--timeout-method=thread",
)
DROPPED = {"CI", "PYTEST_ADDOPTS", "PYTHONDONTWRITEBYTECODE"}
"""Variables that would change what runs, or have every trial compile all modules again."""
PYTEST_OPTIONS = ("--pure", "--hypothesis-seed=0")
VARIABLES = {"AIOKPROTO_PURE": "1", "PYTHONHASHSEED": "0"}
"""With these options, the map and all trials of a mutant have the same chances."""


T = TypeVar("T")


class Ending(enum.Enum):
    """How a trial ended."""

    PASSED = "no test failed"
    FAILED = "a test failed"
    HUNG = "a test did not end within its timeout"
    KILLED = "the tests did not end within the trial's limit"
    BROKEN = "the tests could not run"


class Trial(NamedTuple):
    """What a trial showed.

    Attributes:
        ending: How it ended.
        test: Node id of the test that failed or hung; of its file, if that could not be imported.
        ran: How many tests started.
        output: What pytest printed.
    """

    ending: Ending
    test: str | None
    ran: int
    output: str


def copy_tree(folder: Path) -> None:
    """Copy what tests need of the project."""
    for part in FOLDERS:
        shutil.copytree(ROOT / part, folder / part, symlinks=True)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy2(path, folder)


def variables_of(tree: Path) -> dict[str, str]:
    """Return the variables with which tests run on a copy of the tree."""
    path = {"PYTHONPATH": os.pathsep.join((str(tree / "src"), str(tree)))}
    return {name: value for name, value in os.environ.items() if name not in DROPPED} | path


@contextmanager
def replaced(path: Path, text: str) -> Iterator[None]:
    """Replace a module's text within the block."""
    before = path.read_text()
    try:
        _replace(path, text)
        yield
    finally:
        _replace(path, before)


def _replace(path: Path, text: str) -> None:
    path.write_text(text)
    # Python compares only the size and the second of a change, and would take the former text's bytecode.
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


def run_all(trials: Coroutine[object, object, T]) -> T:
    """Run a coroutine that runs trials. All trials are killed, even if this process is terminated or interrupted."""
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        return asyncio.run(trials)
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminated(signum: int, frame: object) -> None:
    # Raise as an interrupt does, so that the tasks are cancelled.
    raise SystemExit(128 + signum)


async def run_trial(
    tree: Path,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    chosen: Mapping[str, float] | None = None,
    limit: float | None = None,
) -> Trial:
    """Run tests of a copy of the tree. All processes that they started are killed at the end, and on cancellation.

    Args:
        tree: The copy.
        arguments: Arguments of pytest: files and more options.
        environment: Variables to add to the environment of this process.
        chosen: The only tests that run, in their order, each with its timeout in seconds.
        limit: The most seconds that all of them may take together.
    """
    with tempfile.TemporaryDirectory(prefix="aiokproto-trial-", ignore_cleanup_errors=True) as made:
        scratch = Path(made)
        log, output = scratch / "log", scratch / "output"
        variables = {**variables_of(tree), "TMPDIR": made, LOG: str(log), **environment}
        if chosen is not None:
            (scratch / "chosen").write_text(json.dumps(chosen))
            variables[CHOSEN] = str(scratch / "chosen")
        command = [sys.executable, "-m", "pytest", *OPTIONS, f"--basetemp={scratch / 'tests'}", *arguments]
        status = await _run_group(command, tree, variables, output, limit)
        events = log.read_text().splitlines() if log.exists() else []
        return verdict(status, [json.loads(event) for event in events], output.read_text(errors="replace"))


async def _run_group(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], output: Path, limit: float | None
) -> int | None:
    """Run a process in a group of its own, which is killed at the end; return its status, or None at the limit."""
    # A file and not a pipe, because children that outlive the process would keep a pipe open.
    with output.open("wb") as stream:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    ended = asyncio.ensure_future(process.wait())
    try:
        done, _ = await asyncio.wait({ended}, timeout=limit)
        return process.returncode if done else None
    finally:
        # No other group can have this number while one of the group's processes lives.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # Don't wait for `ended` here, because all tasks are cancelled when the loop ends.
        await process.wait()


def verdict(status: int | None, events: Sequence[Sequence[str]], output: str) -> Trial:
    """Return what a trial's exit status, log and output say; its status is None if it was killed."""
    begun = [test for event, test in events if event == "begun"]
    failed = [test for event, test in events if event == "failed"]
    unfinished = begun and events[-1][0] != "ended"
    if failed:
        return Trial(Ending.FAILED if begun else Ending.BROKEN, failed[0], len(begun), output)
    if status is None:
        return Trial(Ending.KILLED, None, len(begun), output)
    if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return Trial(Ending.PASSED, None, len(begun), output)
    if unfinished and "+ Timeout +" in output:
        return Trial(Ending.HUNG, begun[-1], len(begun), output)
    if unfinished:
        # The test ended the process.
        return Trial(Ending.FAILED, begun[-1], len(begun), output)
    return Trial(Ending.BROKEN, None, len(begun), output)

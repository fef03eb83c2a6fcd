"""The tutorial as a reader does it: files are saved, commands are typed, and what they print is compared."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

from tests.docs.snippets import ROOT, shows
from tests.timeouts import LONG_TIMEOUT

PORT = "9092"
"""The port that the pages write. A run puts a free one in its place."""
_BLOCK = re.compile(r"^```(python [\w-]+\.py|console(?: background)?)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What every reader does, and the machine that runs the tests has done.
_DONE = re.compile(r"pip install|mkdir|python -m venv")


class Step(NamedTuple):
    """A block of a page.

    Attributes:
        file: The name of the file to save; empty for a command.
        text: The content of the file, or the commands with what they print.
        background: Whether the command goes on running.
    """

    file: str
    text: str
    background: bool


def steps(page: Path) -> list[Step]:
    """Return the steps of a page, in order.

    Raises:
        ValueError: The text before a file doesn't tell the reader its name.
    """
    text, found = page.read_text(), []
    for block in _BLOCK.finditer(text):
        kind, _, mark = block[1].partition(" ")
        file = mark if kind == "python" else ""
        if file and f"`{file}`" not in text[: block.start()].rpartition("\n```\n")[2]:
            raise ValueError(f"{page.name}: the text doesn't say to save {file}")
        found.append(Step(file, block[2], mark == "background"))
    return found


def shows_in_any_order(output: str, printed: str) -> bool:
    """Return whether a page's output is what was printed; the lines of several partitions can come in any order."""
    return shows(output, printed) or sorted(output.splitlines()) == sorted(printed.splitlines())


class Running:
    """A command that runs, and what it has printed so far."""

    def __init__(self, command: str, folder: Path) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
        self.errors = ""
        self.printed = ""
        self.process = subprocess.Popen(
            f"exec {command}",
            shell=True,
            cwd=folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._changed = threading.Condition()
        self._readers = [threading.Thread(target=read) for read in (self._read_output, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def _read_output(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.printed += line
                self._changed.notify_all()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors += line

    def wait_until_it_shows(self, output: str) -> None:
        """Wait until it has printed what the page shows."""
        with self._changed:
            done = self._changed.wait_for(lambda: shows_in_any_order(output, self.printed), LONG_TIMEOUT)
        assert done, f"{self.process.args!r} prints\n{self.printed}{self.errors}\ninstead of\n{output}"

    def end(self, interrupt: bool = False) -> int:
        """Wait for its end, or press Ctrl-C; return its exit code."""
        if interrupt:
            self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(4 * LONG_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        for reader in self._readers:
            reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        return code


class Session:
    """A reader with a folder and as many terminals as needed."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.background: list[Running] = []

    def do(self, page: Path) -> None:
        """Do all steps of a page."""
        for step in steps(page):
            text = step.text.replace(PORT, str(self.port))
            if step.file:
                (self.folder / step.file).write_text(text)
            else:
                for typed in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                    command, _, output = typed.partition("\n")
                    if not _DONE.match(command):
                        self.type(command, output, step.background)

    def type(self, command: str, output: str, background: bool = False) -> None:
        """Type a command, and wait until it shows its output."""
        running = Running(command, self.folder)
        self.background.append(running)
        shown, interrupt, _ = output.partition("^C")
        if background or interrupt:
            running.wait_until_it_shows(shown)
        if not background:
            self.background.remove(running)
            assert running.end(bool(interrupt)) == 0, running.errors
            running.wait_until_it_shows(shown)

    def close(self) -> None:
        """Press Ctrl-C in every terminal, the broker's last."""
        for running in reversed(self.background):
            running.end(interrupt=True)
        self.background.clear()

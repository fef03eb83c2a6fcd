"""The interpreters of a machine, and which of them the package promises to work with."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PROMISED = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.14t")
"""With a t: free-threaded (PEP 703)."""

_NAME = re.compile(r"python3\.\d+t?")
_ASK = """
import ensurepip, json, sys, sysconfig, venv
print(json.dumps([
    sys.implementation.name, sys.version_info[:3], bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    sys.prefix == sys.base_prefix,
]))
"""
_PATIENCE = 60


@dataclass(frozen=True)
class Interpreter:
    """A CPython that can make virtual environments."""

    python: Path
    version: tuple[int, ...]
    free_threaded: bool

    @property
    def name(self) -> str:
        """``3.14``, or ``3.14t`` if it is free-threaded."""
        return f"{self.version[0]}.{self.version[1]}{'t' if self.free_threaded else ''}"

    @property
    def release(self) -> str:
        return ".".join(map(str, self.version))


def candidates(home: Path, path: str) -> Iterator[Path]:
    """The programs that may be interpreters: those on ``path``, and those that pyenv and uv keep in ``home``."""
    folders = [Path(folder) for folder in path.split(os.pathsep) if folder]
    folders += sorted(Path(os.environ.get("PYENV_ROOT", home / ".pyenv")).glob("versions/*/bin"))
    folders += sorted(home.glob(".local/share/uv/python/*/bin"))
    for folder in folders:
        yield from sorted(program for program in folder.glob("python3.*") if _NAME.fullmatch(program.name))


def ask(program: Path) -> Interpreter | None:
    """Return what a program is; None if it does not run, is no CPython, or cannot make virtual environments.

    The Python of a virtual environment is none either: it stands for another that is found as well.
    """
    try:
        done = subprocess.run(
            [program, "-I", "-c", _ASK], capture_output=True, text=True, check=True, timeout=_PATIENCE
        )
        implementation, version, free_threaded, whole = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    if implementation != "cpython" or not whole:
        return None
    return Interpreter(program, tuple(version), free_threaded)


def find(programs: Iterable[Path]) -> dict[str, Interpreter]:
    """Return the newest interpreter of each name, from 3.10 on; of equal ones the first."""
    found: dict[str, Interpreter] = {}
    for program in programs:
        interpreter = ask(program)
        if interpreter is None or interpreter.version < (3, 10):
            continue
        known = found.get(interpreter.name)
        if known is None or interpreter.version > known.version:
            found[interpreter.name] = interpreter
    return dict(sorted(found.items(), key=lambda item: (item[1].version[:2], item[1].free_threaded)))

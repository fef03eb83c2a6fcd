"""Compiles and names the tests' Java programs. A JDK need not be there: the compiler is among the jars of the tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.setup.project import MESSAGES_RELEASES, messages_jars
from tools.setup.system import find_java

PROGRAMS = Path(__file__).parent


def command(folder: Path, program: str) -> list[str]:
    """Return the command that runs a program which was compiled into the folder, with the newest Kafka client."""
    return [*_java(), "-cp", os.pathsep.join([str(folder), *_libraries()]), program]


def compile_java(source: Path, folder: Path) -> None:
    """Compile a program into a folder."""
    compiler = next(messages_jars(MESSAGES_RELEASES[0]).glob("ecj-*.jar"))
    options = ["-17", "-nowarn", "-encoding", "UTF-8", "-cp", os.pathsep.join(_libraries()), "-d", str(folder)]
    run([*_java(), "-jar", str(compiler), *options, str(source)])


def run(arguments: Sequence[str], lines: str = "") -> str:
    """Run Java with these lines as its input; return its output."""
    result = subprocess.run(arguments, input=lines, capture_output=True, encoding="utf-8", check=False)
    assert result.returncode == 0, f"Java failed:\n{result.stdout}{result.stderr}"
    return result.stdout


def _java() -> list[str]:
    java = find_java()
    assert java is not None
    return [str(java)]


def _libraries() -> list[str]:
    return [str(jar) for jar in sorted(messages_jars(MESSAGES_RELEASES[0]).glob("*.jar")) if "ecj-" not in jar.name]

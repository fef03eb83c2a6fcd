"""Compiles and names the tests' Java programs. They need no JDK, because the compiler is among the tests' jars."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.java.starting import java_command
from tests.once import made_once
from tools.setup.project import CACHE, MESSAGES_RELEASES, kafka_jars, messages_jars
from tools.setup.system import find_java

PROGRAMS = Path(__file__).parent
SILENT = "-Dorg.apache.logging.log4j.level=OFF"
"""An option for programs whose output tests read, because the brokers' Log4j would write errors into it."""


def command(source: Path, program: str, *options: str, jars: Path | None = None) -> list[str]:
    """Return the command that runs a program with the jars of a folder, by default the newest Kafka's.

    The source, a file or a folder, is compiled if need be. The caller appends the arguments.
    """
    jars = jars or kafka_jars()
    classes = compiled(source, sorted(jars.glob("*.jar")))
    return [*java_command(_java(), jars, classes), *options, program]


def compiled(source: Path, libraries: Sequence[Path]) -> Path:
    """Return the folder with the classes of a source: compiled once, until it or a library changes."""
    compiler = next(messages_jars(MESSAGES_RELEASES[0]).glob("ecj-*.jar"))
    digest = hashlib.sha256("\0".join(map(str, (compiler, *libraries))).encode())
    for path in sorted(source.rglob("*.java")) if source.is_dir() else [source]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    name = f"{source.stem}-{digest.hexdigest()[:16]}"
    return made_once(CACHE / "java" / name, partial(_compile, compiler, source, libraries))


def _compile(compiler: Path, source: Path, libraries: Sequence[Path], folder: Path) -> None:
    options = ["-17", "-nowarn", "-encoding", "UTF-8", "-cp", os.pathsep.join(map(str, libraries)), "-d", str(folder)]
    run([str(_java()), "-jar", str(compiler), *options, str(source)])


def run(arguments: Sequence[str], lines: str = "") -> str:
    """Run Java with these lines as its input; return its output."""
    result = subprocess.run(arguments, input=lines, capture_output=True, encoding="utf-8", check=False)
    assert result.returncode == 0, f"Java failed:\n{result.stdout}{result.stderr}"
    return result.stdout


def _java() -> Path:
    java = find_java()
    assert java is not None
    return java

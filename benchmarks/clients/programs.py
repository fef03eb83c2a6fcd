"""Clients and brokers in other languages: programs of ours, built into ``.cache`` on first use."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.setup.project import CACHE, MESSAGES_RELEASES, kafka_jars, kafka_ready, messages_jars, messages_ready
from tools.setup.system import find_java

HERE = Path(__file__).parent
BUILT = CACHE / "bench" / "clients"
BUILD_SECONDS = 300.0


class MissingError(Exception):
    """A program or library that the client needs is missing; the message names it."""


class BuildError(Exception):
    """The program cannot be built; has the line in which the compiler says why."""


def go() -> list[str]:
    """Build the program around franz-go, and return the command that runs it."""
    return _go("franz-go", HERE / "go")


def kfake() -> list[str]:
    """Build the program around franz-go's broker for tests, and return the command that runs it."""
    return _go("kfake", HERE.parent / "brokers" / "kfake")


def _go(name: str, sources: Path) -> list[str]:
    compiler = shutil.which("go")
    if compiler is None:
        raise MissingError("Go is not installed")
    program = BUILT / name
    with _alone():
        # An older Go would otherwise look for the version in go.mod, and wait long if it cannot be found.
        _build([compiler, "build", "-trimpath", "-o", str(program), "."], sources, GOTOOLCHAIN="local")
    return [str(program)]


def java() -> list[str]:
    """Compile the program around Kafka's own client, and return the command that runs it."""
    runtime = find_java()
    if runtime is None:
        raise MissingError("Java 17 or later is not installed")
    if not (kafka_ready() and messages_ready()):
        raise MissingError("the jars of Kafka are not there: `make kafka` fetches them")
    # A JDK need not be there: the compiler is among the jars that are fetched for the tests.
    jar = next(messages_jars(MESSAGES_RELEASES[0]).glob("ecj-*.jar"))
    classes, sources = BUILT / "java", HERE / "java"
    libraries = os.pathsep.join(map(str, sorted(kafka_jars().glob("*.jar"))))
    with _alone():
        if not _is_newer(classes / "Cell.class", sources):
            _build([str(runtime), "-jar", str(jar), "-17", "-cp", libraries, "-d", str(classes), str(sources)], HERE)
    return [str(runtime), "-cp", os.pathsep.join((str(classes), libraries)), "Cell"]


@contextmanager
def _alone() -> Iterator[None]:
    """Let one process at a time build: others would run an incomplete program."""
    BUILT.mkdir(parents=True, exist_ok=True)
    with (BUILT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_newer(built: Path, sources: Path) -> bool:
    """Whether the program is newer than all sources. Go checks this by itself."""
    return built.exists() and all(source.stat().st_mtime < built.stat().st_mtime for source in sources.iterdir())


def _build(command: list[str], folder: Path, **environment: str) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["it wrote nothing"]
        reason = next((line for line in lines if "error" in line.lower()), lines[-1])
        raise BuildError(f"{Path(command[0]).name} failed: {reason}")

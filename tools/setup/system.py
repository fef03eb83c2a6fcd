"""What must come from the operating system: Java and Maven, found or installed with apt-get, and a C compiler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

JAVA_VERSION = 17
# The first of these the distribution offers is installed; 17 and 21 are those that both Kafka and Spark are tested on.
JAVA_PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless", "default-jre-headless")
MAVEN_PACKAGES = ("maven",)


class MissingError(Exception):
    """Something the machine lacks; the message says how to get it."""


class KilledError(MissingError):
    """A signal ended a program in the middle of its work."""


def say(text: str) -> None:
    print(f"setup: {text}", file=sys.stderr, flush=True)


def find_java() -> Path | None:
    """The ``java`` program of the first suitable Java: ``JAVA_HOME``, then ``PATH``, then Debian's ``/usr/lib/jvm``."""
    return next((java for java in _java_candidates() if java_version(java) >= JAVA_VERSION), None)


def java_home(java: Path) -> Path:
    return java.resolve().parent.parent


@cache
def java_version(java: Path) -> int:
    """The feature release of a ``java`` program (17, 21, …; 8 calls itself 1.8), or 0 when it does not run."""
    # Tests ask for each process of Java that they start, and the answer is a process of Java.
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(match[1]) if match else 0


def find_maven() -> Path | None:
    maven = shutil.which("mvn")
    return Path(maven) if maven else None


def ensure_java() -> Path:
    java = find_java()
    if java is None:
        _install(JAVA_PACKAGES, f"Java {JAVA_VERSION} or later")
        java = find_java()
    if java is None:
        raise MissingError(f"Java {JAVA_VERSION} or later is not to be found, even after apt-get installed one")
    return java


def ensure_maven() -> Path:
    maven = find_maven()
    if maven is None:
        _install(MAVEN_PACKAGES, "Maven")
        maven = find_maven()
    if maven is None:
        raise MissingError("Maven (mvn) is not on PATH, even after apt-get installed it")
    return maven


def lacks_compiler(python: Path) -> str | None:
    """What is missing to compile extension modules of ``python``, and how to get it; None if nothing is."""
    compiler, headers = (python_config(python, name) for name in ("CC", "INCLUDEPY"))
    if shutil.which((os.environ.get("CC") or compiler or "cc").split()[0]) is None:
        return "there is no C compiler. On Debian, as root: apt-get install gcc libc6-dev python3-dev"
    if not Path(headers, "Python.h").exists():
        return "Python's headers are missing. On Debian, as root: apt-get install python3-dev"
    return None


def lacks_kerberos() -> str | None:
    """What is missing to compile the package gssapi, and how to get it; None if nothing is."""
    if shutil.which("krb5-config") is None:
        return "the headers of Kerberos are missing. On Debian, as root: apt-get install libkrb5-dev"
    return None


def python_config(python: Path, name: str) -> str:
    """How ``python`` was built: a variable of its `sysconfig`."""
    ask = f"import sysconfig; print(sysconfig.get_config_var({name!r}) or '')"
    return subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()


def _java_candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home, "bin", "java")
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    yield from sorted(Path("/usr/lib/jvm").glob("*/bin/java"))


def _install(packages: tuple[str, ...], what: str) -> None:
    """Install the first of ``packages`` that the distribution offers, or raise `MissingError` naming it."""
    if os.geteuid() != 0 or not Path("/etc/debian_version").exists() or shutil.which("apt-get") is None:
        names = " or ".join(packages)
        raise MissingError(f"{what} is missing. On Debian, as root: apt-get update && apt-get install {names}")
    say(f"{what} is missing: asking apt-get for it")
    try:
        _apt("update", "-qq")
        package = next(filter(_has_candidate, packages), None)
        if package is None:
            raise MissingError("apt-get offers none of these packages")
        say(f"installing {package} with apt-get")
        _apt("install", "-qq", "-y", "--no-install-recommends", package)
    except MissingError as error:
        raise MissingError(f"{what} ({' or '.join(packages)}) is missing: {error}") from error


def _has_candidate(package: str) -> bool:
    answer = subprocess.run(["apt-cache", "policy", package], capture_output=True, text=True, check=False).stdout
    return "Candidate:" in answer and "Candidate: (none)" not in answer


def _apt(*arguments: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", *arguments], environment)


def run(command: Iterable[str | Path], environment: dict[str, str] | None = None) -> None:
    """Run a program to its end, showing what it prints only when it fails; then raise `MissingError`."""
    words = [str(word) for word in command]
    result = subprocess.run(
        words,
        # A program that prompts would wait forever on an unattended machine.
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # It keeps the set-up's lock, should it outlive the set-up.
        close_fds=False,
        env=environment,
        check=False,
    )
    if result.returncode < 0:
        raise KilledError(f"`{' '.join(words)}` was ended by signal {-result.returncode}")
    if result.returncode > 0:
        sys.stderr.write(result.stdout.decode(errors="replace"))
        raise MissingError(f"`{' '.join(words)}` failed with exit code {result.returncode}")

"""What the project keeps in its own folder: the virtual environment, and the jars of real Kafka and of its messages."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.setup.system import run, say

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
VENV = ROOT / ".venv"
POM = ROOT / "tests" / "kafka" / "pom.xml"
MESSAGES_POM = ROOT / "tests" / "java" / "pom.xml"
# The newest, and the last that still had the versions which 4.0 removed: together they know almost the whole protocol.
MESSAGES_RELEASES = ("4.4.0", "3.9.2")
QUIET = ("-q", "-B", "-Dstyle.color=never")


def kafka_version() -> str:
    match = re.search(r"<kafka\.version>(.+?)</kafka\.version>", POM.read_text())
    if match is None:
        raise ValueError(f"{POM} sets no kafka.version")
    return match[1]


def kafka_jars() -> Path:
    """The folder the jars of real Kafka are kept in; `kafka_ready` says whether they are there."""
    return CACHE / f"kafka-{kafka_version()}"


def kafka_ready() -> bool:
    return _is_fresh(kafka_jars() / ".complete", _digest(POM))


def fetch_kafka(maven: Path) -> None:
    """Fetch the jars that ``pom.xml`` asks for with Maven."""
    jars = kafka_jars()
    say(f"fetching the jars of Apache Kafka {kafka_version()} with Maven into {jars.relative_to(ROOT)}")
    shutil.rmtree(jars, ignore_errors=True)
    run([maven, *QUIET, "-f", POM, "dependency:copy-dependencies", f"-DoutputDirectory={jars}"])
    (jars / ".complete").write_text(_digest(POM))


def messages_jars(release: str) -> Path:
    """The folder for the jars with a release's generated messages; `messages_ready` says whether all are there."""
    return CACHE / f"kafka-messages-{release}"


def messages_ready() -> bool:
    return all(_messages_fresh(release) for release in MESSAGES_RELEASES)


def fetch_messages(maven: Path) -> None:
    """Fetch the jars with the generated messages of every release that lacks them."""
    for release in MESSAGES_RELEASES:
        if _messages_fresh(release):
            continue
        jars = messages_jars(release)
        say(f"fetching the messages of Apache Kafka {release} with Maven into {jars.relative_to(ROOT)}")
        shutil.rmtree(jars, ignore_errors=True)
        target = (f"-Dkafka.version={release}", "dependency:copy", f"-DoutputDirectory={jars}")
        run([maven, *QUIET, "-f", MESSAGES_POM, *target])
        (jars / ".complete").write_text(_digest(MESSAGES_POM))


def make_environment() -> None:
    """Make ``.venv`` with the Python that runs this, unless there is one that works."""
    if _works(VENV / "bin" / "python"):
        return
    say(f"making the virtual environment .venv with Python {sys.version.split()[0]}")
    run([sys.executable, "-m", "venv", "--clear", "--upgrade-deps", VENV])


def install(extra: str) -> None:
    """Install the project, editable, with one of its extras, unless that was done and nothing has changed since."""
    inputs = [path for name in ("pyproject.toml", "setup.py") if (path := ROOT / name).exists()]
    stamp, digest = VENV / f".installed-{extra}", _digest(*inputs)
    if _is_fresh(stamp, digest):
        return
    say(f"installing the project with its `{extra}` extra into .venv (a few minutes the first time)")
    run([VENV / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "-e", f".[{extra}]"])
    stamp.write_text(digest)


def _messages_fresh(release: str) -> bool:
    return _is_fresh(messages_jars(release) / ".complete", _digest(MESSAGES_POM))


def _works(python: Path) -> bool:
    """Whether a virtual environment's Python runs and is ours: one in a copied or moved folder still points back."""
    check = f"import pip, sys; sys.exit(sys.version_info < (3, 10) or sys.prefix != {str(VENV)!r})"
    try:
        return subprocess.run([python, "-c", check], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _digest(*inputs: Path) -> str:
    digest = hashlib.sha256(os.fsencode(ROOT))
    for path in inputs:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _is_fresh(stamp: Path, digest: str) -> bool:
    return stamp.exists() and stamp.read_text() == digest

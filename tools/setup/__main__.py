"""``tools/setup/run VERB [-- COMMAND ...]``: prepare what a verb needs, then become the command, if there is one."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

from tools.setup import project
from tools.setup.system import MissingError, ensure_java, ensure_maven, java_home, say


class Want(Enum):
    """How much a verb wants something which the machine may be unable to give."""

    NO = "not at all"
    IF_POSSIBLE = "does less without it"
    MUST = "cannot do without it"


@dataclass(frozen=True)
class Needs:
    extra: str | None
    java: Want = Want.NO
    kafka: Want = Want.NO
    releases: bool = False
    """Those of Kafka before the newest, too."""
    accelerator: bool = False
    kerberos: bool = False
    """If possible."""
    go: bool = False
    """The tests' programs in Go, if it is installed."""
    brokers: bool = False
    """Real brokers that start fast."""


NEEDS = {
    "demo": Needs("demo", java=Want.MUST, accelerator=True),
    "check": Needs("check", accelerator=True),
    "test": Needs("test", java=Want.IF_POSSIBLE, kafka=Want.IF_POSSIBLE, accelerator=True, brokers=True),
    "test-all": Needs(
        "dev",
        java=Want.IF_POSSIBLE,
        kafka=Want.IF_POSSIBLE,
        releases=True,
        accelerator=True,
        kerberos=True,
        go=True,
        brokers=True,
    ),
    "style": Needs("check"),
    "types": Needs("test"),
    "bench": Needs("bench", java=Want.IF_POSSIBLE, kafka=Want.IF_POSSIBLE, accelerator=True),
    "docs": Needs("docs"),
    "wheels": Needs("dev"),
    "pythons": Needs("dev"),
    "asan": Needs("dev"),
    "kafka": Needs(None, java=Want.MUST, kafka=Want.MUST, releases=True),
    "schema-check": Needs("dev", java=Want.MUST, kafka=Want.MUST),
}


def main(arguments: list[str]) -> int:
    verb, *rest = arguments or [""]
    if verb not in NEEDS or (rest and rest[0] != "--"):
        say(f"usage: tools/setup/run {'|'.join(NEEDS)} [-- COMMAND ...]")
        return 2
    # The command has them, too.
    os.environ.update(project.CACHES)
    try:
        prepare(NEEDS[verb])
    except MissingError as error:
        say(f"cannot go on: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; the next set-up goes on")
        return 130
    command = rest[1:]
    return _become(command) if command else 0


def prepare(needs: Needs) -> Path | None:
    """Bring the machine and the project to where ``needs`` are met; return the ``java`` program, if one is there."""
    with _alone():
        # System packages come first: a missing one should be reported at once, not after minutes of other work.
        java = maven = None
        if needs.java is not Want.NO:
            with _forgiving(needs.java):
                java = ensure_java()
                # Maven and Spark look for Java by themselves, and would take an older one that comes first on PATH.
                os.environ["JAVA_HOME"] = str(java_home(java))
        releases = project.wanted_releases(os.environ.get("RELEASES", "")) if needs.releases else []
        if needs.kafka is not Want.NO and java is not None and not _jars_ready(releases):
            with _forgiving(needs.kafka):
                maven = ensure_maven()
        if needs.extra is not None:
            project.make_environment()
        with ThreadPoolExecutor() as pool:
            # Side by side: most of the time they wait for the network.
            for job in [pool.submit(job) for job in _jobs(needs, maven, releases)]:
                job.result()
        if needs.brokers and java is not None and project.kafka_ready():
            project.make_template(java)
    return java


def _jobs(needs: Needs, maven: Path | None, releases: list[str]) -> Iterator[Callable[[], None]]:
    """Yield what is left to do, in any order, when the machine has what it needs and there is an environment."""
    if needs.extra is not None:
        extras = [needs.extra]
        if needs.kerberos and project.kerberos_can_be_installed():
            extras.append("gssapi")
        yield partial(project.install, *extras)
    if needs.accelerator:
        yield project.compile_accelerator
    if maven is not None:
        yield partial(_fetch_jars, needs.kafka, maven, releases)
    # Without Go its tests are skipped: too much to install for them.
    compiler = shutil.which("go") if needs.go else None
    if compiler is not None:
        yield partial(_build_go_programs, compiler)


def _jars_ready(releases: list[str]) -> bool:
    return project.kafka_ready() and project.messages_ready() and all(map(project.release_ready, releases))


def _fetch_jars(want: Want, maven: Path, releases: list[str]) -> None:
    with _forgiving(want):
        project.fetch_kafka(maven)
        project.fetch_messages(maven)
        project.fetch_releases(maven, releases)


def _build_go_programs(compiler: str) -> None:
    with _forgiving(Want.IF_POSSIBLE):
        project.build_go_programs(compiler)


@contextmanager
def _forgiving(want: Want) -> Iterator[None]:
    """Continue without an optional requirement, and say so; under CI it is an error."""
    try:
        yield
    except MissingError as error:
        if want is Want.MUST or os.environ.get("CI"):
            raise
        say(f"going on without: {error}")


@contextmanager
def _alone() -> Iterator[None]:
    """Let one set-up at a time work on this folder, with the programs that it starts."""
    project.CACHE.mkdir(exist_ok=True)
    with (project.CACHE / "setup.lock").open("w") as lock:
        # Where a set-up is killed, pip or the compiler may work on.
        os.set_inheritable(lock.fileno(), True)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up works on this folder: waiting for its end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _become(command: list[str]) -> int:
    os.chdir(project.ROOT)
    sys.stdout.flush()
    try:
        os.execvp(command[0], command)
    except OSError as error:
        say(f"cannot run {command[0]}: {error.strerror}")
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

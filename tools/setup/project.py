"""What the project keeps in its own folder: the virtual environment, compiled modules, the jars of real Kafka and of
its messages, and programs in Go.

A set-up can be killed anywhere, and then leaves half a file. Therefore a stamp stands beside what is complete. It is
removed before a change and written after it, and what has no stamp is made from the beginning.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.java.starting import archive_of
from tools.setup.system import KilledError, MissingError, lacks_compiler, lacks_kerberos, python_config, run, say

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
BUILD = ROOT / "build"
"""Where setuptools keeps what Cython and the compiler write, before modules are copied to their place."""
PACKAGE = ROOT / "src" / "aiokproto"
POM = ROOT / "tests" / "kafka" / "pom.xml"
TOOLS_POM = ROOT / "tests" / "kafka" / "tools" / "pom.xml"
RELEASES_POM = ROOT / "tests" / "kafka" / "release" / "pom.xml"
GO_PROGRAMS = {
    "kfake": ROOT / "tests" / "other_brokers" / "kfake",
    "franz-go": ROOT / "tests" / "broker" / "third_party",
}
"""franz-go's fake cluster, for tests of the clients; and a program with its client, for the embedded broker."""
MESSAGES_POM = ROOT / "tests" / "java" / "pom.xml"
# The newest, and the last that still had the versions which 4.0 removed: together they know almost the whole protocol.
MESSAGES_RELEASES = ("4.4.0", "3.9.2")
SCALA = {
    "0.8.2.2": "2.11",
    "0.9.0.1": "2.11",
    "0.10.2.2": "2.11",
    "0.11.0.3": "2.12",
    "1.1.1": "2.12",
    "2.0.1": "2.12",
    "2.8.2": "2.13",
    "3.0.2": "2.13",
    "3.9.2": "2.13",
    "4.0.2": "2.13",
}
"""Releases before the newest that tests run, oldest first, each with the Scala that its artifact is named after."""
USUAL_RELEASES = ("0.8.2.2", "2.8.2")
"""Those that every run of the tests has, beside the newest: the oldest, and one of between."""
CACHES = {
    "PIP_CACHE_DIR": str(CACHE / "pip"),
    "MPLCONFIGDIR": str(CACHE / "matplotlib"),
    "GOCACHE": str(CACHE / "go" / "build"),
    "GOMODCACHE": str(CACHE / "go" / "modules"),
    # Else `make clean` could not remove the modules.
    "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip(),
}
"""Variables that keep in the project's folder what tools download or make for it."""
MAVEN_OPTIONS = ("-q", "-B", "-Dstyle.color=never", f"-Dmaven.repo.local={CACHE / 'maven'}")
"""It prints nothing but errors, and keeps what it fetches in the project's folder."""


def kafka_version(pom: Path = POM) -> str:
    match = re.search(r"<kafka\.version>(.+?)</kafka\.version>", pom.read_text())
    if match is None:
        raise ValueError(f"{pom} sets no kafka.version")
    return match[1]


def kafka_jars() -> Path:
    """The folder the jars of real Kafka are kept in; `kafka_ready` says whether they are there."""
    return CACHE / f"kafka-{kafka_version()}"


def tools_jars() -> Path:
    """The folder for Kafka's command line tools, with all they need; `kafka_ready` is about these too."""
    return CACHE / f"kafka-tools-{kafka_version(TOOLS_POM)}"


def kafka_ready() -> bool:
    return _copied(POM, kafka_jars()) and _copied(TOOLS_POM, tools_jars())


def fetch_kafka(maven: Path) -> None:
    """Fetch the jars that each ``pom.xml`` asks for with Maven, unless they are there."""
    for pom, jars in ((POM, kafka_jars()), (TOOLS_POM, tools_jars())):
        if _copied(pom, jars):
            continue
        say(f"fetching the jars of Apache Kafka {kafka_version(pom)} with Maven into {jars.relative_to(ROOT)}")
        _fetch(maven, pom, "dependency:copy-dependencies", jars)


def make_template(java: Path) -> None:
    """Make what lets brokers of the tests start in half the time (`tests.kafka.template`), unless it is there."""
    if archive_of(java, kafka_jars()).exists():
        return
    say("running a broker once, so that those of the tests start faster")
    try:
        run([PYTHON, "-m", "tests.kafka.template"])
    except MissingError as error:
        say(f"going on with brokers that start slower: {error}")


def wanted_releases(text: str) -> list[str]:
    """The releases of `SCALA` that ``RELEASES`` names: some, separated by commas, "all", or two if it is empty.

    Raises `MissingError` for one that is not there.
    """
    if text == "all":
        return list(SCALA)
    newest = kafka_version()
    names = [name for name in (text.split(",") if text else USUAL_RELEASES) if name != newest]
    unknown = [name for name in names if name not in SCALA]
    if unknown:
        raise MissingError(f"RELEASES={text}: {unknown[0]} is none of all, {', '.join((*SCALA, newest))}")
    return names


def release_jars(release: str) -> Path:
    """The folder for the jars of a release that `SCALA` names; `release_ready` says whether they are there."""
    return CACHE / f"kafka-{release}"


def release_ready(release: str) -> bool:
    return _copied(RELEASES_POM, release_jars(release))


def fetch_releases(maven: Path, releases: Iterable[str]) -> None:
    """Fetch the jars of each release that lacks them, with the ZooKeeper that it needs."""
    for release in releases:
        jars = release_jars(release)
        if release_ready(release):
            continue
        say(f"fetching the jars of Apache Kafka {release} with Maven into {jars.relative_to(ROOT)}")
        wanted = (f"-Dkafka.version={release}", f"-Dscala.version={SCALA[release]}")
        _fetch(maven, RELEASES_POM, "dependency:copy-dependencies", jars, *wanted)


def messages_jars(release: str) -> Path:
    """The folder for the jars with a release's generated messages; `messages_ready` says whether all are there."""
    return CACHE / f"kafka-messages-{release}"


def messages_ready() -> bool:
    return all(_copied(MESSAGES_POM, messages_jars(release)) for release in MESSAGES_RELEASES)


def fetch_messages(maven: Path) -> None:
    """Fetch the jars with the generated messages of every release that lacks them."""
    for release in MESSAGES_RELEASES:
        jars = messages_jars(release)
        if _copied(MESSAGES_POM, jars):
            continue
        say(f"fetching the messages of Apache Kafka {release} with Maven into {jars.relative_to(ROOT)}")
        _fetch(maven, MESSAGES_POM, "dependency:copy", jars, f"-Dkafka.version={release}")


def go_program(name: str) -> Path:
    """Where one of `GO_PROGRAMS` is; it exists if it is built."""
    folder = GO_PROGRAMS[name]
    sources = sorted([*folder.glob("go.*"), *folder.glob("*.go")])
    return CACHE / name / _digest(*sources)[:16]


def build_go_programs(compiler: str) -> None:
    """Fetch the modules of each of `GO_PROGRAMS` and build it, unless it is there."""
    # An older Go would otherwise look for the version in go.mod, and wait long if it cannot be found.
    # Its telemetry, which cannot be turned off by a variable, is kept in the user's configuration.
    environment = {**os.environ, "GOTOOLCHAIN": "local", "XDG_CONFIG_HOME": str(CACHE / "go" / "config")}
    for name, folder in GO_PROGRAMS.items():
        program = go_program(name)
        if not program.exists():
            say(f"building {name} with Go")
            unfinished = program.with_suffix(".unfinished")
            run([compiler, "build", "-C", folder, "-trimpath", "-o", unfinished, "."], environment)
            unfinished.replace(program)


def make_environment() -> None:
    """Make ``.venv`` with the Python that runs this, unless there is one that works, and install what builds need."""
    stamp = VENV / ".complete"
    # The stamp knows the folder: programs in an environment that was copied or moved still start those of the old one.
    if not (_is_fresh(stamp, _digest()) and _works(PYTHON)):
        say(f"making the virtual environment .venv with Python {sys.version.split()[0]}")
        stamp.unlink(missing_ok=True)
        run([sys.executable, "-m", "venv", "--clear", "--upgrade-deps", VENV])
        stamp.write_text(_digest())
    # Other extras then need no environment of their own to build in, and the accelerator is compiled beside them.
    install("compile")


def install(*extras: str) -> None:
    """Install the project, editable, with these extras, unless that was done and nothing has changed since."""
    digest = _digest(ROOT / "pyproject.toml", ROOT / "setup.py")
    stamps = {extra: VENV / f".installed-{extra}" for extra in extras}
    missing = [extra for extra, stamp in stamps.items() if not _is_fresh(stamp, digest)]
    if not missing:
        return
    isolated = extras == ("compile",)
    if not isolated:
        say(f"installing the project with its extras {', '.join(missing)} into .venv (a minute the first time)")
    with _changing(VENV / ".complete"):
        run(
            [
                *(PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check"),
                # Python compiles what is imported; much never is.
                *("--no-compile", *(() if isolated else ("--no-build-isolation",))),
                *("-e", f".[{','.join(missing)}]"),
            ],
            # What pip compiles, it compiles from the beginning, for every extra again.
            {**os.environ, "AIOKPROTO_PURE": "1"},
        )
    for extra in missing:
        stamps[extra].write_text(digest)


@contextmanager
def _changing(stamp: Path) -> Iterator[None]:
    """Take the environment's stamp away while pip works: a killed one leaves packages that it then takes for whole."""
    stamp.unlink(missing_ok=True)
    try:
        yield
    except KilledError:
        raise
    except MissingError as error:
        # pip changes nothing before it has everything, and takes back what fails.
        stamp.write_text(_digest())
        raise MissingError(f"{error}. The first set-up needs the network, to fetch packages") from error
    stamp.write_text(_digest())


def kerberos_can_be_installed() -> bool:
    """Whether the extra `gssapi`, which compiles its package, can be installed; say what is missing."""
    lacking = lacks_compiler(PYTHON) or lacks_kerberos()
    if lacking:
        say(f"the tests of Kerberos are skipped: {lacking}")
    return not lacking


def compile_accelerator() -> None:
    """Compile in place what the accelerator lacks or has changed; where that cannot be, say so and go on without."""
    if os.environ.get("AIOKPROTO_PURE", "") not in ("", "0"):
        return
    stamp = BUILD / ".complete"
    suffix = python_config(PYTHON, "EXT_SUFFIX")
    if not stamp.exists():
        shutil.rmtree(BUILD, ignore_errors=True)
        for module in _modules(suffix):
            module.unlink(missing_ok=True)
    outdated = outdated_modules(suffix)
    lacking = lacks_compiler(PYTHON) if outdated else None
    if lacking:
        say(f"the accelerator is not compiled, and pure Python takes its place: {lacking}")
    elif outdated:
        say("compiling the accelerator")
        stamp.unlink(missing_ok=True)
        for module in outdated:
            # If the new one does not compile, none is better than one that behaves differently.
            for old in (module, *BUILD.glob(f"lib*/**/{module.name}")):
                old.unlink(missing_ok=True)
        run([PYTHON, "setup.py", "-q", "build_ext", "--inplace", f"--parallel={os.cpu_count()}"])
        BUILD.mkdir(exist_ok=True)
        stamp.touch()
        failed = ", ".join(module.name.partition(".")[0] for module in outdated_modules(suffix))
        if failed:
            say(f"going on without what does not compile ({failed}): `python setup.py build_ext --inplace` says why")


def outdated_modules(suffix: str) -> list[Path]:
    """Return the compiled modules that do not exist, or are older than their sources."""
    shared = [path.stat().st_mtime for path in (ROOT / "setup.py", *PACKAGE.rglob("*.pxd"))]
    modules = _modules(suffix).items()
    return [module for module, source in modules if _older(module, max(source.stat().st_mtime, *shared))]


def _modules(suffix: str) -> dict[Path, Path]:
    """Return each module of the accelerator, compiled or not, with its source."""
    return {source.with_name(source.stem + suffix): source for source in sorted(PACKAGE.rglob("*.pyx"))}


def _fetch(maven: Path, pom: Path, goal: str, jars: Path, *settings: str) -> None:
    """Fill a folder with jars by a goal of Maven's plug-in for dependencies; `_copied` is then true."""
    shutil.rmtree(jars, ignore_errors=True)
    # Java reads and writes names of files in the locale's encoding: in "C" it finds no folder with an umlaut.
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    run([maven, *MAVEN_OPTIONS, "-f", pom, goal, *settings, f"-DoutputDirectory={jars}"], environment)
    (jars / ".complete").write_text(_digest(pom))


def _copied(pom: Path, jars: Path) -> bool:
    return _is_fresh(jars / ".complete", _digest(pom))


def _works(python: Path) -> bool:
    """Whether a virtual environment's Python still runs: that of the machine, to which it points, may have gone."""
    check = "import pip, sys; sys.exit(sys.version_info < (3, 10))"
    try:
        return subprocess.run([python, "-c", check], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _older(path: Path, time: float) -> bool:
    return not path.exists() or path.stat().st_mtime < time


def _digest(*inputs: Path) -> str:
    digest = hashlib.sha256(os.fsencode(ROOT))
    for path in inputs:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _is_fresh(stamp: Path, digest: str) -> bool:
    return stamp.exists() and stamp.read_text() == digest

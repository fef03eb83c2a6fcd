"""What the set-up makes again, and what it leaves alone."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.java.starting import archive_of
from tools.setup import project
from tools.setup.system import KilledError, MissingError

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
READING_AND_WRITING = (f"reading{SUFFIX}", f"writing{SUFFIX}")


@pytest.fixture
def accelerator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose accelerator is `reading` and `writing`, on what they share; nothing in it is compiled."""
    monkeypatch.setattr(project, "ROOT", tmp_path)
    monkeypatch.setattr(project, "VENV", tmp_path)
    monkeypatch.setattr(project, "BUILD", tmp_path / "build")
    monkeypatch.setattr(project, "PYTHON", Path(sys.executable))
    monkeypatch.setattr(project, "PACKAGE", tmp_path)
    monkeypatch.delenv("AIOKPROTO_PURE", raising=False)
    write(tmp_path, 100, "pyproject.toml", "setup.py", "reading.pyx", "writing.pyx", "shared.pxd")
    return tmp_path


class Machine:
    """Stands for pip and the compiler: records its arguments, and makes `reading` and `writing` if it can."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands: list[list[str]] = []
        self.environments: list[Mapping[str, str]] = []
        self.found: list[set[str]] = []
        self.compiles = True
        self.fails: BaseException | None = None

    @property
    def pure(self) -> list[bool]:
        """Whether each command was to leave the accelerator out."""
        return ["AIOKPROTO_PURE" in environment for environment in self.environments]

    def run(self, command: Iterable[str | Path], environment: Mapping[str, str] = os.environ) -> None:
        self.commands.append([str(word) for word in command])
        self.environments.append(environment)
        self.found.append({path.name for path in self.folder.glob(f"*{SUFFIX}")})
        if "-o" in self.commands[-1]:
            program = Path(self.commands[-1][self.commands[-1].index("-o") + 1])
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text("half a program" if self.fails else "a program")
        if self.fails is not None:
            raise self.fails
        if "build_ext" in self.commands[-1]:
            # Like setuptools, it takes files from the build folder if they are there.
            built = self.folder / "build" / "lib"
            built.mkdir(parents=True, exist_ok=True)
            if self.compiles:
                write(built, 200, *READING_AND_WRITING)
            write(self.folder, 200, *(path.name for path in built.iterdir()))


@pytest.fixture
def machine(accelerator: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """It has a compiler."""
    machine = Machine(accelerator)
    monkeypatch.setattr(project, "run", machine.run)
    monkeypatch.setattr(project, "lacks_compiler", lambda python: None)
    return machine


def write(folder: Path, time: float, *names: str) -> None:
    for name in names:
        (folder / name).touch()
        os.utime(folder / name, (time, time))


def outdated() -> set[str]:
    return {path.name for path in project.outdated_modules(SUFFIX)}


def test_modules_never_compiled_are_outdated(accelerator: Path) -> None:
    assert outdated() == {*READING_AND_WRITING}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("reading.pyx", {*READING_AND_WRITING[:1]}),
        ("shared.pxd", {*READING_AND_WRITING}),
        ("setup.py", {*READING_AND_WRITING}),
        ("notes.txt", set[str]()),
    ],
)
def test_modules_older_than_their_sources_are_outdated(accelerator: Path, changed: str, expected: set[str]) -> None:
    write(accelerator, 200, *READING_AND_WRITING)
    assert outdated() == set()
    write(accelerator, 300, changed)
    assert outdated() == expected


def test_the_project_is_installed_once_with_each_extra(machine: Machine) -> None:
    for extras in (("dev",), ("dev",), ("bench", "dev"), ("dev", "gssapi", "tls")):
        project.install(*extras)
    assert [command[-1] for command in machine.commands] == [".[dev]", ".[bench]", ".[gssapi,tls]"]
    assert machine.pure == [True, True, True]


def test_what_builds_need_is_installed_first_and_then_used(machine: Machine) -> None:
    project.make_environment()
    project.install("dev")
    installing = [command for command in machine.commands if "pip" in command]
    isolated = ["--no-build-isolation" not in command for command in installing]
    assert [command[-1] for command in installing] == [".[compile]", ".[dev]"]
    assert isolated == [True, False]


def making_of_environments(machine: Machine) -> int:
    return sum("venv" in command for command in machine.commands)


def test_an_environment_is_made_once(machine: Machine) -> None:
    project.make_environment()
    project.install("dev")
    project.make_environment()
    assert making_of_environments(machine) == 1


def test_an_environment_that_was_copied_or_moved_is_made_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.make_environment()
    monkeypatch.setattr(project, "ROOT", machine.folder / "elsewhere")
    monkeypatch.setattr(project, "_digest", lambda *inputs: "of the other folder")
    project.make_environment()
    assert making_of_environments(machine) == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt(), KilledError("pip was ended by signal 9")])
@pytest.mark.parametrize("making", [True, False])
def test_an_environment_is_made_again_if_a_set_up_was_killed_in_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, making: bool, error: BaseException
) -> None:
    project.make_environment()
    monkeypatch.setattr(project, "_works", lambda python: not making)
    machine.fails = error
    with pytest.raises(type(error)):
        project.make_environment() if making else project.install("dev")
    machine.fails = None
    monkeypatch.setattr(project, "_works", lambda python: True)
    before = making_of_environments(machine)
    project.make_environment()
    assert making_of_environments(machine) == before + 1


def test_an_environment_is_kept_if_packages_could_not_be_fetched(machine: Machine) -> None:
    project.make_environment()
    machine.fails = MissingError("pip failed with exit code 1")
    with pytest.raises(MissingError, match=r"pip failed .* needs the network"):
        project.install("dev")
    machine.fails = None
    project.make_environment()
    assert making_of_environments(machine) == 1
    project.install("dev")
    assert machine.commands[-1][-1] == ".[dev]"


def test_downloads_are_kept_in_the_projects_folder() -> None:
    folders = {name: path for name, path in project.CACHES.items() if name != "GOFLAGS"}
    assert all(Path(path).is_relative_to(project.CACHE) for path in folders.values())
    assert {"PIP_CACHE_DIR", "GOMODCACHE"} <= folders.keys()
    assert f"-Dmaven.repo.local={project.CACHE / 'maven'}" in project.MAVEN_OPTIONS


def test_kerberos_is_installed_where_its_headers_are(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(project, "lacks_kerberos", lambda: "no headers")
    assert not project.kerberos_can_be_installed()
    assert "the tests of Kerberos are skipped: no headers" in capsys.readouterr().err
    monkeypatch.setattr(project, "lacks_kerberos", lambda: None)
    assert project.kerberos_can_be_installed()


def test_the_accelerator_is_compiled_once(machine: Machine) -> None:
    project.compile_accelerator()
    project.compile_accelerator()
    (command,) = machine.commands
    assert command[1:5] == ["setup.py", "-q", "build_ext", "--inplace"]
    assert machine.pure == [False]


def test_newer_sources_are_compiled_after_their_old_module_was_removed(machine: Machine) -> None:
    project.compile_accelerator()
    write(machine.folder, 150, "reading.pyx")
    project.compile_accelerator()
    assert len(machine.commands) == 1
    write(machine.folder, 300, "reading.pyx")
    project.compile_accelerator()
    assert machine.found == [set(), {READING_AND_WRITING[1]}]


def test_what_a_killed_compilation_left_is_not_used(machine: Machine) -> None:
    project.compile_accelerator()
    write(machine.folder, 300, "reading.pyx")
    machine.fails = MissingError("the compiler was killed")
    with pytest.raises(MissingError):
        project.compile_accelerator()
    machine.fails = None
    left = machine.folder / "build" / "lib" / "half.c"
    left.touch()
    project.compile_accelerator()
    assert machine.found[-1] == set()
    assert not left.exists()


def test_a_module_that_no_longer_compiles_does_not_come_back(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    project.compile_accelerator()
    machine.compiles = False
    write(machine.folder, 300, "reading.pyx")
    project.compile_accelerator()
    assert "going on without what does not compile (reading)" in capsys.readouterr().err
    assert not (machine.folder / READING_AND_WRITING[0]).exists()
    assert (machine.folder / READING_AND_WRITING[1]).exists()


def test_a_missing_compiler_is_reported_until_there_is_one(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(project, "lacks_compiler", lambda python: "no compiler")
    for _ in range(2):
        project.compile_accelerator()
        assert "pure Python takes its place: no compiler" in capsys.readouterr().err
    assert not machine.commands
    monkeypatch.setattr(project, "lacks_compiler", lambda python: None)
    project.compile_accelerator()
    assert len(machine.commands) == 1


def test_a_module_that_does_not_compile_is_named(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.compiles = False
    project.compile_accelerator()
    assert "going on without what does not compile (reading, writing)" in capsys.readouterr().err


def test_pure_python_asks_for_no_compiler(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOKPROTO_PURE", "1")
    monkeypatch.delattr(project, "lacks_compiler")
    project.compile_accelerator()
    assert not machine.commands


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", list(project.USUAL_RELEASES)),
        ("all", list(project.SCALA)),
        ("1.1.1,3.9.2", ["1.1.1", "3.9.2"]),
        (project.kafka_version(), []),
    ],
)
def test_which_earlier_releases_are_fetched(text: str, names: list[str]) -> None:
    assert project.wanted_releases(text) == names


def test_a_release_that_is_not_there_is_named() -> None:
    with pytest.raises(MissingError, match=r"RELEASES=1\.2\.3: 1\.2\.3 is none of all, 0\.8\.2\.2"):
        project.wanted_releases("1.2.3")


@pytest.fixture
def java(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of Java, and a folder for the jars of Kafka."""
    jars, program = machine.folder / "jars", machine.folder / "java-17" / "bin" / "java"
    for folder in (jars, program.parent):
        folder.mkdir(parents=True)
    program.touch()
    monkeypatch.setattr(project, "kafka_jars", lambda: jars)
    return program


def test_a_broker_runs_once_for_the_others_to_start_faster(machine: Machine, java: Path) -> None:
    project.make_template(java)
    archive_of(java, project.kafka_jars()).touch()
    project.make_template(java)
    assert [command[1:] for command in machine.commands] == [["-m", "tests.kafka.template"]]
    os.utime(java, (100, 100))
    project.make_template(java)
    assert len(machine.commands) == 2, "the archive of another Java is of no use"


def test_brokers_that_start_slower_are_not_a_failure(
    java: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(command: Iterable[str | Path]) -> None:
        raise MissingError("no room")

    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(project, "run", run)
    project.make_template(java)
    assert "going on with brokers that start slower: no room" in capsys.readouterr().err


def test_programs_in_go_are_built_once_for_each_form_of_their_sources(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = machine.folder / "program"
    source.mkdir()
    write(source, 100, "go.mod", "main.go", "README.md")
    monkeypatch.setattr(project, "GO_PROGRAMS", {"program": source})
    monkeypatch.setattr(project, "CACHE", machine.folder / "cache")
    machine.fails = MissingError("killed while it wrote the program")
    with pytest.raises(MissingError):
        project.build_go_programs("go")
    first = project.go_program("program")
    assert not first.exists()
    machine.fails = None
    project.build_go_programs("go")
    project.build_go_programs("go")
    assert first.read_text() == "a program"
    assert [command[:4] for command in machine.commands] == [["go", "build", "-C", str(source)]] * 2
    (source / "README.md").write_text("no source")
    assert project.go_program("program") == first
    (source / "main.go").write_text("package main")
    assert project.go_program("program") != first

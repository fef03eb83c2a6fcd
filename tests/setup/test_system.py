"""What the set-up finds on a machine, and what it says about what is missing."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from pathlib import Path

import pytest

from tools.setup import __main__ as setup
from tools.setup import project, system
from tools.setup.__main__ import Needs, Want, prepare


def fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    java.chmod(0o755)
    return java


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No Java, no Maven, and no permission to install them."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(system, "_java_candidates", lambda: iter(()))
    monkeypatch.setattr(shutil, "which", lambda program: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return monkeypatch


@pytest.mark.parametrize(
    ("version", "feature"), [("17.0.15", 17), ("21", 21), ("25-ea", 25), ("1.8.0_402", 8), ("nonsense", 0)]
)
def test_a_java_is_identified_by_its_feature_release(tmp_path: Path, version: str, feature: int) -> None:
    assert system.java_version(fake_java(tmp_path, version)) == feature


def test_a_program_that_does_not_run_is_not_a_java(tmp_path: Path) -> None:
    assert system.java_version(tmp_path / "java") == 0


def test_an_old_java_first_in_line_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = fake_java(tmp_path / "old", "11.0.2"), fake_java(tmp_path / "new", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(new.parent))
    assert system.java_version(old) == 11
    assert system.find_java() == new


@pytest.mark.usefixtures("bare_machine")
def test_a_missing_requirement_is_named_with_the_way_to_get_it() -> None:
    with pytest.raises(system.MissingError, match=r"Java 17 or later .* apt-get install openjdk-17-jre-headless"):
        prepare(Needs(None, java=Want.MUST))


@pytest.mark.usefixtures("bare_machine")
def test_a_missing_optional_program_is_tolerated(capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare(Needs(None, java=Want.IF_POSSIBLE, kafka=Want.IF_POSSIBLE)) is None
    assert "going on without: Java 17 or later" in capsys.readouterr().err


def test_under_ci_a_missing_optional_program_is_an_error(bare_machine: pytest.MonkeyPatch) -> None:
    bare_machine.setenv("CI", "true")
    with pytest.raises(system.MissingError):
        prepare(Needs(None, java=Want.IF_POSSIBLE))


def fake_python(folder: Path, compiler: str, headers: Path) -> Path:
    """A Python whose `sysconfig` says that it was built with this compiler, and has its headers there."""
    python = folder / "python"
    python.write_text(f'#!/bin/sh\ncase "$2" in *CC*) echo "{compiler} -pthread";; *) echo "{headers}";; esac\n')
    python.chmod(0o755)
    return python


def test_missing_build_requirements_are_named_with_the_way_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    absent = system.lacks_compiler(fake_python(tmp_path, "no-such-compiler", tmp_path))
    assert absent == "there is no C compiler. On Debian, as root: apt-get install gcc libc6-dev python3-dev"
    bare = fake_python(tmp_path, "sh", tmp_path)
    assert (
        system.lacks_compiler(bare) == "Python's headers are missing. On Debian, as root: apt-get install python3-dev"
    )
    (tmp_path / "Python.h").touch()
    assert system.lacks_compiler(bare) is None
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "no C compiler" in (system.lacks_compiler(bare) or "")


def test_programs_that_are_started_find_the_java_that_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = fake_java(tmp_path / "old", "11.0.2"), fake_java(tmp_path / "new", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(old.parent.parent))
    monkeypatch.setenv("PATH", str(new.parent))
    prepare(Needs(None, java=Want.MUST))
    assert os.environ["JAVA_HOME"] == str(new.parent.parent)


def test_a_second_setup_says_that_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    operations: list[int] = []

    def flock(file: object, operation: int) -> None:
        operations.append(operation)
        if operation & fcntl.LOCK_NB:
            raise BlockingIOError

    monkeypatch.setattr(project, "CACHE", tmp_path)
    monkeypatch.setattr(fcntl, "flock", flock)
    prepare(Needs(None))
    assert operations == [fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_EX]
    assert "another set-up works on this folder" in capsys.readouterr().err


def test_programs_that_outlive_the_setup_keep_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "CACHE", tmp_path)
    opened = "{os.path.realpath(f'/proc/self/fd/{number}') for number in os.listdir('/proc/self/fd')}"
    find = f"import os, sys; sys.exit(sys.argv[1] not in {opened})"
    with setup._alone():
        system.run([sys.executable, "-c", find, str(tmp_path / "setup.lock")])


def test_a_program_ended_by_a_signal_differs_from_one_that_failed(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(system.KilledError, match="was ended by signal 9"):
        system.run(["sh", "-c", "kill -9 $$"])
    with pytest.raises(system.MissingError, match="failed with exit code 3") as caught:
        system.run(["sh", "-c", "echo why; exit 3"])
    assert not isinstance(caught.value, system.KilledError)
    assert "why" in capfd.readouterr().err


def test_an_interrupted_setup_prints_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(needs: Needs) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(setup, "prepare", interrupted)
    assert setup.main(["check"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_command_that_cannot_be_run_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup, "prepare", lambda needs: None)
    assert setup.main(["check", "--", "no-such-program"]) == 127
    assert "cannot run no-such-program: No such file" in capsys.readouterr().err

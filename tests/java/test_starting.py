"""Java processes of tests map the archive of Kafka's classes where there is one, and say nothing about it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.java.starting import OPTIONS, archive_of, java_command
from tools.setup.project import kafka_jars
from tools.setup.system import find_java

pytestmark = [pytest.mark.kafka, pytest.mark.java]
IN_ARCHIVE = "shared objects file (top)"


def run(*more: Path | str) -> str:
    """What Kafka writes when it only tells its version."""
    java = find_java()
    assert java is not None
    folders = [each for each in more if isinstance(each, Path)]
    options = [each for each in more if isinstance(each, str)]
    command = [*java_command(java, kafka_jars(), *folders), *options, "kafka.Kafka", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[1:] == [], "the first line has the options"
    return done.stdout


def archived() -> bool:
    java = find_java()
    assert java is not None
    return archive_of(java, kafka_jars()).exists()


def test_classes_come_from_the_archive(tmp_path: Path) -> None:
    """The archive also serves a longer class path, as the programs of tests have."""
    (tmp_path / "Program.class").touch()
    assert (IN_ARCHIVE in run(tmp_path, "-Xlog:class+load")) == archived()
    assert len(run(tmp_path).splitlines()) == 1


def test_outside_of_tests_there_is_no_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchmarks start brokers as users do."""
    monkeypatch.setenv(OPTIONS, "-Xshare:auto")
    assert IN_ARCHIVE not in run("-Xlog:class+load")


def test_an_archive_that_does_not_fit_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.java.starting.QUICK", "-Xmx200m")
    monkeypatch.setenv(OPTIONS, "-XX:-UseCompressedClassPointers -Xmx200m")
    assert len(run().splitlines()) == 1

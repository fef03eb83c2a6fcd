"""Passwords needn't be on a command line: each option with values has a file for them."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiokproto.cli import broker, load
from aiokproto.cli.codec import options as codec
from aiokproto.cli.secret_files import existing, pairs

SECRET = "zq-canary-zq"
IN_FILES = {"--config": "--config-file", "--option": "--option-file", "--conf": "--conf-file"}
"""Options that can have a secret, and the options for files, which keep it off the command line."""
SUSPECT = re.compile(r"passw|secret|token|credential|user|key|conf|option|jaas")
NONE_IN_THEM = {"--unsecured-tokens": "says that tokens need no signature"}
"""Options with such names that don't have a secret, and why."""


def actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from actions(sub)


@pytest.mark.parametrize("parser", [broker._parser, load._parser, codec.parser])
def test_every_option_that_may_have_a_secret_has_a_file(parser: Callable[[], argparse.ArgumentParser]) -> None:
    names = {name for action in actions(parser()) for name in action.option_strings}
    suspect = {name for name in names if SUSPECT.search(name) and not name.endswith("-file")}
    assert suspect - NONE_IN_THEM.keys() <= IN_FILES.keys()
    assert {IN_FILES[name] for name in suspect & IN_FILES.keys()} <= names


def written(path: Path, mode: int) -> str:
    path.write_text(f"# a comment\n\nkafka.sasl.password = {SECRET}=x \n")
    path.chmod(mode)
    return str(path)


@pytest.mark.skipif(os.name != "posix", reason="files have no such modes")
@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o400, False), (0o640, True), (0o604, True)])
def test_a_file_that_others_can_read_is_a_warning(
    tmp_path: Path, mode: int, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pairs(written(tmp_path / "file", mode), "=", "NAME=VALUE") == {"kafka.sasl.password": f"{SECRET}=x"}
    error = capsys.readouterr().err
    assert ("chmod 600" in error) is warned
    assert SECRET not in error


def test_files_of_loads(tmp_path: Path) -> None:
    file = written(tmp_path / "file", 0o600)
    needed = ["append", "t", "/out", "--bootstrap-servers", "h:1"]
    options = load._parser().parse_args([*needed, "--option-file", file, "--option", "minPartitions=2"])
    assert load._options(options) == {"kafka.sasl.password": f"{SECRET}=x", "minPartitions": "2"}
    options = load._parser().parse_args([*needed, "--option-file", file, "--option", "kafka.sasl.password=y"])
    assert load._options(options) == {"kafka.sasl.password": "y"}
    assert load._parser().parse_args([*needed, "--conf-file", file]).conf_file == Path(file)


def test_lines_end_as_in_other_files_of_pairs(tmp_path: Path) -> None:
    """A line doesn't end within a password, at one of the characters that only Python takes for a line end. Nor is a
    byte order mark, which some editors write, a part of the first name."""
    secrets = [f"a{char}b" for char in "\v\f\x1c\x1d\x1e\x85\u2028\u2029"]
    file = tmp_path / "file"
    lines = [f"user{number}:{secret}" for number, secret in enumerate(secrets)]
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode() + b"\nlast:x")
    file.chmod(0o600)
    expected = {f"user{number}": secret for number, secret in enumerate(secrets)}
    assert pairs(str(file), ":", "NAME:PASSWORD") == expected | {"last": "x"}


@pytest.mark.parametrize("content", [SECRET.encode(), b"a=b\n\xff" + SECRET.encode()])
def test_what_is_wrong_in_a_file_is_not_shown(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(argparse.ArgumentTypeError) as raised:
        pairs(str(file), "=", "NAME=VALUE")
    assert str(file) in str(raised.value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("option", ["--config", "--option", "--conf"])
def test_what_is_no_pair_on_a_command_line_is_not_shown(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = broker._parser() if option == "--config" else load._parser()
    before = [] if option == "--config" else ["append", "t", "/out", "--bootstrap-servers", "h:1"]
    with pytest.raises(SystemExit):
        parser.parse_args([*before, option, SECRET])
    assert SECRET not in capsys.readouterr().err


def test_a_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="absent"):
        existing(str(tmp_path / "absent"))

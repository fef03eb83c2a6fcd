"""Ctrl-C ends a command without a traceback."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from aiokproto.cli import broker, main
from aiokproto.cli.codec import main as codec
from tests.timeouts import LONG_TIMEOUT


def interrupt(*args: Any, **options: Any) -> Any:
    """Raise KeyboardInterrupt, as Python's handler of SIGINT does at any point of the command."""
    raise KeyboardInterrupt


def test_processes_that_tests_start_can_be_interrupted() -> None:
    """This holds even if the tests run in the background of a shell, which ignores Ctrl-C."""
    program = "import signal; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    subprocess.run([sys.executable, "-c", program], timeout=LONG_TIMEOUT, check=True)


@pytest.mark.parametrize("through_main", [False, True])
def test_an_interrupted_codec_command_ends_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], through_main: bool
) -> None:
    monkeypatch.setitem(codec._VERBS, "list", interrupt)
    assert (main.main(["codec", "list"]) if through_main else codec.main(["list"])) == 130
    assert capsys.readouterr().err == ""


def test_a_broker_that_is_interrupted_before_it_serves_ends_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(broker, "Cluster", interrupt)
    assert broker.main([]) == 130
    assert capsys.readouterr().err == ""


def test_a_command_that_is_interrupted_while_it_is_imported_ends_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "import_module", interrupt)
    assert main.main(["broker"]) == 130
    assert capsys.readouterr().err == ""

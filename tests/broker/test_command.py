"""The command line: a broker as a process, and the tools under one name."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aiokproto.broker import Security
from aiokproto.cli.main import main
from aiokproto.cli.secret_files import pairs
from aiokproto.client import Client
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.registry import api_keys
from aiokproto.errors import ConfigurationError
from tests.broker.wire import Wire, batch, connect_to, fetch_request, produce, records_of
from tests.timeouts import LONG_TIMEOUT


@contextmanager
def process(*arguments: str, module: str = "aiokproto") -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            # After SIGTERM it removes its folder. After SIGKILL it would leave the folder behind.
            running.terminate()
            try:
                running.wait(LONG_TIMEOUT)
            finally:
                running.kill()


def address(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().strip()


async def topics_at(wire: Wire) -> dict[str | None, int]:
    found = (await wire.ask(MetadataRequest(topics=None), 9)).topics
    return {topic.name: len(topic.partitions) for topic in found}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_broker_serves_until_it_is_signalled(tmp_path: Path, number: signal.Signals) -> None:
    options = ["broker", "--data-dir", str(tmp_path / "data"), "--topic", "t", "--topic", "u:3"]
    for already in ([], [b"x"]):
        with process(*options, "--config", "log.retention.ms=-1") as running:
            async with connect_to(address(running)) as wire:
                assert await topics_at(wire) == {"t": 1, "u": 3}
                found = records_of(await wire.ask(fetch_request("t", min_bytes=0), 12))
                assert [record.value for record in found] == already
                assert (await produce(wire, "t", batch([b"x"]))).error_code == 0
            running.send_signal(number)
            assert running.wait(LONG_TIMEOUT) == 0


async def test_several_brokers_of_an_old_release() -> None:
    with process("broker", "--brokers", "2", "--as-version", "0.10.0") as running:
        addresses = address(running).split(",")
        assert len(addresses) == 2
        async with connect_to(addresses[1]) as wire:
            assert len((await wire.ask(MetadataRequest(topics=None), 1)).brokers) == 2
            wire.send(MetadataRequest(topics=None), 2)
            assert await wire.closed()


def test_the_broker_ends_with_its_parent_process() -> None:
    with process("--until-stdin-closes", module="aiokproto.broker") as running:
        assert address(running)
        assert running.stdin is not None
        running.stdin.close()
        assert running.wait(LONG_TIMEOUT) == 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--config", "num.partition=2"], "did you mean 'num.partitions'"),
        (["--config", "nothing"], "expected NAME=VALUE"),
        (["--topic", "t:many"], "not NAME or NAME:PARTITIONS"),
        (["--brokers", "0"], "at least 1"),
        (["--as-version", "5.0"], "no release of Kafka"),
        (["--security-protocol", "TLS"], "invalid choice: 'TLS'"),
        (["--users-file", "absent.txt"], "absent.txt: "),
        (["--config", "sasl.enabled.mechanisms=PLAIN"], "has no effect: the security protocol is PLAINTEXT"),
        (["--config", "num.partitions=2", "--config", "num.partitions=3"], "--config num.partitions is given twice"),
        (["--unsecured-tokens"], "unsecured_tokens has no effect: the security protocol is PLAINTEXT"),
        (["--security-protocol", "SASL_PLAINTEXT"], "needs a mechanism to log in with"),
        (["--host", "0.0.0.0"], "set advertised_host"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(options: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["broker", *options])
    except SystemExit as exit_:
        code = exit_.code  # type: ignore[assignment]
    assert code == 2
    assert text in capsys.readouterr().err


async def test_users_and_an_advertised_host(tmp_path: Path) -> None:
    """Secrets are in files, because others can read a command line."""
    users, config = tmp_path / "users", tmp_path / "server.properties"
    users.write_text("# for tests\nalice:s3cret:with a colon\n\nbob:b0b\n")
    config.write_text("sasl.enabled.mechanisms=SCRAM-SHA-256\n")
    options = ["--security-protocol", "SASL_PLAINTEXT", "--users-file", str(users), "--config-file", str(config)]
    with process("broker", *options, "--host", "0.0.0.0", "--advertised-host", "localhost") as running:
        server = address(running)
        assert server.startswith("localhost:")
        login = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "alice", "sasl_password": "s3cret:with a colon"}
        client = Client(bootstrap_servers=server, security_protocol="SASL_PLAINTEXT", **login)  # type: ignore[arg-type]
        async with client:
            assert [broker.host for broker in client.brokers.values()] == ["localhost"]


@pytest.mark.parametrize("consent", ["unsecured_tokens", "sasl_oauth_allow_http"])
def test_what_opens_a_door_is_off_until_the_command_line_says_it(consent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Security] = []

    def cluster(*, security: Security, **arguments: object) -> None:
        given.append(security)
        raise ConfigurationError("enough is seen")

    monkeypatch.setattr("aiokproto.cli.broker.Cluster", cluster)
    for more in ([], [f"--{consent.replace('_', '-')}"]):
        assert main(["broker", "--security-protocol", "SASL_PLAINTEXT", *more]) == 2
    assert [getattr(security, consent) for security in given] == [False, True]


@pytest.mark.parametrize(
    ("option", "line", "text"),
    [("--users-file", "s3cret", "not NAME:PASSWORD"), ("--config-file", "s3cret", "not NAME=VALUE")],
)
def test_a_malformed_line_of_a_file_is_named_without_what_it_says(
    tmp_path: Path, option: str, line: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text(f"# comment\n{line}\n")
    with pytest.raises(SystemExit, match="2"):
        main(["broker", option, str(file)])
    error = capsys.readouterr().err
    assert f"line 2: {text}" in error
    assert "s3cret" not in error


@pytest.mark.parametrize("before", ["", "  ", "\t", "\ufeff"])
def test_a_user_whose_line_is_commented_out_does_not_exist(tmp_path: Path, before: str) -> None:
    """White space before the sign counts as little as in Java's files; and editors of Windows write a mark first."""
    file = tmp_path / "users"
    file.write_text(f"{before}# admin:s3cret\nalice:a\n", encoding="utf-8")
    assert pairs(str(file), ":", "NAME:PASSWORD") == {"alice": "a"}


@pytest.mark.parametrize(
    ("option", "lines", "name"),
    [
        ("--users-file", "alice:a\nbob:b\nalice:s3cret", "alice"),
        ("--config-file", "num.partitions=2\n\nnum.partitions=3", "num.partitions"),
    ],
)
def test_a_line_of_a_file_that_another_would_replace_is_refused(
    tmp_path: Path, option: str, lines: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text(lines)
    with pytest.raises(SystemExit, match="2"):
        main(["broker", option, str(file)])
    error = capsys.readouterr().err
    assert f"line 3: {name!r} is given twice" in error
    assert "s3cret" not in error


def test_users_without_sasl_are_a_wrong_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    users = tmp_path / "users"
    users.write_text("alice:s3cret\n")
    assert main(["broker", "--users-file", str(users)]) == 2
    assert "users has no effect: the security protocol is PLAINTEXT" in capsys.readouterr().err


def test_a_broker_that_cannot_start_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["broker", "--port", str(taken.getsockname()[1])]) == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_the_served_apis_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broker", "--apis"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(api_keys()) + 2
    assert "| 11 | JoinGroup | 0-9 | served | READ on GROUP |" in lines
    assert "| 52 | Vote | - | the connection is closed |  |" in lines
    needed = "CLUSTER_ACTION on CLUSTER (v4+); WRITE on TRANSACTIONAL_ID (v0-3); WRITE on TOPIC (v0-3)"
    assert f"| 24 | AddPartitionsToTxn | 0-5 | served | {needed} |" in lines


def test_the_codec_has_a_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["codec", "show", "Heartbeat"]) == 0
    assert "generation_id" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main(["nonsense"])

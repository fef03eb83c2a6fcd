"""``aiokproto load``."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from aiokproto.cli import load as command
from aiokproto.cli import progress as module
from aiokproto.cli.progress import Tasks, progress
from aiokproto.errors import ConfigurationError
from aiokproto.records import BatchRecord
from aiokproto.spark import LoadResult
from tests.spark.kafka import Kafka
from tests.spark.session import java_options
from tests.timeouts import LONG_TIMEOUT

ROOT = Path(__file__).resolve().parents[3]
NEEDED = ["--bootstrap-servers", "h:1"]
QUICK = ("spark.sql.shuffle.partitions=1", "spark.ui.enabled=false")


def parsed(*arguments: str) -> Any:
    return command._parser().parse_args(arguments)


def test_arguments() -> None:
    found = parsed(
        "append", "a", "b", "/out", *NEEDED, "--option", "kafka.client.id=x=y", "--option", "minPartitions=2"
    )
    assert (found.topics, found.out, found.option) == (
        ["a", "b"],
        "/out",
        [("kafka.client.id", "x=y"), ("minPartitions", "2")],
    )
    found = parsed(
        "append", "a", "/out", *NEEDED, "--partition-by", "day=to_date(timestamp) = x", "--partition-by", "topic"
    )
    assert found.partition_by == [("day", "to_date(timestamp) = x"), ("topic", "")]
    noon = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
    for text, value in (
        ("1700000000000", 1_700_000_000_000),
        ("2026-01-31T12:00:00Z", noon),
        ("2026-01-31T14:00+02:00", noon),
    ):
        assert parsed("append", "a", "/out", *NEEDED, "--from-timestamp", text).from_timestamp == value
    for text, age in (("90m", timedelta(minutes=90)), ("12h", timedelta(hours=12)), ("2w", timedelta(weeks=2))):
        assert parsed("vacuum", "/out", "--older-than", text).older_than == age


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["append", "a", "/out"],
        ["append", "a", *NEEDED],
        ["append", "a", "/out", *NEEDED, "--option", "secret"],
        ["append", "a", "/out", *NEEDED, "--from-timestamp", "2026-01-31"],
        ["append", "a", "/out", *NEEDED, "--from-timestamp", "soon"],
        ["append", "a", "/out", *NEEDED, "--partition-by", "day="],
        ["vacuum", "/out", "--older-than", "7"],
        ["rerun", "/out", *NEEDED],
        ["append", "a", "/out", *NEEDED, "--from-timestamp", "0001-01-01T00:00+14:00"],
        ["append", "a", "/out", *NEEDED, "--spark-log-level", "loud"],
        ["append", "a", "/out", *NEEDED, "--kafka.sasl.password='secret'"],
        ["append", "a", "/out", *NEEDED, "--kafka.sasl.password", "'secret'"],
        ["append", "a", "/out", *NEEDED, "--option", "kafka.sasl.jaas.config=x", "password='secret';"],
        ["append", "a", "/out", *NEEDED, "--p='secret'"],
        ["append", "a", "b", *NEEDED, "/out"],
        ["vacuum", "/out", "--dry"],
    ],
)
def test_wrong_arguments_end_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2
    assert "'secret'" not in capsys.readouterr().err


def test_a_column_to_divide_files_by_is_given_once(capsys: pytest.CaptureFixture[str]) -> None:
    twice = ["--partition-by", "day=a", "--partition-by", "day=b"]
    for given_ in (["append", "a", "/out"], ["rerun", "/out", "000001-aa"]):
        assert command.main([*given_, *NEEDED, *twice]) == 2
        assert "--partition-by day is given twice" in capsys.readouterr().err


JSON = ("--option", "value.format=json", "--option")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["append", "a", "/out", "--option", "minPartition=2"], "minPartition"),
        (["append", "a", "/out", "--option", "kafka.security.protocol=TLS"], "kafka.security.protocol"),
        (["append", "a,,", "/out", "--option", "startingOffsets=earliest"], "startingOffsets cannot be set"),
        (["rerun", "/out", "000001-aa", "--option", "subscribe=b"], "subscribe cannot be set"),
        (["append", "a", "/out", "--option", "endingOffsets=last"], "endingOffsets must be latest, or JSON"),
        (["append", "a", "/out", *JSON, "value.schema=a WHOLE"], "value.schema"),
        (["append", "a", "/out", *JSON, "value.schema=_corrupt_record INT, a INT"], "_corrupt_record is for the text"),
    ],
)
def test_options_are_checked_before_java_is_started(
    arguments: list[str], text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command._Session, "_start", lambda _: pytest.fail("Java was started"))
    assert command.main([*arguments, *NEEDED]) == 2
    assert text in capsys.readouterr().err


def test_a_rerun_looks_for_the_load_before_java_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command._Session, "_start", lambda _: pytest.fail("Java was started"))
    for out, text in (
        (tmp_path / "none", f"{tmp_path / 'none'}: there is no such directory"),
        (tmp_path, "there is no run '000001-aa'"),
    ):
        assert command.main(["rerun", str(out), "000001-aa", *NEEDED]) == 1
        assert text in capsys.readouterr().err


def test_runs_needs_no_pyspark(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None; from aiokproto.cli.load import main; sys.exit(main(sys.argv[1:]))"
    )

    def runs(out: Path) -> subprocess.CompletedProcess[str]:
        listing = [sys.executable, "-c", program, "runs", str(out)]
        return subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, timeout=LONG_TIMEOUT, check=False)

    done = runs(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    missing = runs(tmp_path / "none")
    assert (missing.returncode, missing.stderr) == (1, f"error: {tmp_path / 'none'}: there is no such directory\n")


def test_an_output_without_loads_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["runs", str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""
    assert command.main(["vacuum", str(tmp_path)]) == 1
    assert "nothing was loaded" in capsys.readouterr().err
    assert command.main(["runs", "~/out"]) == 2


def test_an_age_longer_than_the_calendar_removes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["vacuum", str(tmp_path), "--older-than", "999999w"]) == 1
    assert "nothing was loaded" in capsys.readouterr().err


def test_a_manifest_of_something_else_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "_aiokproto" / "commits" / f"{1:012}.json"
    path.parent.mkdir(parents=True)
    for text in (b"", b"\xff", b"[" * 100_000, b"[]", b"null", b'{"format": 9}', b'{"format": 3}'):
        path.write_bytes(text)
        assert command.main(["runs", str(tmp_path)]) == 1
        assert f"manifest _aiokproto/commits/{path.name}" in capsys.readouterr().err


class Session:
    """A session whose Java process is gone when it is stopped."""

    stopped = False

    def stop(self) -> None:
        self.stopped = True
        raise ConnectionRefusedError("Java is gone")


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    """What commands start instead of Spark."""
    made = Session()
    monkeypatch.setattr(command._Session, "_start", lambda _: made)
    return made


def loading(monkeypatch: pytest.MonkeyPatch, result: BaseException | LoadResult) -> list[dict[str, Any]]:
    """Let ``load`` return or raise; return the arguments of its calls."""
    calls: list[dict[str, Any]] = []

    def load(*_: object, **arguments: Any) -> LoadResult:
        calls.append(arguments)
        if isinstance(result, BaseException):
            raise result
        return result

    monkeypatch.setattr("aiokproto.spark.load", load, raising=False)
    return calls


LOAD = ["append", "a", "/out", *NEEDED, "--no-progress"]
DONE = LoadResult("000001-ab", 5, ())


def test_a_load_that_is_done_is_reported_however_the_session_stops(
    monkeypatch: pytest.MonkeyPatch, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    loading(monkeypatch, DONE)
    assert command.main(LOAD) == 0
    assert capsys.readouterr().out.startswith("000001-ab  5 rows")
    assert session.stopped


def test_the_epoch_is_a_time_to_start_at(monkeypatch: pytest.MonkeyPatch, session: Session) -> None:
    calls = loading(monkeypatch, DONE)
    command.main([*LOAD, "--from-timestamp", "0"])
    command.main(LOAD)
    assert [one["from_timestamp"] for one in calls] == [0, None]


def test_ctrl_c_stops_the_session_and_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    loading(monkeypatch, KeyboardInterrupt())
    assert command.main(LOAD) == 130
    assert capsys.readouterr().err.startswith("error: interrupted")
    assert session.stopped


def test_an_error_of_a_storages_library_is_one_line_and_a_bug_is_raised(
    monkeypatch: pytest.MonkeyPatch, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = type("NoCredentialsError", (Exception,), {"__module__": "botocore.exceptions"})
    for error, shown in ((kind("no credentials\n at x"), "no credentials"), (kind(), "NoCredentialsError")):
        loading(monkeypatch, error)
        assert command.main(LOAD) == 1
        assert capsys.readouterr().err == f"error: {shown}\n"
    loading(monkeypatch, ValueError("bug"))
    with pytest.raises(ValueError, match="bug"):
        command.main(LOAD)


def test_a_wrong_option_that_spark_reports_is_one_too(
    monkeypatch: pytest.MonkeyPatch, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = type("AnalysisException", (Exception,), {"__module__": "pyspark.errors"})
    loading(
        monkeypatch, kind("[X] failed\nTraceback:\naiokproto.errors.ConfigurationError: value.schema is required\n")
    )
    assert command.main(LOAD) == 2
    assert capsys.readouterr().err == "error: value.schema is required\n"


def test_output_that_is_not_read_is_not_a_failure(
    monkeypatch: pytest.MonkeyPatch, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    loading(monkeypatch, DONE)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert command.main(LOAD) == 0
    # As Python starts with closed descriptors.
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert command.main(["append", "a", "/out", *NEEDED]) == 0
    loading(monkeypatch, ConfigurationError("wrong"))
    assert command.main(["append", "a", "/out", *NEEDED]) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_output_that_cannot_be_written_is_an_error(
    monkeypatch: pytest.MonkeyPatch, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    loading(monkeypatch, DONE)
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert command.main(LOAD) == 1
    assert "standard output" in capsys.readouterr().err


def test_the_scheme_of_an_output_has_any_case() -> None:
    assert command._on_hdfs("HDFS://nn/out")
    assert not command._on_hdfs("/hdfs/out")


def test_the_line_with_our_error_is_shown_from_an_error_of_spark() -> None:
    text = (
        "An error occurred\nTraceback:\n  File x\naiokproto.spark.offsets.DataLossError: t-0 is gone\n\tat org.apache"
    )
    assert command._reason(text) == "aiokproto.spark.offsets.DataLossError: t-0 is gone"
    assert command._reason("[PARSE] no\nmore") == "[PARSE] no"
    java = "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: no such master\n\tat y"
    assert command._reason(java) == "org.apache.spark.SparkException: no such master"


def test_the_bar_shows_the_tasks_of_the_stages_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = threading.Event()
    states = iter([Tasks(0, 0), Tasks(2, 4)])

    def tasks(_: object) -> Tasks:
        found = next(states, None)
        if found is None:
            seen.set()
        return found or Tasks(4, 4)

    shown = io.StringIO()
    monkeypatch.setattr(module, "active_tasks", tasks)
    monkeypatch.setattr(module, "INTERVAL", 0.001)
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("FORCE_COLOR", "1")
    spark: Any = None
    with progress(spark, "loading", shown=True):
        assert seen.wait(LONG_TIMEOUT)
    assert "loading" in shown.getvalue()
    assert "4/4" in shown.getvalue()
    with progress(spark, "loading", shown=False):
        pass


def run(*arguments: str) -> str:
    """Run the command in a process of its own; what it printed."""
    base = [sys.executable, "-m", "aiokproto", "load"]
    done = subprocess.run(
        [*base, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=8 * LONG_TIMEOUT, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.extended
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_ends_a_job_quietly(kafka: Kafka, topic: str, tmp_path: Path) -> None:
    kafka.create_topic(topic)
    kafka.produce(topic, 0, [BatchRecord(0, 0, None, b"v")])
    out = tmp_path / "out"
    sleeps = ["--partition-by", "slow=java_method('java.lang.Thread', 'sleep', 600000L)", "--progress"]
    where = ["--bootstrap-servers", kafka.bootstrap_servers, "--master", "local[1]"]
    where += [part for setting in QUICK for part in ("--conf", setting)]
    base = [sys.executable, "-m", "aiokproto", "load", "append", topic, str(out)]
    with subprocess.Popen([*base, *where, *sleeps], cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        while not list(out.glob("run=*")):
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=LONG_TIMEOUT)
    assert process.returncode == 130
    assert errors.rstrip().endswith("error: interrupted: `aiokproto load runs` lists the loads that were committed")
    assert "Traceback" not in errors
    assert "py4j" not in errors


@pytest.mark.extended
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_append_runs_and_rerun(kafka: Kafka, topic: str, tmp_path: Path) -> None:
    kafka.create_topic(topic)
    kafka.produce(topic, 0, [BatchRecord(number, 1000 * number, None, b"v%d" % number) for number in range(10)])
    out = str(tmp_path / "out")
    settings = (*QUICK, f"spark.driver.extraJavaOptions={java_options()}")
    where = ["--bootstrap-servers", kafka.bootstrap_servers, "--master", "local[1]"]
    where += [part for setting in settings for part in ("--conf", setting)]
    divided = ["--partition-by", "minute=date_trunc('minute', timestamp)", "--progress"]
    found = json.loads(run("append", topic, out, *where, *divided, "--from-timestamp", "4000", "--json"))
    assert (found["rows"], found["partitions"][0]["start"]) == (6, 4)
    (listed,) = json.loads(run("runs", out, "--json"))
    assert (listed["run_id"], listed["rows"], listed["attempt"]) == (found["run_id"], 6, 1)
    again = run("rerun", out, found["run_id"], *where)
    assert again == f"{found['run_id']}  6 rows of 1 partitions\n"
    assert "attempt 2  6 rows" in run("runs", out)
    assert run("vacuum", out, "--older-than", "0m", "--dry-run").startswith("would remove run=")

"""``aiokproto load``."""

from __future__ import annotations

import io
import json
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
from aiokproto.records import BatchRecord
from tests.patience import PATIENCE
from tests.spark.kafka import Kafka

ROOT = Path(__file__).resolve().parents[3]
NEEDED = ["--bootstrap-servers", "h:1"]
QUICK = ["--conf", "spark.sql.shuffle.partitions=1", "--conf", "spark.ui.enabled=false"]


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
    ],
)
def test_wrong_arguments_end_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2
    assert "'secret'" not in capsys.readouterr().err


def test_an_output_without_loads_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["runs", str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""
    assert command.main(["vacuum", str(tmp_path)]) == 1
    assert "nothing was loaded" in capsys.readouterr().err
    assert command.main(["runs", "~/out"]) == 2


def test_of_an_error_of_spark_the_line_with_ours_is_shown() -> None:
    text = (
        "An error occurred\nTraceback:\n  File x\naiokproto.spark.offsets.DataLossError: t-0 is gone\n\tat org.apache"
    )
    assert command._reason(text) == "aiokproto.spark.offsets.DataLossError: t-0 is gone"
    assert command._reason("[PARSE] no\nmore") == "[PARSE] no"


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
        assert seen.wait(PATIENCE)
    assert "loading" in shown.getvalue()
    assert "4/4" in shown.getvalue()
    with progress(spark, "loading", shown=False):
        pass


def run(*arguments: str) -> str:
    """Run the command in a process of its own; what it printed."""
    base = [sys.executable, "-m", "aiokproto", "load"]
    done = subprocess.run(
        [*base, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=8 * PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_append_runs_and_rerun(kafka: Kafka, topic: str, tmp_path: Path) -> None:
    kafka.create_topic(topic)
    kafka.produce(topic, 0, [BatchRecord(number, 1000 * number, None, b"v%d" % number) for number in range(10)])
    out = str(tmp_path / "out")
    where = ["--bootstrap-servers", kafka.bootstrap_servers, "--master", "local[1]", *QUICK]
    divided = ["--partition-by", "minute=date_trunc('minute', timestamp)", "--progress"]
    found = json.loads(run("append", topic, out, *where, *divided, "--from-timestamp", "4000", "--json"))
    assert (found["rows"], found["partitions"][0]["start"]) == (6, 4)
    (listed,) = json.loads(run("runs", out, "--json"))
    assert (listed["run_id"], listed["rows"], listed["attempt"]) == (found["run_id"], 6, 1)
    again = run("rerun", out, found["run_id"], *where)
    assert again == f"{found['run_id']}  6 rows of 1 partitions\n"
    assert "attempt 2  6 rows" in run("runs", out)
    assert run("vacuum", out, "--older-than", "0m", "--dry-run").startswith("would remove run=")

"""Loads whose processes are killed at every call of the file system and at every request to the store."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aiokproto.spark.loads.opening import open_storage
from aiokproto.spark.loads.storage import Storage
from tests.spark.loads.harness import Log, Place, committed
from tests.spark.loads.load_process import LoadProcess
from tests.spark.loads.s3 import BUCKET, FakeS3
from tests.spark.loads.test_commits import LOAD_CASES, check, prepare


def load_process(storage: Storage, log: Log, kind: str) -> LoadProcess:
    """A process that runs the load or rerun."""
    run_id = None
    if kind == "rerun":
        run_id = [manifest.run_id for manifest in committed(storage)][-1]
    return LoadProcess(storage.uri, log, run_id, None)


def killed_at_each_call(place: Place, kind: str, before: int, **settings: Any) -> int:
    """Kill it at its first call, at its second, and so on, until it survives; return the number of calls."""
    at = 0
    while True:
        storage, log, _ = prepare(place, kind, before)
        calls = replace(load_process(storage, log, kind), kill_at=at, **settings).run()
        check(storage, log, [])
        if calls is not None:
            assert calls == at
            return calls
        at += 1


@pytest.mark.extended
@pytest.mark.parametrize(("kind", "before"), LOAD_CASES)
def test_a_process_killed_at_every_call_of_the_file_system(tmp_path: Path, kind: str, before: int) -> None:
    place = Place(lambda: open_storage(tmp_path / secrets.token_hex(4)))
    assert killed_at_each_call(place, kind, before) >= 20


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "before"), LOAD_CASES)
@pytest.mark.parametrize("after", [False, True])
def test_a_process_killed_at_every_request_to_the_store(s3: FakeS3, kind: str, before: int, after: bool) -> None:
    place = Place(lambda: open_storage(f"s3://{BUCKET}/{secrets.token_hex(4)}/out"))
    assert killed_at_each_call(place, kind, before, kill_after=after, environment=s3.environment) >= 8

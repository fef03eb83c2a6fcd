"""The paths of a record in DESIGN.md are what a trace says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from operator import attrgetter

import pytest

from tools.setup.project import ROOT

SECTION = (ROOT / "DESIGN.md").read_text().partition("### The path of a record")[2].partition("\n## ")[0]
TABLES = SECTION.split("From the socket to")
PATHS = {
    name: re.findall(r"^\| \d+ \| `([\w.]+)` \| `([\w/]+)` \|", table, re.MULTILINE)
    for name, table in zip(("send", "read"), TABLES, strict=True)
}

BESIDE = {
    "send": {"application/gates", "producer/delivery", "producer/limits", "producer/outcome", "producer/queue"}
    | {"producer/partitioner"}
    | {"producer/responses", "producer/sticky", "producer/waiting", "cluster/pool", "net/in_flight"}
    | {"net/timer", "net/versions"},
    "read": {"application/gates", "cluster/cluster_client", "cluster/lifecycle", "cluster/pool"}
    | {"consumer/epochs", "consumer/fetch_request", "consumer/fetch_state"}
    | {"consumer/fetcher", "consumer/rebalancing", "consumer/subscription", "fetched/time_slice"}
    | {"net/timer", "net/versions"},
}
"""Files of the client that are called on the way but are no step of it: checks, counts, and the way of the response."""
ROOMS = ("application", "cluster", "consumer", "fetched", "net", "producer")


@cache
def traced() -> dict[str, list[tuple[str, str]]]:
    environment = {**os.environ, "AIOKPROTO_PURE": "1"}
    command = [sys.executable, "-m", "tests.docs.traced_paths"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return {name: [(file, function) for file, function in calls] for name, calls in json.loads(done.stdout).items()}


@pytest.mark.parametrize("path", PATHS)
def test_each_step_is_called_in_the_order_of_the_table(path: str) -> None:
    steps = [(file, function.rpartition(".")[2]) for function, file in PATHS[path]]
    assert len(steps) > 10
    assert [step for step in dict.fromkeys(traced()[path]) if step in steps] == steps


@pytest.mark.parametrize("path", PATHS)
def test_each_function_is_where_the_table_says(path: str) -> None:
    for function, file in PATHS[path]:
        assert callable(attrgetter(function)(import_module(f"aiokproto.{file.replace('/', '.')}")))


@pytest.mark.parametrize("path", PATHS)
def test_the_table_leaves_out_no_file(path: str) -> None:
    files = {file for file, _ in traced()[path] if file.partition("/")[0] in ROOMS}
    named = {file for _, file in PATHS[path]}
    assert files - named == BESIDE[path]

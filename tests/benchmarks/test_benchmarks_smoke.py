"""The benchmarks run from end to end, and their results add up. What they measure is not looked at."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from aiokproto.broker import Broker
from benchmarks import codec, report
from benchmarks.clients import CLIENTS
from benchmarks.runner import Cell, Plan, baseline
from benchmarks.work import KINDS, Work

ROOT = Path(__file__).resolve().parents[2]


async def run(folder: Path, *arguments: str) -> dict[str, Any]:
    """Run the benchmarks in a process of their own, as people do; return the results as JSON has them."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks", "--json", "--results", str(folder), *arguments),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    assert process.returncode == 0, err.decode()
    results: dict[str, Any] = json.loads(out)
    (kept,) = folder.iterdir()
    assert json.loads(kept.read_text()) == results
    return results


@pytest.mark.slow
async def test_a_tiny_round_measures_every_way_of_ours_on_the_embedded_broker(tmp_path: Path) -> None:
    async with Broker() as broker:
        parts = [argument for kind in KINDS for argument in ("--only", kind)]
        results = await run(
            tmp_path,
            *("--bootstrap", broker.bootstrap_servers, "--messages", "300", "--rounds", "2", "--sizes", "10"),
            *("--clients", "aiokproto", *parts),
        )
    measured = [(cell["kind"], cell["way"]) for cell in results["cells"]]
    ways = results["clients"][0]["ways"]
    assert measured == [(kind, way) for kind in KINDS for way in ways[kind]]
    assert {kind for kind, _ in measured} == set(KINDS)
    for cell in results["cells"]:
        assert cell["error"] is None
        assert len(cell["rounds"]) == 2
        assert all(done["cpu"] > 0 and done["wall"] > 0 for done in cell["rounds"])
        assert all((done["latency"] is not None) == (cell["kind"] == "latency") for done in cell["rounds"])


async def test_what_cannot_be_reached_is_said(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no broker to measure against"):
        await run(tmp_path, "--bootstrap", "127.0.0.1:1", "--only", "consume", "--clients", "aiokproto")


def test_tables_show_ratios_to_ours_failures_and_what_is_not_installed() -> None:
    ours = Cell("aiokproto", "produce", "post()", 10, 1000, rounds=[{"cpu": 0.002, "wall": 0.004}])
    peer = Cell("kafka-python", "produce", "send()", 10, 1000, rounds=[{"cpu": 0.005, "wall": 0.004}])
    broken = Cell("aiokafka", "produce", "send()", 10, 1000, error="out of luck")
    cells = [ours, peer, broken]
    clients = [{"client": "confluent-kafka", "missing": "confluent_kafka is not installed"}]
    assert baseline(cells, peer) is ours

    out = report.console()
    with out.capture() as shown:
        report.show(out, Plan(["produce"], list(CLIENTS), [10], 1000, 1), clients, cells, "a broker")
    text = shown.get()
    (row,) = (line for line in text.splitlines() if "kafka-python" in line)
    assert [part.strip() for part in row.strip("│").split("│")] == [
        *("kafka-python", "send()", "5.00", "2.50", "5.00 to 5.00", "4.00", "1.00", "250,000")
    ]
    assert "out of luck" in text
    assert "confluent_kafka is not installed" in text


def test_the_work_is_cut_into_chunks_that_add_up() -> None:
    work = Work("", "", messages=25_001, size=3)
    assert work.chunks() == [10_000, 10_000, 5_001]
    with pytest.raises(ValueError, match="2 values of 3 bytes"):
        work.read(2, 7)


@pytest.mark.parametrize("sample", codec.samples(), ids=lambda sample: sample.name)
def test_our_codec_returns_the_bytes_that_others_are_measured_with(sample: codec.Sample) -> None:
    decode, encode = codec.CODECS[codec.OURS](sample)
    assert encode(decode(sample.raw)) == sample.raw

"""The benchmarks run from end to end, and their results add up. What they measure is not looked at."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from aiokproto.broker import Broker, Cluster
from benchmarks import codec
from benchmarks.clients import CLIENTS
from benchmarks.extras import EXTRAS
from benchmarks.topics import Topics
from benchmarks.work import KINDS

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
@pytest.mark.extended
async def test_a_tiny_round_measures_every_way_of_ours_on_the_embedded_broker(tmp_path: Path) -> None:
    async with Broker() as broker:
        parts = [argument for kind in KINDS for argument in ("--only", kind)]
        results = await run(
            tmp_path,
            *("--bootstrap", broker.bootstrap_servers, "--messages", "300", "--rounds", "2", "--data", "10", "20:zstd"),
            *("--clients", "aiokproto", *parts),
        )
    measured = [(cell["kind"], cell["way"], cell["data"]["compression"]) for cell in results["cells"]]
    ways = results["clients"][0]["ways"]
    assert measured == [
        *((kind, way, "none") for kind in KINDS for way in ways[kind]),
        *((kind, next(iter(ways[kind])), "zstd") for kind in ("produce", "consume")),
    ]
    for cell in results["cells"]:
        assert cell["error"] is None
        assert len(cell["rounds"]) == 2
        assert all(done["cpu"] > 0 and done["wall"] > 0 and done["peak_bytes"] > 0 for done in cell["rounds"])
        assert all(
            ("p99 ms" in done["figures"]) == (cell["kind"] in ("latency", "transact")) for done in cell["rounds"]
        )


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("client", [name for name in CLIENTS if name != "aiokproto"])
async def test_every_other_client_that_is_here_does_each_kind_of_work(client: str, tmp_path: Path) -> None:
    async with Broker() as broker:
        results = await run(
            tmp_path,
            *(
                "--bootstrap",
                broker.bootstrap_servers,
                "--messages",
                "200",
                "--rounds",
                "1",
                "--data",
                "100",
                "100:lz4",
            ),
            *("--clients", client, *(argument for kind in KINDS for argument in ("--only", kind))),
        )
    (described,) = results["clients"]
    if "missing" in described:
        pytest.skip(described["missing"])
    assert {cell["kind"] for cell in results["cells"]} == {kind for kind in KINDS if described["ways"][kind]}
    assert [cell["error"] for cell in results["cells"]] == [None] * len(results["cells"])


@pytest.mark.slow
@pytest.mark.thorough
async def test_an_extra_measurement_of_ours_has_its_figures(tmp_path: Path) -> None:
    async with Broker() as broker:
        results = await run(
            tmp_path,
            *("--bootstrap", broker.bootstrap_servers, "--only", "extras", "--extras", "loaded"),
            *("--clients", "aiokproto"),
        )
    (cell,) = results["cells"]
    assert cell["error"] is None
    assert cell["rounds"][0]["sent"] == cell["rounds"][0]["settled"] + 2
    assert cell["median"].keys() >= {"p50 ms", "p99 ms", "max ms", "messages/s"}
    assert EXTRAS["loaded"].messages < cell["rounds"][0]["settled"]


async def test_a_connection_that_the_broker_has_closed_is_opened_again() -> None:
    """As it does with one that was silent for ten minutes."""
    async with Cluster(1) as cluster:
        topics = Topics(cluster.bootstrap_servers)
        await asyncio.to_thread(topics.create, "t", 2)
        await cluster.stop_broker(0)
        await cluster.start_broker(0)
        assert await asyncio.to_thread(topics.count, "t") == 0
        topics.close()


async def test_an_unreachable_broker_is_reported(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no broker to measure against"):
        await run(tmp_path, "--bootstrap", "127.0.0.1:1", "--only", "consume", "--clients", "aiokproto")


@pytest.mark.parametrize("sample", codec.samples(), ids=lambda sample: sample.name)
def test_our_codec_returns_the_bytes_that_others_are_measured_with(sample: codec.Sample) -> None:
    decode, encode = codec.CODECS[codec.OURS](sample)
    assert encode(decode(sample.raw)) == sample.raw

"""The parts of the benchmarks that decide what is measured and what is shown."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from aiokproto.records import Compression, compress
from benchmarks import pages, profile, report, runner, tables, values
from benchmarks.clients import CLIENTS, MAIN, programs
from benchmarks.extras.pace import AT_ONCE, pace
from benchmarks.runner import Cell, percentiles
from benchmarks.work import Data, Settings, Work


def results(*cells: Cell, clients: list[dict[str, Any]] | None = None, ratio_to: str = "aiokproto") -> dict[str, Any]:
    return {
        "at": "2026-01-01T00:00:00+00:00",
        "whole": True,
        "machine": report.machine(),
        "broker": "a broker",
        "plan": {"messages": 1000, "rounds": 1, "settings": vars(Settings())},
        "ratio_to": ratio_to,
        "clients": clients or [],
        "cells": [cell.as_json() for cell in cells],
    }


def measured(cpu: float, wall: float, peak: float = 1 << 20, **figures: float) -> dict[str, Any]:
    return {"cpu": cpu, "wall": wall, "peak_bytes": peak, "figures": figures}


SMALL = Data(10)
OURS = Cell("aiokproto", "produce", "post()", SMALL, 1000, rounds=[measured(0.002, 0.004)])
PEER = Cell("kafka-python", "produce", "send()", SMALL, 1000, rounds=[measured(0.005, 0.004, 30 << 20)])
BROKEN = Cell("aiokafka", "produce", "send()", SMALL, 1000, error="out of luck")


def rows(found: dict[str, Any], title: str) -> list[list[str]]:
    (table,) = (table for table in report.tables(found) if table.title == title)
    return [list(row) for row in table.rows]


def test_a_table_has_ratios_to_ours_and_failures() -> None:
    found = results(OURS, PEER, BROKEN)
    assert rows(found, "Produce: 10 B, none") == [
        ["aiokproto", "post()", "2.00", "1.00", "4.00", "1.00", "1"],
        ["kafka-python", "send()", "5.00", "2.50", "4.00", "1.00", "30"],
        ["aiokafka", "send()", "failed", "-", "failed", "-", "failed"],
    ]
    assert report.failures(found) == ["10 B, none, produce: aiokafka send(): out of luck"]


def test_ratios_are_to_the_client_that_is_chosen() -> None:
    assert rows(results(OURS, PEER, ratio_to="kafka-python"), "Produce: 10 B, none")[0][2:4] == ["2.00", "0.40"]


def test_skipped_clients_and_deviating_settings_are_reported() -> None:
    stated = {"works_in": "a thread", "differs": {"in flight": "1"}, "notes": ["slow"]}
    clients: list[dict[str, Any]] = [
        {"client": "confluent-kafka", "missing": "confluent_kafka is not installed"},
        {"client": "java", "error": "no luck"},
        {"client": "aiokafka", "version": "7", "stated": stated},
    ]
    found = results(clients=clients)
    assert rows(found, "Clients") == [
        ["confluent-kafka", "-", "-", "left out: confluent_kafka is not installed"],
        ["java", "-", "-", "cannot be measured: no luck"],
        ["aiokafka", "7", "a thread", "slow"],
    ]
    assert ["in flight", "5 requests for each broker", "aiokafka: 1"] in rows(found, "Settings")
    assert report.failures(found) == ["java: no luck"]


def test_medians_are_over_the_rounds() -> None:
    rounds = [measured(second, second, lag=second) for second in (0.001, 0.009, 0.002)]
    median = Cell("aiokproto", "loaded", "", SMALL, 1000, rounds=rounds).as_json()["median"]
    assert median == pytest.approx({"cpu_us": 2, "wall_us": 2, "peak_mib": 1, "lag": 0.002})


def test_extra_figures_are_rows_with_their_units() -> None:
    cells = [
        Cell("aiokproto", "topics", "", SMALL, 1, {"topics": 10_000}, rounds=[measured(1, 1, **{"CPU µs": 7.5})]),
        Cell("aiokproto", "start", "send()", SMALL, 1, rounds=[measured(0.010, 0.1234)]),
    ]
    assert rows(results(*cells) | {"imports_ms": {"asyncio": 20.0, "kio": None}}, "Other measurements") == [
        ["a send among many topics, 10,000 topics", "10 B, none", "aiokproto", "CPU µs 7.50"],
        ["first acknowledgement, from nothing", "10 B, none", "aiokproto", "wall ms 123 · CPU ms 10.00"],
        ["start and import", "", "asyncio", "CPU ms 20.00"],
    ]


def test_percentiles_are_of_the_nearest_rank() -> None:
    assert percentiles([0.003, 0.001, 0.002]) == {"p50 ms": 2.0, "p99 ms": 3.0, "max ms": 3.0}
    assert percentiles([]) == {}


def test_a_table_is_markdown_too() -> None:
    text = tables.markdown(tables.Table("A | B", ("a", "b"), [("1|2", "3")], ("b",)), level=3)
    assert text == "### A | B\n\n| a | b |\n| --- | ---: |\n| 1\\|2 | 3 |\n"


def test_a_page_gets_the_measured_section_and_keeps_the_rest() -> None:
    page = "before\n<!-- start: measured -->\nold\n<!-- end: measured -->\nafter\n"
    new = pages.put(page, "measured", pages.measured(results(OURS)))
    assert new.startswith("before\n<!-- start: measured -->\n")
    assert new.endswith("<!-- end: measured -->\nafter\n")
    assert "old" not in new
    assert "| aiokproto | post() | 2.00 | 1.00 | 4.00 | 1.00 | 1 |" in new
    assert pages.put(new, "measured", "old\n") == page
    with pytest.raises(pages.PageError, match="0 sections called measured"):
        pages.put("nothing", "measured", "new")


@pytest.mark.parametrize("section", ["measured", "long", "spark", "profile-produce", "profile-consume"])
def test_the_page_of_the_documentation_has_a_place_for_it(section: str) -> None:
    assert pages.put(pages.PAGE.read_text(), section, "new") != pages.PAGE.read_text()


def test_the_newest_complete_run_goes_into_the_page(tmp_path: Path) -> None:
    assert pages.newest(tmp_path, pages.whole) is None
    for name, is_whole in (("1", True), ("2", True), ("3", False)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"at": name, "whole": is_whole}))
    assert pages.newest(tmp_path, pages.whole) == {"at": "2", "whole": True}


def test_long_measurements_go_into_the_page() -> None:
    growth, topics = (
        Cell("aiokproto", kind, "", SMALL, 10, rounds=[measured(0.002, 0.004, mib=1.5)])
        for kind in ("growth", "topics")
    )
    assert not pages.long(results(growth, OURS))
    assert pages.long(results(growth, topics, OURS))
    text = pages.at_length(results(growth, topics, OURS))
    assert "| memory growth | 10 B, none | aiokproto | mib 1.50 |" in text
    assert "post()" not in text


def test_the_chart_shows_every_client_at_its_cheapest_call() -> None:
    pytest.importorskip("matplotlib")
    from benchmarks import chart

    dear = Cell("kafka-python", "produce", "get()", SMALL, 1000, rounds=[measured(0.999, 1)])
    drawn = chart.svg(results(OURS, dear, PEER, BROKEN))
    assert drawn.startswith("<?xml")
    for shown in ("aiokproto", "kafka-python", "produce, 10 B, none", ">2.0 / 4.0<", ">5.0 / 4.0<"):
        assert shown in drawn
    assert "999.0 /" not in drawn
    assert "aiokafka" not in drawn
    assert drawn == chart.svg(results(OURS, dear, PEER, BROKEN))


def test_the_work_is_cut_into_chunks_that_add_up() -> None:
    work = Work("", "", messages=25_001, size=3, values_path="")
    assert work.chunks() == [10_000, 10_000, 5_001]
    with pytest.raises(ValueError, match="2 values of 3 bytes"):
        work.read(2, 7)


@pytest.mark.parametrize("size", [1, 100, 1024])
def test_values_are_the_same_in_every_run_and_can_be_compressed_as_events_can(tmp_path: Path, size: int) -> None:
    made = values.rows(size)
    assert made == values.rows(size)
    assert {len(value) for value in made} == {size}
    path = values.write(tmp_path, size)
    assert values.read(path, size) == made
    batch = b"".join(made)[: Settings().batch_bytes]
    for codec in (Compression.LZ4, Compression.ZSTD):
        assert len(batch) / 8 < len(compress(codec, batch)) < len(batch) / 2 or size == 1
    work = Work("", "", messages=0, size=size, values_path=str(path))
    assert [*work.values(2), work.value()] == made[:3]
    assert len(list(work.values(values.ROWS))) == values.ROWS


def test_data_is_named_by_size_and_codec() -> None:
    assert [str(Data(100)), str(Data(1024, "zstd")), str(Data(1025))] == ["100 B, none", "1 KiB, zstd", "1025 B, none"]


async def test_a_pace_hands_out_all_messages_a_few_at_a_time() -> None:
    handed = [count async for count in pace(1000, rate=1e9)]
    assert sum(handed) == 1000
    assert max(handed) <= AT_ONCE


def test_a_client_whose_tools_are_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr(programs, "find_java", lambda: None)
    clients, cells, _ = runner.describe(runner.Plan(["produce"], ["franz-go", "java"], [SMALL], 1, 1))
    assert clients == [
        {"client": "franz-go", "missing": "Go is not installed"},
        {"client": "java", "missing": "Java 17 or later is not installed"},
    ]
    assert cells == []


def test_a_client_that_is_broken_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> list[str]:
        raise programs.BuildError("go failed: no luck")

    monkeypatch.setattr(programs, "go", fail)
    clients, _, _ = runner.describe(runner.Plan(["produce"], ["franz-go"], [SMALL], 1, 1))
    assert clients == [{"client": "franz-go", "error": "go failed: no luck"}]


def test_quick_clients_are_among_all() -> None:
    assert set(MAIN) < set(CLIENTS)
    assert MAIN[0] == next(iter(CLIENTS)) == "aiokproto"


LIBRARY = "/somewhere/lib/python3.11"
STACKS = f"""\
main (benchmarks/cell.py:9);post (/there/src/aiokproto/producer.py:3);append (/there/src/aiokproto/writer.py:7) 6
main (benchmarks/cell.py:9);post (/there/src/aiokproto/producer.py:4) 2
main (benchmarks/cell.py:9);crc (/there/.venv/lib/python3.11/site-packages/crc32c/__init__.py:4) 2
main (benchmarks/cell.py:9);_find_and_load (<frozen importlib._bootstrap>:1);made (/there/src/aiokproto/a.py:7) 50
_worker ({LIBRARY}/concurrent/futures/thread.py:81) 40
"""


def test_a_profile_counts_files_and_functions() -> None:
    samples = profile.read(STACKS.splitlines())
    assert sum(samples.values()) == 10
    by_file, by_function = profile.tables(samples, "what")
    assert by_file.rows == [
        ("aiokproto/writer.py", "60.0 %"),
        ("aiokproto/producer.py", "20.0 %"),
        ("crc32c/__init__.py", "20.0 %"),
    ]
    assert by_function.rows[:2] == [
        ("append", "aiokproto/writer.py", "60.0 %", "60.0 %"),
        ("post", "aiokproto/producer.py", "20.0 %", "80.0 %"),
    ]
    assert profile.tables(Counter(), "nothing")[0].rows == []

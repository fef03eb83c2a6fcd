"""A real driver of Spark that is killed at every step of a load, and of a load that is run again."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from aiokproto.spark import runs
from tests.spark.loads.driver import STEPS, Driver
from tests.spark.loads.output import Output, expected, numbered

pytestmark = [pytest.mark.spark, pytest.mark.thorough, pytest.mark.timeout(1800)]


def check(output: Output, rows: int) -> None:
    """Committed rows are in the output once, and the next load has the rest."""
    found = output.rows()
    assert len(found) == len(set(found))
    assert set(found) <= set(expected(rows, 5))
    output.load()
    assert output.rows() == expected(rows, 5)
    assert output.load().run_id is None


def killed_at_each_step(output: Output, driver: Driver, rows: int, more: int) -> int:
    """Kill it at each call of the storage, each time with more records; return the number of calls."""
    step = 0
    for at in [*STEPS, *range(1000)]:
        output.kafka.produce(output.topic, 0, numbered(more, rows))
        rows += more
        status, said = replace(driver, at=at).run()
        assert status in (0, -signal.SIGKILL), said
        check(output, rows)
        if status == 0:
            return step
        step += isinstance(at, int)
    raise AssertionError("it never ends")


def test_a_load(output: Output) -> None:
    output.load()
    driver = Driver(str(output.path), output.topic, output.kafka.bootstrap_servers)
    assert killed_at_each_step(output, driver, 10, 3) > 4


def test_a_load_that_is_run_again(output: Output) -> None:
    first = output.load()
    driver = Driver(str(output.path), output.topic, output.kafka.bootstrap_servers, first.run_id)
    assert killed_at_each_step(output, driver, 10, 3) > 4
    assert next(manifest.run_id for manifest in runs(output.path)) == first.run_id

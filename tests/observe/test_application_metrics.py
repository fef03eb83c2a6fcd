"""Metrics of the application: valid ones, and their form in a push (KIP-1076)."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from typing import Any

import pytest

from aiokproto.errors import ConfigurationError
from aiokproto.metrics import ApplicationMetrics, Metric, parse_application_metrics
from aiokproto.observe.metrics import MetricSource
from aiokproto.observe.observers import ClusterObserver

GOOD = Metric("com.example.open", 3, attributes={"shop": "web"})
WRONG: Any = {"shop": 1}
NONE: Any = None


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (("com.example.open", 3), "expected an aiokproto.metrics.Metric"),
        (GOOD._replace(name=""), "the name is no text"),
        (GOOD._replace(value=True), "no number"),
        (GOOD._replace(value=math.nan), "not finite"),
        (GOOD._replace(value=2**63), "more than 64 bits"),
        (GOOD._replace(value=-1, is_sum=True), "a sum is never negative"),
        (GOOD._replace(attributes=WRONG), "attributes are texts"),
        (GOOD._replace(attributes=NONE), "attributes are texts"),
    ],
)
def test_a_metric_that_cannot_be_sent_is_logged_and_left_out(
    wrong: Any, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        assert ApplicationMetrics(lambda: [wrong, GOOD])() == [GOOD]
    assert why in caplog.text


def test_an_exception_is_logged_and_what_came_before_it_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    def metrics() -> Iterator[Metric]:
        yield GOOD
        raise ZeroDivisionError("division of orders")

    collect = ApplicationMetrics(metrics)
    assert [collect() for _ in range(3)] == [[GOOD]] * 3
    assert caplog.text.count("application_metrics failed") == 1
    assert "division of orders" in caplog.text


def test_the_option_is_a_function() -> None:
    with pytest.raises(ConfigurationError, match="application_metrics=3: expected a function"):
        parse_application_metrics("application_metrics", 3)
    assert parse_application_metrics("application_metrics", None)() == []


@pytest.mark.parametrize(("delta", "expected"), [(True, [5, 2, 2, 0, 4]), (False, [5, 7, 7, 1, 5])])
def test_sums_are_totals_or_increases_since_the_last_push_that_was_accepted(delta: bool, expected: list[int]) -> None:
    source = MetricSource("producer", ClusterObserver())

    def collected(total: int) -> float:
        metrics = source.collect(1.0, delta=delta, application=[Metric("app.total", total, is_sum=True), GOOD])
        assert GOOD in metrics
        (found,) = (metric for metric in metrics if metric.name == "app.total")
        return found.value

    found = [collected(5)]
    source.pushed()
    found.append(collected(7))
    # The last push was refused.
    found.append(collected(7))
    source.pushed()
    # The object that counts was replaced.
    found.append(collected(1))
    source.pushed()
    found.append(collected(5))
    assert found == expected

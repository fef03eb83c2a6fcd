"""The comparison of clusters leaves out what two runs of a command line tool may print differently."""

from __future__ import annotations

import pytest

from tests.broker.kafka_tools import mask


@pytest.mark.parametrize("figure", ["12.5", "12.0", "0.05", "12.499999999999998", "1.0E-4", "39.1630434782609"])
@pytest.mark.parametrize("text", ['{"acked":30,"avg_throughput":%s}', "[%s]", "latency %s, ok", "latency: %s"])
def test_a_measurement_however_many_digits_it_has(text: str, figure: str) -> None:
    assert mask(text % figure, "127.0.0.1:9092") == text % "<n>"


@pytest.mark.parametrize("text", ["metadata.version 3.0-IV1", "SupportedMaxVersion: 4.0-IV3", "3.7.1"])
def test_a_version_is_compared(text: str) -> None:
    assert mask(text, "127.0.0.1:9092") == text

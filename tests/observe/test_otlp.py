"""The encoding of metrics, byte by byte, and as OpenTelemetry's own parser reads it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.metrics import Metric
from aiokproto.observe.otlp import encode_metrics


def encode(metrics: list[Metric], resource: dict[str, str], delta: bool = True) -> bytes:
    return encode_metrics(metrics, resource=resource, scope="aiokproto", version="1", since=5, now=9, delta=delta)


def test_a_sum_has_these_bytes() -> None:
    data = encode([Metric("n", 3, is_sum=True)], {})
    point = "0a1b" + "11" + "05" + "00" * 7 + "19" + "09" + "00" * 7 + "31" + "03" + "00" * 7
    metric = "0a016e" + "3a21" + point + "1001" + "1801"
    scope = "0a0e" + "0a09" + b"aiokproto".hex() + "120131"
    scope_metrics = scope + "1226" + metric
    assert data.hex() == "0a3c" + "0a00" + "1238" + scope_metrics


TEXT = st.text(max_size=40)
VALUES = st.one_of(st.integers(0, 2**62), st.floats(allow_nan=False))
METRICS = st.lists(st.builds(Metric, TEXT, VALUES, st.booleans(), st.dictionaries(TEXT, TEXT, max_size=3)), max_size=5)


@given(METRICS, st.dictionaries(TEXT, TEXT, max_size=3), st.booleans())
def test_opentelemetry_reads_what_was_written(metrics: list[Metric], resource: dict[str, str], delta: bool) -> None:
    proto: Any = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2")
    read = proto.MetricsData.FromString(encode(metrics, resource, delta))
    (whole,) = read.resource_metrics
    assert {each.key: each.value.string_value for each in whole.resource.attributes} == resource
    (scope,) = whole.scope_metrics
    assert (scope.scope.name, scope.scope.version) == ("aiokproto", "1")
    for given_metric, found in zip(metrics, scope.metrics, strict=True):
        assert found.name == given_metric.name
        assert found.WhichOneof("data") == ("sum" if given_metric.is_sum else "gauge")
        data = found.sum if given_metric.is_sum else found.gauge
        (point,) = data.data_points
        assert (point.start_time_unix_nano, point.time_unix_nano) == (5, 9)
        value = getattr(point, point.WhichOneof("value"))
        assert value == given_metric.value or math.isclose(value, given_metric.value)
        assert {each.key: each.value.string_value for each in point.attributes} == dict(given_metric.attributes)
        if given_metric.is_sum:
            assert data.is_monotonic
            assert data.aggregation_temporality == (1 if delta else 2)
    # The parser knows all fields.
    assert len(proto.MetricsData.FromString(read.SerializeToString()).resource_metrics) == 1

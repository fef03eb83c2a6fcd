"""The protobuf encoding of OpenTelemetry metrics for PushTelemetry (KIP-714). Pure.

It supports only part of the message ``MetricsData`` (opentelemetry/proto/metrics/v1): gauges and monotonic sums with
one data point each. Field numbers and wire types come from the OpenTelemetry definitions. Integers are varints, except
times and values, which are 64 bits long.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from aiokproto.metrics import Metric

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_DELTA, _CUMULATIVE = 1, 2


def encode_metrics(
    metrics: Iterable[Metric],
    *,
    resource: Mapping[str, str],
    scope: str,
    version: str,
    since: int,
    now: int,
    delta: bool,
) -> bytes:
    """Return an encoded ``MetricsData``.

    Args:
        metrics: The metrics. With ``delta``, a sum's value is the increase since the last push.
        resource: The client's attributes.
        scope: The library's name.
        version: The library's version.
        since: The start of the period that the sums cover, in ns since the epoch.
        now: The time of the values, in ns since the epoch.
        delta: Whether the sums are increases since the last push, instead of totals.
    """
    times = _fixed(2, since) + _fixed(3, now)
    scope_metrics = _message(1, _text(1, scope) + _text(2, version))
    scope_metrics += b"".join(_message(2, _metric(metric, times, delta)) for metric in metrics)
    return _message(1, _message(1, _attributes(1, resource)) + _message(2, scope_metrics))


def _metric(metric: Metric, times: bytes, delta: bool) -> bytes:
    # A NumberDataPoint consists of as_double (4) or as_int (6, sfixed64), and the attributes.
    integer = isinstance(metric.value, int)
    value = _tag(6, _FIXED64) + struct.pack("<q", metric.value) if integer else _double(4, metric.value)
    point = _message(1, times + value + _attributes(7, metric.attributes))
    if not metric.is_sum:
        return _text(1, metric.name) + _message(5, point)
    temporality = _tag(2, _VARINT) + _varint(_DELTA if delta else _CUMULATIVE)
    return _text(1, metric.name) + _message(7, point + temporality + _tag(3, _VARINT) + _varint(1))


def _attributes(field: int, attributes: Mapping[str, str]) -> bytes:
    # A KeyValue consists of key (1) and value (2), which is an AnyValue with string_value (1).
    return b"".join(_message(field, _text(1, key) + _message(2, _text(1, value))) for key, value in attributes.items())


def _message(field: int, content: bytes) -> bytes:
    return _tag(field, _BYTES) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())


def _fixed(field: int, number: int) -> bytes:
    return _tag(field, _FIXED64) + struct.pack("<Q", number)


def _double(field: int, number: float) -> bytes:
    return _tag(field, _FIXED64) + struct.pack("<d", number)


def _tag(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)

"""``auto_offset_reset``: its values, and where they lead."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.consumer.offset_reset import MAX_DAYS, ResetPolicy
from aiokproto.consumer.start_lookup import EARLIEST, LATEST, NEAREST, ResetReason
from aiokproto.errors import ConfigurationError

NOW = 1_800_000_000_000
HOUR = 3_600_000


@pytest.mark.parametrize(
    ("value", "start"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        ("nearest", EARLIEST),
        ("by_duration:PT0S", NOW),
        ("by_duration:PT1H", NOW - HOUR),
        ("by_duration:PT90M", NOW - 90 * 60_000),
        ("by_duration:P7D", NOW - 7 * 24 * HOUR),
        ("by_duration:P1DT12H30M15.250S", NOW - 36 * HOUR - 30 * 60_000 - 15_250),
        ("by_duration:pt1.5s", NOW - 1500),
        ("by_duration:PT0,001S", NOW - 1),
        (f"by_duration:P{MAX_DAYS}D", 0),
    ],
)
def test_where_a_policy_leads(value: str, start: int) -> None:
    policy = ResetPolicy.parse(value)
    assert not policy.raises
    assert policy.start(NOW) == start


@pytest.mark.parametrize(
    ("reason", "start"),
    [
        (ResetReason.OUT_OF_RANGE, NEAREST),
        (ResetReason.TOPIC_RECREATED, EARLIEST),
        (ResetReason.TRUNCATED, EARLIEST),
    ],
)
def test_nearest_is_to_the_former_position_in_the_same_log_only(reason: ResetReason, start: int) -> None:
    assert ResetPolicy.parse("nearest").start(NOW, reason) == start
    assert ResetPolicy.parse("latest").start(NOW, reason) == LATEST


def test_none_raises() -> None:
    assert ResetPolicy.parse("none").raises


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("soonest", "must be 'earliest', 'latest', 'nearest', 'none' or 'by_duration:PT1H'"),
        (None, "must be 'earliest'"),
        (3, "must be 'earliest'"),
        ("by_duration", "must be 'earliest'"),
        ("by_duration:", "not an ISO 8601 duration"),
        ("by_duration:P", "not an ISO 8601 duration"),
        ("by_duration:PT", "not an ISO 8601 duration"),
        ("by_duration:P1DT", "not an ISO 8601 duration"),
        ("by_duration:1H", "not an ISO 8601 duration"),
        ("by_duration:P1M", "months and years have no fixed length"),
        ("by_duration:P1Y", "months and years have no fixed length"),
        ("by_duration:PT1H ", "not an ISO 8601 duration"),
        ("by_duration:PT٣H", "not an ISO 8601 duration"),
        ("by_duration:-PT1H", "must not be negative"),
        ("by_duration:PT-1H", "must not be negative"),
        (f"by_duration:P{MAX_DAYS}DT1S", f"the longest duration is P{MAX_DAYS}D"),
    ],
)
def test_a_value_that_is_no_policy_is_refused(value: object, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        ResetPolicy.parse(value)


@given(st.integers(0, 1000), st.integers(0, 100), st.integers(0, 100), st.integers(0, 100), st.integers(0, 999))
def test_a_duration_is_the_sum_of_its_parts(days: int, hours: int, minutes: int, seconds: int, ms: int) -> None:
    policy = ResetPolicy.parse(f"by_duration:P{days}DT{hours}H{minutes}M{seconds}.{ms:03}S")
    length = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=ms)
    assert policy.start(NOW) == NOW - length // timedelta(milliseconds=1)

"""Resets of positions that aren't in the log: where the consumer continues (``auto_offset_reset``), and what it
reports. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import NamedTuple, cast

from aiokproto.consumer.start_lookup import EARLIEST, LATEST, NEAREST, ResetReason
from aiokproto.errors import ConfigurationError
from aiokproto.types import TopicPartition

_BY_DURATION = "by_duration:"

MAX_DAYS = 36_500
"""The maximum duration of ``by_duration``."""

_DURATION = re.compile(
    r"P(?:(?P<days>\d{1,9})D)?(?:T(?=\d)(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?"
    r"(?:(?P<seconds>\d{1,12})(?:[.,](?P<fraction>\d{1,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)


class ResetPolicy(NamedTuple):
    """Where to start if there's no committed offset, and where to continue if the position isn't in the log.

    Attributes:
        name: The option's value.
        start_at: ``EARLIEST`` or ``LATEST``; None if another rule applies.
        before_ms: Start this many milliseconds before the time of the reset (KIP-1106); None if another rule applies.
        nearest: Whether a position outside the log moves to the nearer end of the log instead of ``start_at``.
    """

    name: str
    start_at: int | None = None
    before_ms: int | None = None
    nearest: bool = False

    @property
    def raises(self) -> bool:
        """Whether the consumer raises instead (``"none"``)."""
        return self.start_at is None and self.before_ms is None

    def start(self, now_ms: int, reason: ResetReason | None = None) -> int:
        """Return the position to look up: ``EARLIEST``, ``LATEST``, ``NEAREST``, or a timestamp (ms since the epoch).

        ``reason`` says why the position isn't in the log. It's None at the start.
        """
        # Other reasons mean a different log, for example after a topic was created again. The former offset is
        # meaningless there.
        if self.nearest and reason is ResetReason.OUT_OF_RANGE:
            return NEAREST
        if self.start_at is not None:
            return self.start_at
        assert self.before_ms is not None, "the policy raises"
        # No records are older than the epoch.
        return max(now_ms - self.before_ms, 0)

    @classmethod
    def parse(cls, value: object) -> ResetPolicy:
        """Return the policy for a value of ``auto_offset_reset``.

        Raises:
            ConfigurationError: The value is invalid.
        """
        if value == "earliest":
            return cls("earliest", EARLIEST)
        if value == "latest":
            return cls("latest", LATEST)
        if value == "nearest":
            return cls("nearest", EARLIEST, nearest=True)
        if value == "none":
            return cls("none")
        if isinstance(value, str) and value.startswith(_BY_DURATION):
            return cls(value, before_ms=_milliseconds(value))
        raise ConfigurationError(
            f"auto_offset_reset={value!r}: must be 'earliest', 'latest', 'nearest', 'none' or "
            "'by_duration:PT1H' (an ISO 8601 duration)"
        )


def _milliseconds(value: str) -> int:
    text = value.removeprefix(_BY_DURATION)
    if text[:1] == "-" or "-" in text:
        raise ConfigurationError(f"auto_offset_reset={value!r}: the duration must not be negative")
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise ConfigurationError(
            f"auto_offset_reset={value!r}: {text!r} is not an ISO 8601 duration of days, hours, minutes and seconds, "
            "as PT30M, P7D or P1DT12H are; months and years have no fixed length"
        )
    days, hours, minutes, seconds = (int(match[name] or 0) for name in ("days", "hours", "minutes", "seconds"))
    fraction = int((match["fraction"] or "").ljust(9, "0")[:3])
    total = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + fraction
    if total > MAX_DAYS * 86_400_000:
        raise ConfigurationError(f"auto_offset_reset={value!r}: the longest duration is P{MAX_DAYS}D")
    return total


class OffsetReset(NamedTuple):
    """A position that the consumer has moved on its own.

    Between ``position`` and ``offset`` records were skipped, or will be delivered again. With
    :attr:`ResetReason.TRUNCATED` (KIP-320), some delivered records before ``position`` are no longer in the log. The
    log may contain other records at their offsets; these are delivered, starting at ``offset``.

    Attributes:
        partition: The partition.
        reason: Why it was moved.
        position: The position before.
        offset: Where the consumer continues.
        leader_epoch: The leader epoch of the record before ``position``; -1 if unknown.
    """

    partition: TopicPartition
    reason: ResetReason
    position: int
    offset: int
    leader_epoch: int = -1

    def __str__(self) -> str:
        return f"{self.partition} at offset {self.position}: {self.reason.value}; continuing at offset {self.offset}"


ResetListener = Callable[[OffsetReset], None]
"""A function that is called with each reset. It runs in the event loop and must not block."""


def to_listener(value: object) -> ResetListener | None:
    """Return the function that the user has passed as ``on_offset_reset``.

    Raises:
        ConfigurationError: The value isn't a function.
    """
    if value is None:
        return None
    if not callable(value) or iscoroutinefunction(value):
        raise ConfigurationError(f"on_offset_reset={value!r}: must be a function (not a coroutine function), or None")
    return cast("ResetListener", value)

"""The options of a stream: those of a batch, without an end, and with limits for its batches. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiokproto.errors import ConfigurationError
from aiokproto.spark.offsets import EARLIEST, LATEST, Bound, parse_offsets
from aiokproto.spark.options import ReadOptions, parse_options, read_options, timestamps

_ENDING = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_END = Bound("the end of the log", LATEST)


@dataclass(frozen=True)
class StreamOptions:
    """The options of a stream, parsed.

    Attributes:
        read: What a batch read has, too; ``starting`` is for the first batch, ``ending`` is the end of the log.
        max_offsets: The most offsets of a batch (``maxOffsetsPerTrigger``); None for all there are.
        min_offsets: The fewest offsets of a batch (``minOffsetsPerTrigger``); None for any.
        max_delay: How long a batch waits for so many (``maxTriggerDelay``, 15 minutes), in seconds.
    """

    read: ReadOptions
    max_offsets: int | None
    min_offsets: int | None
    max_delay: float


def parse_stream_options(options: Mapping[str, str]) -> StreamOptions:
    """Parse and validate the options of a stream.

    Raises:
        ConfigurationError: An option is unknown, refused, missing or contradicts another, or has an invalid value.
    """
    given = parse_options(options)
    if ending := next((name for name in _ENDING if name in given), None):
        raise ConfigurationError(f"{ending} is for a batch: a stream has no end")
    least, most = given.get("minOffsetsPerTrigger"), given.get("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise ConfigurationError(f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}")
    return StreamOptions(
        read=read_options(given, _starting(given), _END),
        max_offsets=most,
        min_offsets=least,
        max_delay=given.get("maxTriggerDelay", 900.0),
    )


def _starting(given: Mapping[str, Any]) -> Bound:
    if found := timestamps(given, "startingTimestamp", "startingOffsetsByTimestamp"):
        return found
    name = "startingOffsets"
    text = given.get(name, "latest")
    words = {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() in words:
        return Bound(name, words[text.lower()])
    return Bound(name, each=parse_offsets(name, text, allowed=(EARLIEST, LATEST), words=tuple(words)))

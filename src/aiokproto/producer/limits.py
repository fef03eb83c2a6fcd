"""The limits of a producer's buffer."""

from __future__ import annotations

from typing import NamedTuple

BATCH_OVERHEAD = 61
"""Bytes of a record batch's header (magic 2)."""


class BufferLimits(NamedTuple):
    """What bounds the accumulator. Other sizes are in bytes before compression, times in seconds.

    Attributes:
        batch_size: Largest batch, after compression. A larger record gets a batch to itself.
        buffer_memory: Most bytes in all batches together.
        max_request_size: Largest record, and largest sum of batches in a request.
        linger: How long a batch waits for more records.
        delivery_timeout: Longest time from a batch's first record to its acknowledgement.
        in_flight: Most batches of a partition in flight.
    """

    batch_size: int
    buffer_memory: int
    max_request_size: int
    linger: float
    delivery_timeout: float
    in_flight: int

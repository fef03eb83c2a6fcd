"""What is known of a partition's log without asking the broker. Pure."""

from __future__ import annotations

from typing import NamedTuple


class LogState(NamedTuple):
    """A partition's position, and its log as of the last fetch. What is unknown is None.

    Attributes:
        position: The offset of the next record to be delivered.
        log_start_offset: The first offset of the log.
        last_stable_offset: The end of what ``read_committed`` can read: the first offset of an open transaction, or the
            high watermark.
        high_watermark: The end of what can be read: the offset after the last replicated record.
        lag: The number of offsets between the position and the end that this consumer can read.
        leader_epoch: The leader epoch in which the log was fetched.
    """

    position: int | None
    log_start_offset: int | None
    last_stable_offset: int | None
    high_watermark: int | None
    lag: int | None
    leader_epoch: int | None

    @property
    def at_end(self) -> bool:
        """Whether everything that this consumer could read at the last fetch was delivered. False while unknown."""
        return self.lag == 0

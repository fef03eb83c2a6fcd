"""Why a position was reset. Pure."""

from __future__ import annotations

from enum import Enum


class ResetReason(Enum):
    """Why the consumer has moved a position by itself."""

    OUT_OF_RANGE = "the offset is outside the log"
    TOPIC_RECREATED = "the topic was deleted and created again"
    TRUNCATED = "the log was truncated"

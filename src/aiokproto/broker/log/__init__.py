"""The log of a partition: segments on disk in Kafka's own format, and what is known of them in memory. No asyncio."""

from __future__ import annotations

from aiokproto.broker.log.config import LogAppendInfo, LogCheckpoint, LogConfig, Span
from aiokproto.broker.log.log import Log

__all__ = ["Log", "LogAppendInfo", "LogCheckpoint", "LogConfig", "Span"]

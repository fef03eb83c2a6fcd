"""The log of a partition: segments on disk in Kafka's own format, and what is known of them in memory. No asyncio."""

from __future__ import annotations

from aiokproto.broker.log.log import Appended, Log, LogConfig, Span

__all__ = ["Appended", "Log", "LogConfig", "Span"]

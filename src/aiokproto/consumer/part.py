"""What the parts of a consumer's public API share.

:class:`~aiokproto.consumer.consumer.Consumer` is made of them: each is one subject (subscribing, positions, commits,
the log), states what it needs in its own module, and works on the same engine.
"""

from __future__ import annotations

from collections.abc import Iterable

from aiokproto.application.gates import Use
from aiokproto.config.values import seconds
from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.engine import Engine
from aiokproto.errors import ConfigurationError
from aiokproto.group.arguments import to_partition
from aiokproto.types import TopicPartition


class ConsumerPart:
    """The engine, and how arguments are read."""

    _engine: Engine

    @property
    def _assignment(self) -> Assignment:
        return self._engine.assignment

    def _admit(self, use: Use) -> None:
        self._engine.admit(use)

    def _chosen(self, partitions: Iterable[tuple[str, int]]) -> list[TopicPartition]:
        return [to_partition(partition) for partition in partitions] or list(self._assignment.cursors)

    def _assigned(self, partitions: Iterable[tuple[str, int]]) -> list[TopicPartition]:
        """As :meth:`_chosen`, for calls that would silently do nothing if no partition is assigned."""
        chosen = self._chosen(partitions)
        if not chosen:
            raise ConfigurationError("no partition is assigned yet: call it in on_assigned, or after the first record")
        return chosen

    def _seconds(self, timeout_ms: float | None) -> float:
        return self._engine.cluster.config.api_timeout if timeout_ms is None else seconds("timeout_ms", timeout_ms)

    def _group(self) -> None:
        """Raise without a group."""
        if self._engine.member is None:
            raise ConfigurationError("offsets are committed to a group: pass group_id")

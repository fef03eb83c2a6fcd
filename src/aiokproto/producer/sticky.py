"""Chooses partitions for records without a key by load (KIP-794) and rack (KIP-1123), like Java's BuiltInPartitioner.

The *sticky* partition gets every record without a key until its batch is full, so batches fill quickly (KIP-480). The
next sticky partition is drawn at random. Three things change the odds:

* **Load.** A partition whose batches wait, because its broker is slower than the others, is drawn less often. Its
  weight is the topic's longest backlog plus one, minus its own backlog. Without this, a slow broker would end up with
  the producer's whole memory.
* **Availability.** A broker that hasn't been able to take another request for a given time is left out.
* **Rack.** Partitions whose leader is in the client's rack are preferred. This saves traffic between racks, but the
  load is uneven if producers aren't spread over the racks like leaders are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from aiokproto.producer.queue import PartitionQueue, TopicQueues

if TYPE_CHECKING:
    from aiokproto.runtime import Runtime


class StickyPartitioner:
    """Draws the next sticky partition of a topic.

    Attributes:
        local_nodes: Ids of the brokers in the client's rack, or None to ignore racks.
    """

    def __init__(
        self, runtime: Callable[[], Runtime], *, adaptive: bool = True, availability_timeout: float = 0.0
    ) -> None:
        """Create a partitioner.

        Args:
            runtime: Returns the source of randomness.
            adaptive: Whether to take backlogs into account.
            availability_timeout: Seconds without capacity after which a broker's partitions are left out, or 0 to
                disable this.
        """
        self.local_nodes: frozenset[int] | None = None
        self._runtime = runtime
        self._adaptive = adaptive
        self._availability_timeout = availability_timeout
        self._without_capacity_since: dict[int, float] = {}

    def capacity_checked(self, node: int, now: float, *, has_capacity: bool) -> None:
        """Note whether a broker had capacity when there was a request for it."""
        if has_capacity:
            self._without_capacity_since.pop(node, None)
        else:
            self._without_capacity_since.setdefault(node, now)

    def forget(self, node: int) -> None:
        """Forget a broker that has left the cluster."""
        self._without_capacity_since.pop(node, None)

    def choose(self, topic: TopicQueues, before: int | None, waiting: Iterable[PartitionQueue], now: float) -> int:
        """Draw the next sticky partition: not the current one, if there's a choice.

        Args:
            topic: The topic's queues.
            before: The current sticky partition, or None.
            waiting: Queues, of all topics, with batches that are waiting to be sent.
            now: The time (s).
        """
        # If no partition has a leader, all are candidates, and their batches wait for a leader.
        candidates = self._preferred(topic, now) if topic.available else range(len(topic.queues))
        # Draw the current partition only if there's no other: the point is to switch.
        others = [partition for partition in candidates if partition != before] or list(candidates)
        backlog = self._backlog(topic, waiting) if self._adaptive else {}
        if not backlog:
            return self._runtime().random.choice(others)
        longest = max(backlog.values()) + 1
        return self._runtime().random.choices(others, [longest - backlog.get(partition, 0) for partition in others])[0]

    def _preferred(self, topic: TopicQueues, now: float) -> Collection[int]:
        candidates: Collection[int] = topic.available
        late = {
            node
            for node, since in self._without_capacity_since.items()
            if self._availability_timeout and now - since > self._availability_timeout
        }
        if late:
            candidates = [number for number in candidates if topic.queues[number].leader not in late] or candidates
        if self.local_nodes is not None:
            local = self.local_nodes
            candidates = [number for number in candidates if topic.queues[number].leader in local] or candidates
        return candidates

    @staticmethod
    def _backlog(topic: TopicQueues, waiting: Iterable[PartitionQueue]) -> dict[int, int]:
        return {
            queue.topic_partition.partition: len(queue.closed)
            for queue in waiting
            if queue.closed and queue.topic_partition.topic == topic.name
        }

"""Unclean leader elections: a replica that lacks the last records becomes leader."""

from __future__ import annotations

from tests.clusters import BehaviourCluster, EmbeddedCluster, RealCluster


class UncleanElection:
    """Lets a partition with two replicas lose the records that are written after :meth:`isolate`."""

    def __init__(self, cluster: BehaviourCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._leader = self._follower = -1
        self._kept = -1

    async def isolate(self) -> None:
        """Stop the follower, so that only the leader has the records that are written from now on."""
        if isinstance(self._cluster, EmbeddedCluster):
            self._kept = self._cluster.end_offset(self._topic, 0)
        else:
            assert isinstance(self._cluster, RealCluster)
            self._leader, self._follower = await self._cluster.replicas(self._topic, 0)
            await self._cluster.stop_broker(self._follower)

    async def elect(self) -> None:
        """Make the follower the leader; the former leader is stopped."""
        if isinstance(self._cluster, EmbeddedCluster):
            self._cluster.diverge_log(self._topic, 0, self._kept)
            await self._cluster.move_leader(self._topic, 0)
        else:
            assert isinstance(self._cluster, RealCluster)
            await self._cluster.elect_unclean(self._topic, 0, self._leader, self._follower)

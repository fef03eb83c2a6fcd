"""A cluster whose brokers are restarted as brokers of another release, one after the other, over the same data."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.kafka.cluster import KafkaCluster, KafkaError
from tests.kafka.releases import NEWEST, missing, old_logging
from tools.setup.project import kafka_jars, release_jars


class RollingKafka(KafkaCluster):
    """Brokers of a release without ZooKeeper, which are also controllers.

    Attributes:
        releases: The release of each broker, which a stopped broker keeps.
    """

    def __init__(
        self, release: str, brokers: int = 3, *, config: Mapping[str, str] | None = None, heap: str = "320m"
    ) -> None:
        super().__init__(brokers, config=config, heap=heap)
        self.releases = dict.fromkeys(self.broker_ids, release)

    def start(self) -> None:
        for release in {*self.releases.values(), NEWEST}:
            if reason := missing(release):
                raise KafkaError(reason)
        super().start()

    def restart_as(self, node_id: int, release: str) -> None:
        """Shut a broker down cleanly, and start it again as another release."""
        self.stop_broker(node_id)
        self.releases[node_id] = release
        self.start_broker(node_id)

    def _jars(self, node_id: int) -> Path:
        release = self.releases[node_id]
        return kafka_jars() if release == NEWEST else release_jars(release)

    def _java(self, node_id: int, *arguments: str) -> subprocess.Popen[bytes]:
        # The options of Log4j 2 don't disturb them.
        old = () if self.releases[node_id] == NEWEST else old_logging(self._node_folder(node_id))
        return super()._java(node_id, *old, *arguments)

"""``python -m tests.other_brokers.librdkafka_mock BROKERS``: librdkafka's mock cluster, until input ends.

The library is the one inside the package ``confluent_kafka``. The first line written has the addresses. Then each line
read is a command, which a line answers, ``ok`` or why not:

* ``create TOPIC PARTITIONS REPLICAS``: a topic;
* ``move TOPIC PARTITION NODE``: the node leads the partition from now on;
* ``coordinate group|transaction KEY NODE``: the node is the coordinator from now on;
* ``down NODE``, ``up NODE``: its connections break and it accepts none, or does so again;
* ``limit KEY LOWEST HIGHEST``: it serves these versions of an API, and none with -1 -1.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PRODUCER = 0

BROKEN = {11: 5, 13: 1, 14: 3}
"""By ApiKey, the highest version that it serves as the protocol has it. It lists higher ones of JoinGroup, LeaveGroup
and SyncGroup, but closes the connection on their requests, which are flexible, or responds with a null where none may
be. librdkafka's own client does not send them."""


def find_librdkafka() -> Path | None:
    """The library inside ``confluent_kafka``; None if the package, or one with the library beside it, is missing."""
    import importlib.util

    spec = importlib.util.find_spec("confluent_kafka")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent.parent / "confluent_kafka.libs"
    return next(iter(sorted(folder.glob("librdkafka-*.so*"))), None)


class MockCluster:
    """librdkafka's mock cluster in this process."""

    def __init__(self, path: Path, brokers: int) -> None:
        self._library = ctypes.CDLL(str(path))
        for name in ("conf_new", "new", "mock_cluster_new", "mock_cluster_bootstraps"):
            self._function(name).restype = ctypes.c_void_p
        error = ctypes.create_string_buffer(512)
        conf = ctypes.c_void_p(self._function("conf_new")())
        handle = self._function("new")(PRODUCER, conf, error, ctypes.c_size_t(512))
        if not handle:
            raise RuntimeError(error.value.decode())
        self._handle = ctypes.c_void_p(handle)
        self._cluster = ctypes.c_void_p(self._function("mock_cluster_new")(self._handle, brokers))
        # Members that join in the first three seconds would otherwise wait for them.
        self._function("mock_group_initial_rebalance_delay_ms")(self._cluster, 50)
        self._function("mock_set_group_consumer_heartbeat_interval_ms")(self._cluster, 100)
        for key, highest in BROKEN.items():
            self.limit(str(key), "0", str(highest))

    @property
    def bootstrap_servers(self) -> str:
        found = self._function("mock_cluster_bootstraps")(self._cluster)
        return ctypes.cast(found, ctypes.c_char_p).value.decode()  # type: ignore[union-attr]

    def close(self) -> None:
        self._function("mock_cluster_destroy")(self._cluster)
        self._function("destroy")(self._handle)

    def create(self, topic: str, partitions: str, replicas: str) -> int:
        return int(self._call("mock_topic_create", topic.encode(), int(partitions), int(replicas)))

    def move(self, topic: str, partition: str, node: str) -> int:
        return int(self._call("mock_partition_set_leader", topic.encode(), int(partition), int(node)))

    def coordinate(self, kind: str, key: str, node: str) -> int:
        return int(self._call("mock_coordinator_set", kind.encode(), key.encode(), int(node)))

    def down(self, node: str) -> int:
        return int(self._call("mock_broker_set_down", int(node)))

    def up(self, node: str) -> int:
        return int(self._call("mock_broker_set_up", int(node)))

    def limit(self, key: str, lowest: str, highest: str) -> int:
        return int(self._call("mock_set_apiversion", *(ctypes.c_int16(int(each)) for each in (key, lowest, highest))))

    def _call(self, name: str, *arguments: Any) -> Any:
        return self._function(name)(self._cluster, *arguments)

    def _function(self, name: str) -> Any:
        return getattr(self._library, f"rd_kafka_{name}")


def _answer(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    path = find_librdkafka()
    if path is None:
        raise SystemExit("confluent_kafka has no librdkafka beside it")
    cluster = MockCluster(path, int(sys.argv[1]))
    commands: dict[str, Callable[..., int]] = {
        each.__name__: each
        for each in (cluster.create, cluster.move, cluster.coordinate, cluster.down, cluster.up, cluster.limit)
    }
    _answer(cluster.bootstrap_servers)
    for line in sys.stdin:
        name, *arguments = line.split()
        code = commands[name](*arguments)
        _answer("ok" if code == 0 else f"{name} failed with {code}")
    cluster.close()


if __name__ == "__main__":
    main()

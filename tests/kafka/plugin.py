"""A pytest plugin: the clusters of real Kafka that all tests of a run share, in one process or in several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from tests.kafka.cluster import KafkaCluster
from tests.kafka.pool import KafkaPool, LocalPool, PoolServer, RemotePool
from tests.kafka.releases import RELEASES, cluster_of

POOL = pytest.StashKey[KafkaPool]()
OWNED = pytest.StashKey[tuple[LocalPool, PoolServer]]()


def _secured() -> KafkaCluster:
    # This import needs the codec, which must not be loaded before the run has chosen its form.
    from tests.behaviour.secured import SecuredKafka

    return SecuredKafka()


def _tls() -> KafkaCluster:
    from tests.behaviour.tls import TlsKafka

    return TlsKafka()


def _kerberos() -> KafkaCluster:
    from tests.kerberos.cluster import KerberosKafka

    return KerberosKafka()


TWO_PHASE = {"unstable.api.versions.enable": "true", "transaction.two.phase.commit.enable": "true"}
"""The options that two-phase commit needs (KIP-939)."""

CLUSTERS: Mapping[str, Callable[[], KafkaCluster]] = {
    "kafka1": lambda: KafkaCluster(1),
    "kafka1-alone": lambda: KafkaCluster(1),
    "kafka3": lambda: KafkaCluster(3),
    "secured": _secured,
    "tls": _tls,
    "kerberos": _kerberos,
    "two-phase": lambda: KafkaCluster(1, config=TWO_PHASE),
    **{release: partial(cluster_of, release) for release in RELEASES},
}


def pytest_configure(config: pytest.Config) -> None:
    workerinput = getattr(config, "workerinput", None)
    if workerinput is not None:
        config.stash[POOL] = RemotePool(*workerinput["kafka_pool"])
        return
    pool = LocalPool(CLUSTERS)
    config.stash[POOL] = pool
    config.stash[OWNED] = (pool, PoolServer(pool))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    _, server = node.config.stash[OWNED]
    node.workerinput["kafka_pool"] = server.address


def pytest_unconfigure(config: pytest.Config) -> None:
    if OWNED in config.stash:
        pool, server = config.stash[OWNED]
        server.close()
        pool.stop()


@pytest.fixture(scope="session")
def kafka_pool(pytestconfig: pytest.Config) -> KafkaPool:
    return pytestconfig.stash[POOL]

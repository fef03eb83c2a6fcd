"""Which certificate authorities are trusted over TLS."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiokproto.broker import Broker, Security
from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig
from aiokproto.errors import AuthenticationError
from aiokproto.spark.options import parse_read_options
from aiokproto.spark.planning import plan
from tests.broker.secure import Certificates


async def test_a_pem_file_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    certificates = Certificates(tmp_path)
    async with Broker(security=Security("SSL"), config=certificates.options()) as broker:
        await broker.create_topic(topic)
        options = parse_read_options(
            {
                "kafka.bootstrap.servers": broker.bootstrap_servers,
                "kafka.security.protocol": "SSL",
                "kafka.bootstrap.resolve.timeout.ms": "0",
                "subscribe": topic,
            }
        )
        with pytest.raises(AuthenticationError, match="was rejected"):
            await ClusterClient(ClusterConfig.parse(options.connection)).start()
        monkeypatch.setenv("SSL_CERT_FILE", certificates.authority)
        async with ClusterClient(ClusterConfig.parse(options.connection)) as cluster:
            assert [one.topic for one in (await plan(cluster, options)).ranges] == [topic]

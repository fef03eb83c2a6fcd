"""Third-party clients authenticate with the broker, by each mechanism, with and without TLS."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from aiokproto.broker import Broker, Security
from tests.broker.secure import Certificates, unsecured
from tests.timeouts import LONG_TIMEOUT

USERS = {"alice": "alice-secret"}
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
PROTOCOLS = ["SASL_PLAINTEXT", "SASL_SSL", "SSL"]
CASES = [
    pytest.param(protocol, mechanism, id=f"{protocol}-{mechanism}" if mechanism else protocol)
    for protocol in PROTOCOLS
    for mechanism in (MECHANISMS if protocol.startswith("SASL") else [""])
]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def secured(protocol: Any, certificates: Certificates) -> Broker:
    if protocol == "SSL":
        return Broker(security=Security(protocol), config=certificates.options(**{"ssl.client.auth": "required"}))
    config = certificates.options() if protocol == "SASL_SSL" else {}
    security = Security(protocol, users=USERS, unsecured_tokens=True)
    return Broker(security=security, config={**config, "sasl.enabled.mechanisms": ",".join(MECHANISMS)})


def web_token(user: str) -> str:
    return unsecured(user).split(b" ")[1].rstrip(b"\x01").decode()


@pytest.mark.parametrize(("protocol", "mechanism"), CASES)
async def test_aiokafka(protocol: str, mechanism: str, certificates: Certificates) -> None:
    aiokafka: Any = pytest.importorskip("aiokafka")
    abc: Any = pytest.importorskip("aiokafka.abc")

    class Tokens(abc.AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return web_token("alice")

    async with secured(protocol, certificates) as broker:
        await broker.create_topic("t")
        options: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers, "security_protocol": protocol}
        if protocol != "SASL_PLAINTEXT":
            options["ssl_context"] = certificates.context(with_client=protocol == "SSL")
        if mechanism == "OAUTHBEARER":
            options |= {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": Tokens()}
        elif mechanism:
            options |= {
                "sasl_mechanism": mechanism,
                "sasl_plain_username": "alice",
                "sasl_plain_password": USERS["alice"],
            }
        async with aiokafka.AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait("t", b"value")
        async with aiokafka.AIOKafkaConsumer("t", auto_offset_reset="earliest", **options) as consumer:
            assert (await asyncio.wait_for(consumer.getone(), LONG_TIMEOUT)).value == b"value"


@pytest.mark.parametrize(("protocol", "mechanism"), CASES)
async def test_confluent_kafka(protocol: str, mechanism: str, certificates: Certificates) -> None:
    confluent: Any = pytest.importorskip("confluent_kafka")

    def run(servers: str) -> None:
        options: dict[str, Any] = {
            "bootstrap.servers": servers,
            "security.protocol": protocol,
            "ssl.ca.location": certificates.authority,
        }
        if protocol == "SSL":
            options |= {"ssl.certificate.location": certificates.client, "ssl.key.location": certificates.client}
        if mechanism == "OAUTHBEARER":
            options |= {
                "sasl.mechanisms": mechanism,
                "oauth_cb": lambda _: (web_token("alice"), time.time() + 3600),
            }
        elif mechanism:
            options |= {
                "sasl.mechanisms": mechanism,
                "sasl.username": "alice",
                "sasl.password": USERS["alice"],
            }
        producer = confluent.Producer(options)
        producer.produce("t", b"value")
        assert producer.flush(LONG_TIMEOUT) == 0
        consumer = confluent.Consumer({**options, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        assert [message.value() for message in consumer.consume(1, LONG_TIMEOUT)] == [b"value"]
        consumer.close()

    async with secured(protocol, certificates) as broker:
        await broker.create_topic("t")
        await asyncio.to_thread(run, broker.bootstrap_servers)


@pytest.mark.parametrize(("protocol", "mechanism"), [case for case in CASES if "OAUTHBEARER" not in str(case.id)])
async def test_kafka_python(protocol: str, mechanism: str, certificates: Certificates) -> None:
    kafka: Any = pytest.importorskip("kafka")

    def run(servers: str) -> None:
        options: dict[str, Any] = {"bootstrap_servers": servers, "security_protocol": protocol}
        if protocol != "SASL_PLAINTEXT":
            options["ssl_context"] = certificates.context(with_client=protocol == "SSL")
        if mechanism:
            options |= {
                "sasl_mechanism": mechanism,
                "sasl_plain_username": "alice",
                "sasl_plain_password": USERS["alice"],
            }
        producer = kafka.KafkaProducer(**options)
        producer.send("t", b"value").get(LONG_TIMEOUT)
        producer.close(LONG_TIMEOUT)
        consumer = kafka.KafkaConsumer(
            "t", auto_offset_reset="earliest", consumer_timeout_ms=LONG_TIMEOUT * 1000, **options
        )
        assert next(consumer).value == b"value"
        consumer.close()

    async with secured(protocol, certificates) as broker:
        await broker.create_topic("t")
        await asyncio.to_thread(run, broker.bootstrap_servers)


async def test_a_wrong_password_is_reported(certificates: Certificates) -> None:
    aiokafka: Any = pytest.importorskip("aiokafka")
    errors: Any = pytest.importorskip("aiokafka.errors")
    async with secured("SASL_SSL", certificates) as broker:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers,
            security_protocol="SASL_SSL",
            ssl_context=certificates.context(),
            sasl_mechanism="SCRAM-SHA-256",
            sasl_plain_username="alice",
            sasl_plain_password="wrong",
        )
        try:
            with pytest.raises((errors.SaslAuthenticationFailed, errors.KafkaConnectionError)):
                await producer.start()
        finally:
            await producer.stop()

"""Every option is known to have a secret, or to have none; and a secret in any of them is shown nowhere."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import logging
import pickle
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from aiokproto import Client, Consumer, Producer, ShareConsumer
from aiokproto.broker import Broker, Security
from aiokproto.broker.config.options import BROKER, GROUP, PASSWORD, TOPIC
from aiokproto.client import Client as AdminClient
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.config import ClusterConfig, ConnectionOptions
from aiokproto.errors import ConfigurationError, KafkaError
from aiokproto.prometheus import KafkaCollector
from aiokproto.security import AwsCredentials
from aiokproto.spark.credentials import SENSITIVE, Hidden, client_options, function_name
from aiokproto.spark.options import READING, parse_options
from aiokproto.spark.permissions import EVERYTHING
from aiokproto.spark.sink.options import WRITING
from tests.observe.test_otel import sdk
from tests.patience import PATIENCE

CANARY = "zq-canary-zq"
SUSPECT = re.compile(
    r"passw|passphrase|secret|key|token|credential|jaas|hmac|auth|user|private|certificate|proxy.url|keytab"
)

# ---- which options have secrets

CLIENT_NONE: Mapping[str, str] = {
    "sasl_oauthbearer_extensions": "names of Kafka's option, not the token; checked with the mechanisms",
    **dict.fromkeys(
        (
            "sasl_oauthbearer_jwt_retriever_class",
            "sasl_oauthbearer_scope",
            "sasl_oauthbearer_header_urlencode",
            "sasl_oauthbearer_assertion_algorithm",
            *(f"sasl_oauthbearer_assertion_claim_{name}" for name in ("aud", "iss", "sub")),
            *(f"sasl_oauthbearer_assertion_claim_{name}_seconds" for name in ("exp", "nbf")),
            "sasl_oauthbearer_assertion_claim_jti_include",
            "sasl_oauth_allow_http",
            "ssl_keystore_type",
        ),
        "how something is done",
    ),
    **dict.fromkeys(
        (
            *(f"sasl_oauthbearer_assertion{name}_file" for name in ("", "_private_key", "_template")),
            "sasl_kerberos_keytab",
            "ssl_keyfile",
            "ssl_keystore_location",
        ),
        "the path of a file",
    ),
    "sasl_oauth_ssl_context": "an object",
}
"""Options of clients with such names that have no secret, and why."""

CLIENT_SECRETS: Mapping[str, str] = {
    name: str(getattr(kind, "__forward_arg__", kind)).removesuffix(" | None")
    for name, kind in ConnectionOptions.__annotations__.items()
    if SUSPECT.search(name) and name not in CLIENT_NONE
}

BROKER_NONE = {
    "authorizer.class.name",
    "connections.max.reauth.ms",
    "super.users",
    "ssl.client.auth",
    "ssl.keystore.location",
    "ssl.keystore.type",
    *(name for name in BROKER if name.startswith(("sasl.oauthbearer.", "delegation.token.")) and "secret" not in name),
}


def test_options_of_clients_are_classified() -> None:
    kinds = {"SecretSource", "TokenSource", "AwsCredentialsSource"}
    others = {"sasl_jaas_config", "sasl_oauthbearer_token_endpoint_url", "proxy_url"}
    assert {name for name, kind in CLIENT_SECRETS.items() if kind not in kinds} == others
    assert CLIENT_NONE.keys() <= ConnectionOptions.__annotations__.keys()
    own = {name for one in (Client, Producer, Consumer, ShareConsumer) for name in inspect.signature(one).parameters}
    own -= {"connection"}
    assert {name for name in own if SUSPECT.search(name)} == {
        "key_serializer",
        "key_deserializer",
        "partitioner_ignore_keys",
    }


def test_options_of_brokers_are_classified() -> None:
    options = {**BROKER, **TOPIC, **GROUP}
    suspect = {name for name in options if SUSPECT.search(name)}
    assert {name for name in suspect if options[name].code != PASSWORD} == BROKER_NONE
    shown = {field.name for field in dataclasses.fields(Security) if field.repr}
    # An object, a function, and what says how something is done; a new argument is one of these or has repr=False.
    assert shown == {
        "protocol",
        "ssl_context",
        "ssl_crlfile",
        "ssl_crl_check_chain",
        "token_validator",
        "unsecured_tokens",
        "sasl_oauth_allow_http",
    }


def test_options_of_spark_are_classified() -> None:
    """They are those of the client, and few of their own."""
    options = {**READING.honoured, **WRITING.honoured}
    own = {
        *(name for name in options if name.startswith("key.")),
        "schema.registry.ssl.keyfile",
        "kafka.partitioner.ignore.keys",
    }
    none = own | {f"kafka.{name.replace('_', '.')}" for name in CLIENT_NONE}
    suspect = {name for name in options if SUSPECT.search(name.lower())} - none
    assert {name for name in suspect if options[name].parse not in (Hidden, function_name)} == set()
    assert {name for name in SENSITIVE if SUSPECT.search(name) is None} == set()
    assert "schema.registry.url" in {name for name, option in options.items() if option.parse is Hidden}


# ---- where they are shown


class Shown:
    """All texts, and a check that none has the secret."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def show(self, *objects: object) -> None:
        self.texts += [f"{each!r} {each}" for each in objects]

    def error(self, error: BaseException | None) -> None:
        while error is not None:
            self.show(error, error.args, vars(error), *getattr(error, "__notes__", ()))
            error = error.__cause__ or error.__context__

    def check(self, least: int = 1) -> None:
        assert len(self.texts) >= least
        assert [text for text in self.texts if CANARY in text] == []


def canary(name: str) -> Any:
    """A value of an option that has the secret, and is as it should be."""
    if CLIENT_SECRETS[name] == "AwsCredentialsSource":
        return AwsCredentials("id", CANARY, CANARY)
    return {
        "sasl_jaas_config": f'a.PlainLoginModule required username="a" password="{CANARY}";',
        "sasl_oauthbearer_token_endpoint_url": f"https://issuer.example/token?key={CANARY}",
        "proxy_url": f"socks5://alice:{CANARY}@127.0.0.1:9",
    }.get(name, CANARY)


CLIENTS: list[Callable[..., Any]] = [Client, Producer, Consumer, partial(ShareConsumer, group_id="g")]


@pytest.mark.parametrize("name", sorted(CLIENT_SECRETS))
def test_an_option_of_a_client_is_shown_neither_by_it_nor_by_errors(name: str) -> None:
    """With each mechanism and protocol: where it belongs, and where it does not."""
    shown = Shown()
    mechanisms = (None, "PLAIN", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI")
    beside: list[dict[str, Any]] = [
        {},
        {"sasl_username": "a", "sasl_password": "b"},
        {"ssl_keystore_location": "a", "ssl_truststore_location": "b"},
        {"ssl_certfile": "a", "ssl_keystore_key": "b"},
        {"no_such_option": 1},
    ]
    # As it should be, and as nothing can be.
    for value in (canary(name), [CANARY], CANARY.encode(), f"\udcff{canary(name)}"):
        for mechanism in mechanisms:
            for protocol in ("PLAINTEXT", "SASL_SSL"):
                for more in beside:
                    options = {"sasl_mechanism": mechanism, "security_protocol": protocol, **more, name: value}
                    try:
                        parsed = ClusterConfig.parse({"bootstrap_servers": "a:1", **options})
                        shown.show(parsed, parsed.sasl, parsed.tls, parsed.proxy)
                    except KafkaError as error:
                        shown.error(error)
    for client in CLIENTS:
        try:
            shown.show(client(bootstrap_servers="a:1", **{name: canary(name)}))
        except ConfigurationError as error:
            shown.error(error)
    shown.check(100)


HIDDEN = {name for table in (READING, WRITING) for name, option in table.honoured.items() if option.parse is Hidden}


@pytest.mark.parametrize("option", sorted(HIDDEN))
def test_an_option_of_spark_is_shown_neither_by_its_parsers_nor_by_errors(
    option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in EVERYTHING.items():
        monkeypatch.setenv(name, value)
    shown = Shown()
    for value in (CANARY, f"https://a:{CANARY}@host/{CANARY}", f"${{env:absent}}{CANARY}", f"${{vault:{CANARY}}}"):
        given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", option: value}
        try:
            parsed = parse_options(given)
            shown.show(parsed)
            connection = {name: each for name, each in parsed.items() if isinstance(each, Hidden)}
            shown.show(connection, client_options(connection))
        except ConfigurationError as error:
            shown.error(error)
    shown.check()


PASSWORDS = sorted(name for name, option in BROKER.items() if option.code == PASSWORD)


@pytest.mark.parametrize("option", PASSWORDS)
def test_an_option_of_a_broker_is_shown_neither_by_it_nor_by_errors(option: str) -> None:
    shown = Shown()
    for protocol in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT"):
        for more in ({}, {"ssl.keystore.location": "absent.p12"}, {"no.such.option": "1"}):
            security = Security(protocol, users={"alice": CANARY} if "SASL" in protocol else {})
            shown.show(security)
            try:
                shown.show(Broker(security=security, config={option: CANARY, **more}))
            except ConfigurationError as error:
                shown.error(error)
    shown.check(9)


async def test_passwords_of_brokers_are_not_described() -> None:
    shown = Shown()
    secret = {"delegation.token.secret.key": CANARY}
    security = Security("SASL_PLAINTEXT", users={"alice": "a"})
    login: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    login |= {"sasl_username": "alice", "sasl_password": "a"}
    async with Broker(security=security, config=secret) as broker:
        async with AdminClient(bootstrap_servers=broker.bootstrap_servers, **login) as client:
            resource = DescribeConfigsResource(resource_type=4, resource_name=str(broker.broker_ids[0]))
            found = await client.request(DescribeConfigsRequest(resources=[resource], include_synonyms=True))
        shown.show(broker, found, *pickled(found.results[0].configs))
    shown.check(10)


def pickled(configs: Iterable[Any]) -> list[object]:
    return [vars(each) if hasattr(each, "__dict__") else pickle.dumps(str(each)) for each in configs]


async def test_a_working_client_shows_no_secret_in_logs_spans_metrics_and_statistics(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asyncio.get_running_loop().set_debug(True)
    shown, otel = Shown(), sdk()
    login: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "alice",
        "sasl_password": CANARY,
    }
    security = Security("SASL_PLAINTEXT", users={"alice": CANARY})
    with caplog.at_level(logging.DEBUG):
        async with Broker(security=security) as broker:
            await broker.create_topic("flights")
            login["bootstrap_servers"] = broker.bootstrap_servers
            tracing = otel.tracing(client_id="me", group_id="g")
            async with (
                Producer(**login, interceptors=tracing) as producer,
                Consumer("flights", **login, auto_offset_reset="earliest", interceptors=tracing) as consumer,
            ):
                await producer.send("flights", b"UA 901")
                await asyncio.wait_for(anext(consumer), PATIENCE)
                registry = CollectorRegistry()
                registry.register(KafkaCollector(producer, consumer))
                shown.show(generate_latest(registry))
                for client in (producer, consumer):
                    shown.show(client, vars(client) if hasattr(client, "__dict__") else "", client.stats())
                    shown.show(client.health())
                shown.show(broker, *asyncio.all_tasks())
            wrong = {**login, "sasl_password": f"{CANARY}x", "bootstrap_resolve_timeout_ms": 0}
            with pytest.raises(KafkaError) as raised:
                await Client(**wrong).start()
            shown.error(raised.value)
    shown.show(*(span.to_json() for span in otel.exporter.get_finished_spans()), otel.reader.get_metrics_data())
    shown.show(*(record.getMessage() for record in caplog.records), *(record.args for record in caplog.records))
    assert len(otel.exporter.get_finished_spans()) >= 2
    shown.check(20)

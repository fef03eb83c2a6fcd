"""Names of other Kafka clients: the error says what to use instead."""

from __future__ import annotations

import copy
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pytest

from aiokproto import Client, Cluster, Consumer, Producer, ShareConsumer
from aiokproto.application.hints import METHODS, OPTIONS, OWNERS, Hints
from aiokproto.broker import ThreadedCluster
from aiokproto.config import ConnectionOptions
from aiokproto.errors import ConfigurationError
from aiokproto.share.config import HINTS as SHARE_HINTS
from tests.docs.mistakes import SERVERS, consumer, producer
from tests.docs.snippets import ROOT

# Methods

OTHER_CLIENTS = {
    "aiokafka:AIOKafka{}": "aiokafka",
    "kafka:Kafka{}": "kafka-python",
    "confluent_kafka:{}": "confluent-kafka",
    "confluent_kafka.aio:AIO{}": "confluent-kafka",
}
"""Where their classes are, and the page about migrating from them."""

# These aren't for applications, or concern what this library lacks: SASL, and the ids that brokers log.
OTHERS = {
    "DEFAULT_CONFIG",
    "DEFAULT_SESSION_TIMEOUT_MS_PRE_KIP_735",
    "DEPRECATED_CONFIGS",
    "bootstrap",
    "cluster_id",
    "last_poll_timestamp",
    "max_usable_produce_magic",
    "memberid",
    "set_sasl_credentials",
}

# Type checkers refuse these calls, too.
PRODUCER: Any = producer()
CONSUMER: Any = consumer()


CLIENTS: dict[str, Callable[[], Any]] = {
    "Producer": producer,
    "Consumer": consumer,
    "ShareConsumer": lambda: ShareConsumer("jobs", group_id="workers", bootstrap_servers=SERVERS),
    "Client": lambda: Client(bootstrap_servers=SERVERS),
}


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


@pytest.mark.parametrize("theirs", OTHER_CLIENTS)
@pytest.mark.parametrize(("ours", "hints"), [(Producer, METHODS["Producer"]), (Consumer, METHODS["Consumer"])])
def test_every_method_of_other_clients_is_here_or_has_a_hint_and_a_row(
    theirs: str, ours: type, hints: dict[str, str]
) -> None:
    module, _, name = theirs.format(ours.__name__).partition(":")
    methods = public(getattr(pytest.importorskip(module), name)) - public(ours) - OTHERS
    assert methods - hints.keys() == set()
    page = (ROOT / "docs" / "migrating" / f"{OTHER_CLIENTS[theirs]}.md").read_text()
    calls = page[page.index("## Calls") : page.index("## Options")]
    assert {method for method in methods if method not in calls} == set()


@pytest.mark.parametrize("kind", CLIENTS)
def test_methods_of_other_clients_name_ours(kind: str) -> None:
    made = CLIENTS[kind]()
    for name in METHODS[kind]:
        assert not hasattr(made, name)
        with pytest.raises(AttributeError) as raised:
            getattr(made, name)
        text = str(raised.value)
        assert text.startswith(f"'{kind}' object has no attribute '{name}': ")
        for called in re.findall(r"\b(?:producer|consumer|client)\.(\w+)\(", text):
            assert hasattr(Client if "aiokproto.Client" in text else made, called)
    for listed in (dir(made), dir(type(made))):
        assert METHODS[kind].keys().isdisjoint(listed)
        assert {"__init__", "close"} <= set(listed)


def test_an_application_can_derive_from_a_client_and_an_abstract_class() -> None:
    class Wanted(ABC):
        @abstractmethod
        def create_topics(self) -> None: ...

    class Mine(Client, Wanted):
        def create_topics(self) -> None: ...

    assert "create_topics" in dir(Mine)
    assert "create_topics" in dir(Mine(bootstrap_servers=SERVERS))


def test_a_misspelt_method_still_gets_the_suggestion_of_python() -> None:
    with pytest.raises(AttributeError) as raised:
        producer().sned  # type: ignore[attr-defined]  # noqa: B018
    assert (raised.value.name, str(raised.value)) == ("sned", "'Producer' object has no attribute 'sned'")
    assert isinstance(raised.value.obj, Producer)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: PRODUCER.flush(timeout=5), r"Producer\.flush\(\) has no argument 'timeout': pass timeout_ms"),
        (lambda: PRODUCER.close(timeout=5), r"Producer\.close\(\) .*timeout_ms, in milliseconds"),
        (lambda: CONSUMER.commit(message=object()), r"commit\(record\)"),
        (lambda: CONSUMER.commit(asynchronous=False), "leave it out: `await` the call"),
        (lambda: CONSUMER.subscribe(topics=["a"]), r'subscribe\("a", "b"\)'),
        (lambda: CONSUMER.subscribe("a", listener=object()), "on_assigned, on_revoked and on_lost"),
        (lambda: CONSUMER.subscribe("a", on_assign=print), "pass on_assigned"),
        (lambda: PRODUCER.flush(tiemout=5), r"Producer\.flush\(\) got an unexpected keyword argument 'tiemout'"),
        (lambda: CONSUMER.poll(timeout=1.0), r"Consumer\.poll\(\) got an unexpected keyword argument 'timeout'"),
    ],
)
async def test_an_argument_of_another_client_names_ours(
    call: Callable[[], Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for client in (PRODUCER, CONSUMER):
        monkeypatch.setattr(client, "_admit", lambda use: None)
    with pytest.raises(TypeError, match=text):
        await call()


def test_a_method_of_a_cluster_is_called_in_its_thread() -> None:
    kafka: Any = ThreadedCluster(Cluster(brokers=3))
    assert "stop_broker" not in dir(kafka)
    with pytest.raises(
        AttributeError, match=r"no attribute 'stop_broker': use call\(kafka\.cluster\.stop_broker, \.\.\.\)"
    ):
        kafka.stop_broker(0)


def test_attributes_that_no_client_knows_have_no_hint() -> None:
    class Sample(Hints):
        pass

    assert not hasattr(Sample(), "stop")
    assert copy.copy(Sample()) is not None


def test_a_method_that_the_class_has_by_itself_is_left_alone() -> None:
    class Base(Hints):
        def inherited(self) -> str:
            return "inherited"

    class Sample(Base, hints=dict.fromkeys(["inherited", "own", "other"], "use something else")):
        def own(self) -> str:
            return "own"

    sample: Any = Sample()
    assert (sample.inherited(), sample.own()) == ("inherited", "own")
    with pytest.raises(AttributeError, match="'other': use something else"):
        _ = sample.other


# Options

OWN = {*ConnectionOptions.__annotations__} | {
    parameter.name
    for client in (Producer, Consumer)
    for parameter in inspect.signature(client).parameters.values()
    if parameter.kind is parameter.KEYWORD_ONLY
}


@pytest.mark.parametrize("client", [Producer, Consumer, Client], ids=lambda client: client.__name__)
def test_options_of_other_clients_say_what_to_use_instead(client: Any) -> None:
    assert OPTIONS.keys().isdisjoint(OWN)
    for name, hint in OPTIONS.items():
        with pytest.raises(ConfigurationError) as raised:
            client(bootstrap_servers="localhost", **{name: "x"})
        assert str(raised.value) == f"unknown option {name!r}: {hint}"


@pytest.mark.parametrize("name", ["sasl.plain.username", "SSL.CA.Location", "max-poll-records"])
def test_other_spellings_are_recognized(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"unknown option .*: "):
        Consumer(bootstrap_servers="localhost", **{name: "x"})  # type: ignore[arg-type]


def test_a_misspelt_option_points_to_the_nearest_one() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'linger_ms'"):
        Producer(bootstrap_servers="localhost", lingr_ms=5)  # type: ignore[call-arg]


def test_an_unrecognizable_option_lists_the_valid_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"valid options: acks, .*linger_ms"):
        Producer(bootstrap_servers="localhost", zzz=5)  # type: ignore[call-arg]


def test_all_unknown_options_are_named_at_once() -> None:
    """As of a configuration for librdkafka."""
    pasted: dict[str, Any] = {"bootstrap.servers": "a:1", "sasl.mechanisms": "PLAIN", "client.id": "a", "zzz": 5}
    with pytest.raises(ConfigurationError) as raised:
        Producer(**pasted)
    assert str(raised.value).startswith(
        "unknown options: 'bootstrap.servers'; did you mean 'bootstrap_servers'?; 'sasl.mechanisms': use"
        " sasl_mechanism, with one name; 'client.id'; did you mean 'client_id'?; 'zzz'; valid options: acks, "
    )


def test_credentials_without_their_protocol_are_advised_to_use_tls() -> None:
    with pytest.raises(ConfigurationError, match=r"set it to 'SASL_SSL', or without TLS to 'SASL_PLAINTEXT'$"):
        Client(bootstrap_servers="localhost", sasl_mechanism="PLAIN", sasl_username="a", sasl_password="b")


def options(client: type) -> set[str]:
    parameters = inspect.signature(client).parameters.values()
    return {each.name for each in parameters if each.kind is each.KEYWORD_ONLY} - {*ConnectionOptions.__annotations__}


@pytest.mark.parametrize("client", [Producer, Consumer, ShareConsumer, Client], ids=lambda client: client.__name__)
def test_an_option_of_other_clients_names_them(client: Any) -> None:
    assert options(client) - OPTIONS.keys() == {name for name, has in OWNERS.items() if client.__name__ in has.split()}
    share = client.__name__ == "ShareConsumer"
    required = {"group_id": "g"} if share else {}
    hinted = SHARE_HINTS if share else {}
    for name in OWNERS.keys() - options(client) - hinted.keys():
        for spelled in (name, name.replace("_", ".")):
            with pytest.raises(ConfigurationError) as raised:
                client(bootstrap_servers="localhost", **required, **{spelled: "x"})
            assert str(raised.value) == f"unknown option {spelled!r}: {OWNERS[name]} has it"

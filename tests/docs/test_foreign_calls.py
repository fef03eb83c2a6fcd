"""Calls of other Kafka clients raise errors that name ours."""

from __future__ import annotations

import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from aiokproto import Client, Cluster, Consumer, Producer, ShareConsumer
from aiokproto.application.foreign_calls import (
    CLIENT_METHODS,
    CONSUMER_METHODS,
    PRODUCER_METHODS,
    SHARE_CONSUMER_METHODS,
    ForeignCalls,
)
from aiokproto.broker import ThreadedCluster
from tests.docs.mistakes import SERVERS, consumer, producer
from tests.docs.snippets import ROOT

OTHER_CLIENTS = {
    "aiokafka:AIOKafka{}": "aiokafka",
    "kafka:Kafka{}": "kafka-python",
    "confluent_kafka:{}": "confluent-kafka",
    "confluent_kafka.aio:AIO{}": "confluent-kafka",
}
"""Where their classes are, and the page about migrating from them."""

# Not for applications, or about what there is none of here: SASL, and the ids that brokers log.
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

# Type checkers refuse these calls too.
PRODUCER: Any = producer()
CONSUMER: Any = consumer()


def share_consumer() -> ShareConsumer:
    return ShareConsumer("jobs", group_id="workers", bootstrap_servers=SERVERS)


def client() -> Client:
    return Client(bootstrap_servers=SERVERS)


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


@pytest.mark.parametrize("theirs", OTHER_CLIENTS)
@pytest.mark.parametrize(("ours", "hints"), [(Producer, PRODUCER_METHODS), (Consumer, CONSUMER_METHODS)])
def test_every_method_of_other_clients_is_here_or_has_a_hint_and_a_row(
    theirs: str, ours: type, hints: dict[str, str]
) -> None:
    module, _, name = theirs.format(ours.__name__).partition(":")
    methods = public(getattr(pytest.importorskip(module), name)) - public(ours) - OTHERS
    assert methods - hints.keys() == set()
    page = (ROOT / "docs" / "migrating" / f"{OTHER_CLIENTS[theirs]}.md").read_text()
    calls = page[page.index("## Calls") : page.index("## Options")]
    assert {method for method in methods if method not in calls} == set()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        *((producer, name) for name in PRODUCER_METHODS),
        *((consumer, name) for name in CONSUMER_METHODS),
        *((share_consumer, name) for name in SHARE_CONSUMER_METHODS),
        *((client, name) for name in CLIENT_METHODS),
    ],
)
def test_a_method_of_another_client_names_ours(make: Callable[[], Any], name: str) -> None:
    made = make()
    assert not hasattr(made, name)
    with pytest.raises(AttributeError) as raised:
        getattr(made, name)
    text = str(raised.value)
    assert text.startswith(f"'{type(made).__name__}' object has no attribute '{name}': ")
    for called in re.findall(r"\b(?:producer|consumer|client)\.(\w+)\(", text):
        assert hasattr(Client if "aiokproto.Client" in text else made, called)


@pytest.mark.parametrize("cls", [Client, Producer, Consumer, ShareConsumer, ThreadedCluster])
def test_dir_lists_what_exists(cls: type[ForeignCalls]) -> None:
    assert cls.foreign_methods
    assert [name for name in dir(cls) if name in cls.foreign_methods and not hasattr(cls, name)] == []
    assert {"__init__", "close"} <= set(dir(cls))


@pytest.mark.parametrize("make", [client, producer, consumer, share_consumer])
def test_dir_of_a_client_lists_what_exists(make: Callable[[], Any]) -> None:
    made = make()
    assert [name for name in dir(made) if name in made.foreign_methods and not hasattr(made, name)] == []
    assert {"__init__", "close"} <= set(dir(made))


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
        (lambda: CONSUMER.close(timeout=5), r"Consumer\.close\(\) .*timeout_ms, in milliseconds"),
        (lambda: CONSUMER.close(autocommit=False), "enable_auto_commit decides"),
        (lambda: CONSUMER.poll(timeout=1.0), r"Consumer\.poll\(\) has no argument 'timeout': pass timeout_ms"),
        (lambda: CONSUMER.poll(max_poll_records=1), "pass max_records"),
        (lambda: CONSUMER.poll(num_messages=1), "pass max_records"),
        (lambda: CONSUMER.commit(message=object()), r"commit\(record\)"),
        (lambda: CONSUMER.commit(asynchronous=False), "leave it out: `await` the call"),
        (lambda: CONSUMER.subscribe(topics=["a"]), r'subscribe\("a", "b"\)'),
        (lambda: CONSUMER.subscribe("a", listener=object()), "on_assigned, on_revoked and on_lost"),
        (lambda: CONSUMER.subscribe("a", on_assign=print), "pass on_assigned"),
    ],
)
def test_an_argument_of_another_client_names_ours(call: Callable[[], object], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call()


def test_a_method_of_a_cluster_is_called_in_its_thread() -> None:
    kafka: Any = ThreadedCluster(Cluster(brokers=3))
    with pytest.raises(
        AttributeError, match=r"no attribute 'stop_broker': use call\(kafka\.cluster\.stop_broker, \.\.\.\)"
    ):
        kafka.stop_broker(0)


def test_other_unknown_arguments_are_reported_by_python() -> None:
    with pytest.raises(TypeError, match=r"flush\(\) got an unexpected keyword argument 'tiemout'"):
        producer().flush(tiemout=5)  # type: ignore[call-arg,unused-coroutine]


def test_attributes_that_no_client_knows_have_no_hint() -> None:
    class Sample(ForeignCalls):
        pass

    assert not hasattr(Sample(), "stop")
    assert importlib.import_module("copy").copy(Sample()) is not None


def test_a_method_that_the_class_has_by_itself_is_left_alone() -> None:
    class Base(ForeignCalls):
        def inherited(self) -> str:
            return "inherited"

    class Sample(Base):
        foreign_methods: ClassVar = dict.fromkeys(["inherited", "own", "other"], "use something else")

        def own(self) -> str:
            return "own"

    sample: Any = Sample()
    assert (sample.inherited(), sample.own()) == ("inherited", "own")
    with pytest.raises(AttributeError, match="'other': use something else"):
        _ = sample.other

"""Mistakes that newcomers make, and what their errors say."""

from __future__ import annotations

import datetime
import ssl
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from aiokproto import Broker, Client, Cluster, Consumer, Producer, ShareConsumer, TopicPartition
from aiokproto.broker.control.faults import Faults
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.consumer import DeadLetterTopic
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    ClientClosedError,
    ConfigurationError,
    InvalidRecordError,
    InvalidTopicError,
    MessageTooLargeError,
    UnknownTopicError,
)
from aiokproto.hooks import Hooks

SERVERS = "localhost:9092"
NAIVE = datetime.datetime(2026, 1, 1)


class MistypedHooks(Hooks):
    def on_batch_writen(self, event: object) -> None: ...


class Mistake(NamedTuple):
    """A wrong call.

    Attributes:
        what: The mistake.
        call: The call.
        error: The class of its error.
        texts: Parts of the error's text, in order: what was wrong and where, then the remedy.
    """

    what: str
    call: Callable[..., Any]
    error: type[Exception]
    texts: tuple[str, ...]


def made(what: str, call: Callable[..., Any], error: type[Exception], *texts: str) -> Any:
    return pytest.param(Mistake(what, call, error, texts), id=what)


def producer(**options: Any) -> Producer:
    return Producer(bootstrap_servers=SERVERS, **options)


def consumer(*topics: Any, **options: Any) -> Consumer:
    return Consumer(*topics, bootstrap_servers=SERVERS, **options)


def assigned() -> Consumer:
    made = consumer()
    made.assign(("flights", 0))
    return made


def faults() -> Faults:
    return Broker().faults


OPTIONS = [
    made("no address", lambda: Producer(), ConfigurationError, "bootstrap_servers", "host:port"),  # type: ignore[call-arg]
    made(
        "a dictionary of options",
        lambda: Consumer({"bootstrap.servers": SERVERS}),  # type: ignore[call-arg,arg-type]
        ConfigurationError,
        "dict",
        "pass options as keyword arguments",
    ),
    made(
        "a dictionary of a producer's options",
        lambda: Producer({"bootstrap.servers": SERVERS}),  # type: ignore[call-arg,arg-type]
        ConfigurationError,
        "Producer(dict)",
        "as keyword arguments: Producer(bootstrap_servers=...)",
    ),
    made(
        "the address of a client by position",
        lambda: Client(SERVERS),  # type: ignore[call-arg,arg-type,unused-ignore]
        ConfigurationError,
        "Client(str)",
        "Client(bootstrap_servers=...)",
    ),
    made(
        "a timeout of transactions without them",
        lambda: producer(transaction_timeout_ms=5),
        ConfigurationError,
        "transaction_timeout_ms=5",
        "needs a transactional_id",
    ),
    made(
        "a number that is too large",
        lambda: producer(transactional_id="a", transaction_timeout_ms=2**40),
        ConfigurationError,
        "at most 2147483647",
    ),
    made(
        "dead letters in transactions",
        lambda: DeadLetterTopic("dead", producer(transactional_id="a")),
        ConfigurationError,
        "transactional_id",
        "pass another",
    ),
    made(
        "a mistyped hook",
        lambda: producer(hooks=MistypedHooks()),
        ConfigurationError,
        "MistypedHooks.on_batch_writen",
        "did you mean 'on_batch_written'?",
    ),
    made(
        "deserializers of a share consumer",
        lambda: ShareConsumer("jobs", group_id="g", bootstrap_servers=SERVERS, value_deserializer=str),  # type: ignore[call-arg]
        ConfigurationError,
        "'value_deserializer'",
        "decode record.key and record.value",
    ),
    made(
        "librdkafka's list of brokers",
        lambda: Producer(**{"metadata.broker.list": SERVERS}),  # type: ignore[arg-type]
        ConfigurationError,
        "'metadata.broker.list'",
        "use bootstrap_servers",
    ),
    made(
        "options with dots",
        lambda: producer(**{"linger.ms": 5}),
        ConfigurationError,
        "'linger.ms'",
        "did you mean 'linger_ms'?",
    ),
    made(
        "options in camel case",
        lambda: consumer(groupId="report"),
        ConfigurationError,
        "'groupId'",
        "did you mean 'group_id'?",
    ),
    made(
        "a near miss",
        lambda: producer(linger=5),
        ConfigurationError,
        "unknown option 'linger'",
        "did you mean 'linger_ms'?",
    ),
    made(
        "a URL as the address",
        lambda: Producer(bootstrap_servers="kafka://me:secret@localhost"),
        ConfigurationError,
        "bootstrap_servers",
        "…@localhost",
        "'host:port'",
    ),
    made(
        "a pair as the address",
        lambda: Producer(bootstrap_servers=("localhost", 9092)),  # type: ignore[arg-type]
        ConfigurationError,
        "bootstrap_servers=('localhost', 9092)",
        "'host:port'",
    ),
    made(
        "addresses separated by semicolons",
        lambda: Producer(bootstrap_servers="a:9092;b:9092"),
        ConfigurationError,
        "'a:9092;b:9092'",
        "separate addresses by commas",
    ),
    made(
        "a port that is no number",
        lambda: Producer(bootstrap_servers="localhost:kafka"),
        ConfigurationError,
        "bootstrap_servers",
        "port 'kafka'",
        "1 to 65535",
    ),
    made(
        "SASL",
        lambda: producer(security_protocol="SASL_SSL"),
        ConfigurationError,
        "sasl_mechanism is missing",
        "'PLAIN' or 'SCRAM-SHA-256'",
    ),
    made(
        "a context without its protocol",
        lambda: producer(ssl_context=ssl.create_default_context()),
        ConfigurationError,
        "ssl_context",
        "security_protocol",
        "'SSL'",
    ),
    made(
        "a path as the context",
        lambda: producer(security_protocol="SSL", ssl_context="ca.pem"),
        ConfigurationError,
        "ssl_context='ca.pem'",
        "ssl.SSLContext",
    ),
    made(
        "librdkafka's TLS options",
        lambda: producer(**{"ssl.ca.location": "ca.pem"}),
        ConfigurationError,
        "'ssl.ca.location'",
        "use ssl_cafile",
    ),
    made(
        "a serializer that is no function",
        lambda: producer(value_serializer="json"),
        ConfigurationError,
        "value_serializer='json'",
        "a function that returns bytes",
    ),
    made("aiokafka's loop", lambda: producer(loop=None), ConfigurationError, "'loop'", "leave it out"),
    made(
        "confluent-kafka's callback",
        lambda: producer(on_delivery=print),
        ConfigurationError,
        "'on_delivery'",
        "await the Delivery",
    ),
    made(
        "confluent-kafka's store",
        lambda: consumer("flights", **{"enable.auto.offset.store": False}),
        ConfigurationError,
        "'enable.auto.offset.store'",
        "enable_auto_commit=False",
    ),
    made(
        "topics as an option",
        lambda: consumer(topics=["flights"]),
        ConfigurationError,
        "'topics'",
        'Consumer("a", "b", ...)',
    ),
    made(
        "an unknown reset",
        lambda: consumer("flights", auto_offset_reset="smallest"),
        ConfigurationError,
        "auto_offset_reset='smallest'",
        "'earliest'",
    ),
    made(
        "an unknown codec",
        lambda: producer(compression_type="zlib"),
        ConfigurationError,
        "compression_type='zlib'",
        "lz4",
    ),
    made("acks of two", lambda: producer(acks=2), ConfigurationError, "acks=2", '"all"'),
    made("a number as text", lambda: producer(linger_ms="5"), ConfigurationError, "linger_ms='5'", "a number"),
    made(
        "a flag as text",
        lambda: consumer("flights", enable_auto_commit="false"),
        ConfigurationError,
        "enable_auto_commit='false'",
        "True or False",
    ),
    made(
        "a class as the assignor",
        lambda: consumer("flights", group_id="report", partition_assignment_strategy=[dict]),
        ConfigurationError,
        "partition_assignment_strategy",
        "roundrobin",
        "Assignor object",
    ),
    made(
        "a heartbeat as long as the session",
        lambda: consumer("flights", group_id="report", session_timeout_ms=3000),
        ConfigurationError,
        "heartbeat_interval_ms=3000",
        "less than session_timeout_ms",
    ),
    made(
        "a partitioner of another client",
        lambda: producer(partitioner=lambda key, partitions, available: 0),
        ConfigurationError,
        "partitioner=",
        "(topic, key, value, partitions, available)",
    ),
]

CALLS = [
    made(
        "a list of topics",
        lambda: consumer(["a", "b"]),
        ConfigurationError,
        "['a', 'b'] is not a topic name",
        'Consumer("a", "b")',
    ),
    made(
        "topics separated by commas",
        lambda: consumer("a,b"),
        ConfigurationError,
        "is not a topic name",
        'Consumer("a", "b")',
    ),
    made(
        "a partition as the topic",
        lambda: consumer(TopicPartition("flights", 0)),
        ConfigurationError,
        "TopicPartition(topic='flights', partition=0) is not a topic name",
        "assign()",
    ),
    made("a topic of bytes", lambda: consumer(b"flights"), ConfigurationError, "b'flights' is not a topic name", "str"),
    made(
        "a topic that no text can be",
        lambda: consumer().subscribe("flights", "\ud800"),
        ConfigurationError,
        r"'\ud800' is not a topic name",
        "1 to 249 characters",
    ),
    made(
        "a topic that is too long",
        lambda: consumer("x" * 40_000),
        ConfigurationError,
        "is not a topic name",
        "1 to 249 characters",
    ),
    made(
        "a topic of a share group that no text can be",
        lambda: ShareConsumer("flights", "\ud800", group_id="g", bootstrap_servers=SERVERS),
        ConfigurationError,
        r"'\ud800' is not a topic name",
        "1 to 249 characters",
    ),
    made(
        "a partition of a topic that no text can be",
        lambda: consumer().assign(("\ud800", 0)),
        ConfigurationError,
        r"'\ud800' is not a topic name",
        "1 to 249 characters",
    ),
    made(
        "a pattern as the topic",
        lambda: consumer().subscribe("^flights.*"),
        ConfigurationError,
        "'^flights.*' is not a topic name",
        "subscribe(pattern=)",
    ),
    made(
        "a pattern that is none",
        lambda: consumer().subscribe(pattern="*.flights"),
        ConfigurationError,
        "pattern='*.flights'",
        "nothing to repeat",
    ),
    made(
        "topics and a pattern",
        lambda: consumer().subscribe("a", pattern="b"),
        ConfigurationError,
        "either topics or a pattern",
    ),
    made(
        "a callback without an argument",
        lambda: consumer().subscribe("flights", on_assigned=lambda: None),  # type: ignore[arg-type,misc]
        ConfigurationError,
        "on_assigned=",
        "with a list of partitions",
    ),
    made(
        "a listener in place of a callback",
        lambda: consumer().subscribe("flights", on_revoked=object()),  # type: ignore[arg-type]
        ConfigurationError,
        "on_revoked=",
        "must be a function of a list of partitions",
    ),
    made(
        "a list of partitions",
        lambda: consumer().assign([TopicPartition("flights", 0)]),  # type: ignore[arg-type]
        ConfigurationError,
        "is not a partition; pass partitions as separate arguments, not in one list",
    ),
    made(
        "a topic in place of a partition",
        lambda: consumer().assign("flights"),  # type: ignore[arg-type]
        ConfigurationError,
        "'flights' is not a partition",
        "TopicPartition(topic, partition)",
    ),
    made(
        "a negative partition",
        lambda: consumer().assign(("flights", -1)),
        ConfigurationError,
        "('flights', -1) is not a partition",
        "0 to 2147483647",
    ),
    made(
        "assigning what is subscribed",
        lambda: consumer("flights").assign(("flights", 0)),
        ConfigurationError,
        "topics are subscribed",
        "unsubscribe() first",
    ),
    made(
        "seeking before the assignment",
        lambda: consumer("flights").seek(("flights", 0), 5),
        ConfigurationError,
        "flights-0 is not assigned",
        "on_assigned",
    ),
    *(
        made(
            f"{name} before the assignment",
            lambda name=name: getattr(consumer("flights"), name)(*([5] if name == "seek_to_time" else [])),
            ConfigurationError,
            "no partition is assigned yet",
            "on_assigned",
        )
        for name in ("seek_to_beginning", "seek_to_end", "seek_to_time", "pause")
    ),
    made(
        "a negative offset",
        lambda: assigned().seek(("flights", 0), -1),
        ConfigurationError,
        "offset=-1",
        "seek_to_beginning()",
    ),
    made(
        "a word for an offset",
        lambda: assigned().seek(("flights", 0), "earliest"),  # type: ignore[arg-type]
        ConfigurationError,
        "offset='earliest'",
        "seek_to_beginning()",
    ),
    made(
        "a datetime for a timestamp",
        lambda: assigned().seek_to_time(NAIVE),  # type: ignore[arg-type]
        ConfigurationError,
        "timestamp=datetime.datetime(2026, 1, 1, 0, 0)",
        "int(when.timestamp() * 1000)",
    ),
    made(
        "seconds for a timestamp",
        lambda: assigned().seek_to_time(time.time()),  # type: ignore[arg-type]
        ConfigurationError,
        "timestamp=",
        "milliseconds",
    ),
    made(
        "an API that does not exist",
        lambda: faults().fail("Produec", ErrorCode.NOT_LEADER_OR_FOLLOWER),  # type: ignore[arg-type]
        ConfigurationError,
        "'Produec' is not an API",
        "ProduceRequest",
    ),
    made(
        "an ApiKey that does not exist",
        lambda: faults().fail(9999, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ConfigurationError,
        "9999 is not an API",
        "its ApiKey",
    ),
    made(
        "an error code by its name",
        lambda: faults().fail(ProduceRequest, "NOT_LEADER"),  # type: ignore[arg-type]
        ConfigurationError,
        "error='NOT_LEADER'",
        "ErrorCode.",
    ),
    made(
        "a condition that does not exist",
        lambda: faults().delay(ProduceRequest, 1, topics="flights"),  # type: ignore[call-arg]
        ConfigurationError,
        "delay() has no condition 'topics'",
        "topic, partition",
    ),
    made(
        "a broker's option with a slip",
        lambda: Broker(config={"auto.create.topic.enable": False}),
        ConfigurationError,
        "'auto.create.topic.enable'",
        "did you mean 'auto.create.topics.enable'?",
    ),
    made("a broker of three", lambda: Broker(brokers=3), TypeError, "Broker.__init__()", "'brokers'"),  # type: ignore[call-arg]
    made("a cluster of none", lambda: Cluster(brokers=0), ConfigurationError, "brokers", "at least 1"),
]

PRODUCING = [
    made("a value of text", lambda p: p.send("flights", "UA"), InvalidRecordError, "value", "got str", "encode it"),
    made(
        "a value of objects",
        lambda p: p.send("flights", {"flight": 1}),
        InvalidRecordError,
        "value",
        "got dict",
        "json.dumps",
    ),
    made("a key of text", lambda p: p.send("flights", b"", key="UA"), InvalidRecordError, "key", "got str", "encode"),
    made("send without a topic", lambda p: p.send(b"UA"), TypeError, "value"),
    made(
        "a topic of bytes", lambda p: p.send(b"flights", b""), InvalidRecordError, "topic must be a str", "b'flights'"
    ),
    made(
        "headers in a dict",
        lambda p: p.send("flights", b"", headers={"a": b""}),
        InvalidRecordError,
        "headers",
        "got dict",
        "list(headers.items())",
    ),
    made(
        "no headers as None",
        lambda p: p.send("flights", b"", headers=None),
        InvalidRecordError,
        "headers",
        "got NoneType",
        "leave it out",
    ),
    made(
        "a header of text",
        lambda p: p.send("flights", b"", headers=[("source", "tower")]),
        InvalidRecordError,
        "header 'source'",
        "encode it",
    ),
    made(
        "a datetime as the timestamp",
        lambda p: p.send("flights", b"", timestamp=NAIVE),
        InvalidRecordError,
        "timestamp",
        "datetime",
        "int(when.timestamp() * 1000)",
    ),
    made(
        "a partition that is not there",
        lambda p: p.send("flights", b"", partition=7),
        InvalidRecordError,
        "partition 7 does not exist",
        "topic 'flights' has",
    ),
    made("an argument by position", lambda p: p.send("flights", b"", b"key"), TypeError, "Producer.send() takes 3"),
    made("an unknown topic", lambda p: p.send("filghts", b""), UnknownTopicError, "'filghts'", "does not exist"),
    made("an invalid topic", lambda p: p.send("my flights", b""), InvalidTopicError, "'my flights'", "a-z A-Z 0-9"),
    made(
        "a record that is too large",
        lambda p: p.send("flights", bytes(2_000_000)),
        MessageTooLargeError,
        "2000",
        "max_request_size",
    ),
    made(
        "send_many of one record",
        lambda p: p.send_many("flights", b"UA"),
        InvalidRecordError,
        "got bytes",
        "use send()",
    ),
    made(
        "starting twice",
        lambda p: p.start(),
        ClientClosedError,
        "started only once",
        "an ExactlyOnce",
        "create a new one",
    ),
]

CONSUMING = [
    made("a commit without a group", lambda c: c.commit(), ConfigurationError, "committed to a group", "pass group_id"),
    made(
        "end_offsets of a topic",
        lambda c: c.end_offsets("flights"),
        ConfigurationError,
        "'flights' is not a partition",
        "TopicPartition(topic, partition)",
    ),
    made(
        "end_offsets of a list",
        lambda c: c.end_offsets([("flights", 0)]),
        ConfigurationError,
        "separate arguments, not in one list",
    ),
    made(
        "times in a list",
        lambda c: c.offsets_for_times([(("flights", 0), 5)]),
        ConfigurationError,
        "offsets_for_times() takes a dict",
        "TopicPartition(topic, 0)",
    ),
    made(
        "the position of another partition",
        lambda c: c.position(("flights", 7)),
        ConfigurationError,
        "flights-7 is not assigned",
    ),
    made("an unknown topic", lambda c: c.partitions_for_topic("filghts"), UnknownTopicError, "'filghts'", "not exist"),
    made("the position of nothing", lambda c: c.position(), TypeError, "Consumer.position() missing 1"),
    made("no records at all", lambda c: c.poll(max_records=0), ConfigurationError, "max_records=0", "at least 1"),
    made(
        "more records to wait for than it returns",
        lambda c: c.poll(min_records=600),
        ConfigurationError,
        "min_records=600",
        "at most max_records=500",
    ),
    made("a negative timeout", lambda c: c.poll(timeout_ms=-1), ConfigurationError, "timeout_ms=-1", "at least 0"),
    made("a timeout as text", lambda c: c.poll(timeout_ms="500"), ConfigurationError, "timeout_ms='500'", "a number"),
]

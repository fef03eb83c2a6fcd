"""The options of the sink."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from aiokproto.errors import ConfigurationError
from aiokproto.producer import Producer
from aiokproto.spark.connection import CLIENT
from aiokproto.spark.option_table import refusal
from aiokproto.spark.options import READING
from aiokproto.spark.sink.options import (
    _PRODUCER,
    BATCH_SIZE,
    BUFFER_MEMORY,
    STATE_TOPIC,
    WRITING,
    TransactionOptions,
    WriteOptions,
    parse_write_options,
)

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
DEFAULTS = {"bootstrap_servers": "127.0.0.1:9092", "batch_size": BATCH_SIZE, "buffer_memory": BUFFER_MEMORY}


def parse(**options: str) -> WriteOptions:
    return parse_write_options(SERVERS | {name.replace("__", "."): value for name, value in options.items()})


def refused(**options: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse(**options)
    return str(caught.value)


def test_defaults() -> None:
    assert parse() == WriteOptions(DEFAULTS, None)
    config = Producer(**parse().producer).config
    assert config.idempotent
    assert (config.acks, config.limits.linger, config.limits.delivery_timeout) == (-1, 0.005, 120)


@pytest.mark.parametrize(
    ("name", "text", "ours", "value"),
    [
        ("kafka.acks", "ALL", "acks", "all"),
        ("kafka.acks", "0", "acks", "0"),
        ("kafka.batch.size", "100", "batch_size", 100),
        ("kafka.batch.size", "0", "batch_size", 1),
        ("kafka.buffer.memory", "1000000", "buffer_memory", 1_000_000),
        ("kafka.client.id", "job", "client_id", "job"),
        ("kafka.client.rack", "a", "client_rack", "a"),
        ("kafka.compression.type", "zstd", "compression_type", "zstd"),
        ("kafka.delivery.timeout.ms", "9000", "delivery_timeout_ms", 9000),
        ("kafka.enable.idempotence", "false", "enable_idempotence", False),
        ("kafka.linger.ms", "7", "linger_ms", 7),
        ("kafka.max.block.ms", "8", "max_block_ms", 8),
        ("kafka.max.in.flight.requests.per.connection", "1", "max_in_flight_requests_per_connection", 1),
        ("kafka.max.request.size", "9999", "max_request_size", 9999),
        (
            "kafka.partitioner.class",
            "org.apache.kafka.clients.producer.RoundRobinPartitioner",
            "partitioner",
            "round_robin",
        ),
        ("kafka.partitioner.ignore.keys", "true", "partitioner_ignore_keys", True),
        ("kafka.request.timeout.ms", "500", "request_timeout_ms", 500.0),
    ],
)
def test_options_of_the_producer(name: str, text: str, ours: str, value: object) -> None:
    assert parse(**{name: text}).producer == DEFAULTS | {ours: value}
    assert parse(**{name.upper(): text}).producer == DEFAULTS | {ours: value}


def test_the_topic_of_all_rows() -> None:
    assert parse(topic=" flights ").topic == "flights"
    assert "is not a topic name" in refused(topic="flights,airports")


def test_the_level_of_the_codec_in_use_counts() -> None:
    levels = {"kafka.compression.zstd.level": "5", "kafka.compression.gzip.level": "9"}
    assert parse(kafka__compression__type="zstd", **levels).producer["compression_level"] == 5
    assert parse(kafka__compression__type="gzip", **levels).producer["compression_level"] == 9
    assert "compression_level" not in parse(**levels).producer
    assert "compression_level" not in parse(kafka__compression__type="snappy", **levels).producer
    default = {"kafka.compression.gzip.level": "-1"}
    assert "compression_level" not in parse(kafka__compression__type="gzip", **default).producer


def test_options_that_contradict_each_other_are_named_as_the_user_writes_them() -> None:
    assert refused(kafka__enable__idempotence="true", kafka__acks="1") == (
        'kafka.enable.idempotence=True needs kafka.acks="all", not kafka.acks=1'
    )
    assert refused(kafka__linger__ms="200000") == "kafka.delivery.timeout.ms=120000 is less than kafka.linger.ms=200000"
    level = {"kafka.compression.gzip.level": "77"}
    assert refused(kafka__compression__type="gzip", **level).startswith("kafka.compression.gzip.level=77: gzip has no")
    assert "kafka.client.rack" in refused(kafka__partitioner__rack__aware="true")
    assert "is less than kafka.retry.backoff.ms=50" in refused(
        kafka__retry__backoff__ms="50", kafka__retry__backoff__max__ms="20"
    )


@pytest.mark.parametrize("name", WRITING.without_effect)
def test_options_of_reading_change_nothing(name: str) -> None:
    assert parse(**{name: "x"}) == parse()


@pytest.mark.parametrize("name", [name for name in WRITING.refused if not name.endswith(".")])
def test_options_that_have_no_place_are_refused_with_the_reason(name: str) -> None:
    assert refused(**{name: "x"}) == f"{name} cannot be set: {WRITING.refused[name]}"


def test_each_option_is_on_one_list_and_none_of_reading_is_unknown() -> None:
    accepted = [*WRITING.honoured, *WRITING.without_effect]
    assert len(set(accepted)) == len(accepted)
    assert not [name for name in accepted if refusal(name.lower(), WRITING.refused)]
    known = {*accepted, *WRITING.refused}
    assert {*READING.honoured, *READING.without_effect} - known == set()
    assert CLIENT.keys() <= WRITING.honoured.keys()


def test_the_table_has_the_defaults_of_the_producer() -> None:
    """Except for the size of batches, which the sink sets itself."""
    parameters = inspect.signature(Producer).parameters
    for name, (own, option) in _PRODUCER.items():
        if option.default is not None and own not in ("batch_size", "buffer_memory"):
            assert option.parse(option.default) == parameters[own].default, name


def test_unknown_options_and_values_are_refused() -> None:
    assert "did you mean 'kafka.linger.ms'?" in refused(kafka__linger="5")
    assert refused(kafka__compression__type="brotli").startswith("kafka.compression.type='brotli': must be none or")
    assert "Java classes cannot be used" in refused(kafka__partitioner__class="com.example.Partitioner")
    with pytest.raises(ConfigurationError, match=r"kafka\.bootstrap\.servers is required"):
        parse_write_options({"topic": "t"})


def exactly_once(stream: bool = False, **options: str) -> TransactionOptions:
    given = {name.replace("__", "."): value for name, value in options.items()}
    parsed = parse_write_options(SERVERS | {"semantics": "exactly_once"} | given, stream=stream).transactions
    assert parsed is not None
    return parsed


def test_options_of_exactly_once() -> None:
    found = exactly_once(transactionalIdPrefix="p", jobId="j", stateTopic="s", onTransactionLoss="SKIP")
    assert (found.prefix, found.run, found.state_topic, found.on_loss) == ("p", "j", "s", "skip")
    assert exactly_once(transactionalIdPrefix="p", jobId="j", jobVersion="7").job_version == 7
    default = exactly_once(transactionalIdPrefix="p")
    assert (default.timeout_ms, default.two_phase, default.state_topic) == (900_000, None, STATE_TOPIC)
    two_phase = exactly_once(transactionalIdPrefix="p", kafka__transaction__two__phase__commit__enable="true")
    assert two_phase.two_phase is True
    assert parse(semantics="at_least_once") == parse()


def test_a_stream_is_identified_by_the_id_in_its_checkpoint_wherever_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, query in (("a", "one"), ("moved", "one"), ("b", "other")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metadata").write_text(f'{{"id":"{query}"}}')
    monkeypatch.chdir(tmp_path)
    ways = (
        f"{tmp_path}/a",
        f"{tmp_path}//a/",
        f"file:{tmp_path}/a",
        f"FILE://localhost{tmp_path}/b/../a",
        "a",
        "./moved",
    )
    for location in ways:
        found = exactly_once(stream=True, checkpointLocation=location)
        assert (found.prefix, found.run) == ("spark-one", "one")
    assert exactly_once(stream=True, checkpointLocation="b").prefix == "spark-other"
    given = exactly_once(stream=True, checkpointLocation="b", transactionalIdPrefix="p")
    assert (given.prefix, given.run) == ("p", "other")
    for broken in ("", "[]", "{}"):
        (tmp_path / "b" / "metadata").write_text(broken)
        with pytest.raises(ConfigurationError, match="checkpointLocation=b: its metadata cannot be read"):
            exactly_once(stream=True, checkpointLocation="b")


def test_a_checkpoint_that_is_not_on_this_machine_is_identified_by_its_location() -> None:
    ways = ("hdfs://nn/a/b", "hdfs://nn/a//b/", "HDFS://nn/a/./c/../b")
    assert len({exactly_once(stream=True, checkpointLocation=location).prefix for location in ways}) == 1
    others = ("hdfs://nn/a/c", "hdfs://other/a/b", "s3a://nn/a/b", "/no/such/a/b")
    assert len({exactly_once(stream=True, checkpointLocation=location).prefix for location in (*ways, *others)}) == 5
    assert exactly_once(stream=True, checkpointLocation=ways[0]).run is None


def test_options_that_contradict_exactly_once() -> None:
    assert "transactionalIdPrefix needs semantics=exactly_once" in refused(transactionalIdPrefix="p")
    assert "needs transactionalIdPrefix" in refused(semantics="exactly_once")
    assert "needs transactionalIdPrefix" in refused(semantics="exactly_once", checkpointLocation="/a")
    version = refused(semantics="exactly_once", transactionalIdPrefix="p", jobVersion="7")
    assert version == "jobVersion needs jobId, the job whose batches it numbers"
    with pytest.raises(ConfigurationError, match="jobId is for batch writes"):
        exactly_once(stream=True, transactionalIdPrefix="p", jobId="j")
    for name, value in (("kafka.acks", "1"), ("kafka.enable.idempotence", "false")):
        assert name in refused(semantics="exactly_once", transactionalIdPrefix="p", **{name: value})

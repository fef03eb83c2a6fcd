from __future__ import annotations

import json
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.errors import ConfigurationError
from aiokproto.spark.offsets import EARLIEST, LATEST, Bound
from aiokproto.spark.option_table import OptionTable, refusal
from aiokproto.spark.options import (
    OFFSET_OPTIONS,
    READING,
    TOPIC_IDS,
    FetchSettings,
    ReadOptions,
    Selection,
    chosen_columns,
    parse_options,
    parse_read_options,
)
from aiokproto.spark.sink.options import WRITING
from aiokproto.types import TopicPartition

VALUES = {
    "kafka.metadata.cluster.check.enable": "true",
    "assign": '{"t": [0]}',
    "startingOffsetsByTimestamp": '{"t": {"0": 1}}',
    "endingOffsetsByTimestamp": '{"t": {"0": 1}}',
    "filterPushdown": "true",
    "includeHeaders": "true",
    "failOnDataLoss": "true",
    "startingOffsetsByTimestampStrategy": "error",
    "kafka.check.crcs": "true",
    "kafka.isolation.level": "read_committed",
    "kafka.security.protocol": "SSL",
    "kafka.ssl.check.hostname": "true",
    "kafka.ssl.crl.check.chain": "true",
    "kafka.sasl.oauth.allow.http": "true",
    "kafka.sasl.oauthbearer.header.urlencode": "true",
    "kafka.sasl.oauthbearer.assertion.claim.jti.include": "true",
    "kafka.config.providers": "env",
    **{
        f"kafka.config.providers.{name}.class": f"org.apache.kafka.common.config.provider.{kind}ConfigProvider"
        for name, kind in (("env", "EnvVar"), ("file", "File"), ("directory", "Directory"))
    },
    **{f"{column}.format": "json" for column in ("key", "value")},
    **{f"{column}.mode": "failfast" for column in ("key", "value")},
    **{f"{column}.framing": "none" for column in ("key", "value")},
    "schema.registry.auto.register": "true",
    "aiokproto.sasl.token": "package.module:function",
    "aiokproto.sasl.aws.credentials": "package.module:function",
}
"""What options take that do not take every text, nor a number."""


def parse(**options: str) -> ReadOptions:
    given = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "t"}
    return parse_read_options({**given, **{name.replace("__", "."): value for name, value in options.items()}})


def refused(**options: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse(**options)
    return str(caught.value)


def test_defaults() -> None:
    options = parse()
    assert options.selection == Selection(("t",))
    assert options.starting == Bound("startingOffsets", EARLIEST)
    assert options.ending == Bound("endingOffsets", LATEST)
    assert options.fetch == FetchSettings(False, 500, 1, 4 << 20, True)
    assert options.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.poll_timeout == 120
    assert (options.min_partitions, options.max_records_per_partition) == (None, None)
    assert options.connection == {"bootstrap_servers": "127.0.0.1:9092"}


def test_names_are_case_insensitive() -> None:
    """Spark passes option names in lower case."""
    options = parse_read_options(
        {"KAFKA.Bootstrap.Servers": "h:1", "SUBSCRIBE": "a", "includeheaders": "TRUE", "FAILONDATALOSS": "False"}
    )
    assert options.include_headers
    assert not options.fail_on_data_loss


def test_client_options_get_their_types_and_our_names() -> None:
    options = parse(kafka__client__id="job", kafka__request__timeout__ms="500", kafka__max__response__size="1000000")
    assert options.connection == {
        "bootstrap_servers": "127.0.0.1:9092",
        "client_id": "job",
        "request_timeout_ms": 500.0,
        "max_response_size": 1_000_000,
    }


def test_fetch_options() -> None:
    options = parse(
        kafka__isolation__level="READ_COMMITTED",
        kafka__fetch__max__wait__ms="7",
        kafka__fetch__min__bytes="3",
        kafka__max__partition__fetch__bytes="1000",
        kafka__fetch__max__bytes="900",
        kafka__check__crcs="false",
    )
    assert options.fetch == FetchSettings(True, 7, 3, 900, False)
    assert options.fetch.isolation_level == 1
    assert options.connection.keys() == {"bootstrap_servers"}


@pytest.mark.parametrize("name", READING.without_effect)
def test_options_that_change_nothing_are_accepted(name: str) -> None:
    assert parse(**{name: "x"}) == parse()


@pytest.mark.parametrize("name", [name for name in READING.refused if not name.endswith(".")])
def test_options_that_have_no_place_are_refused_with_the_reason(name: str) -> None:
    assert refused(**{name.upper(): "secret"}) == f"{name.upper()} cannot be set: {READING.refused[name]}"


def test_settings_of_security_never_lack_an_effect() -> None:
    """Not even where the official connector ignores them, since nothing is encrypted."""
    assert refused(**{"kafka.ssl.truststore.location": "/trusted.jks"}) == (
        "kafka.ssl.truststore.location is given, but kafka.security.protocol is 'PLAINTEXT': set it to 'SSL'"
    )
    assert "set it to 'SASL_SSL'" in refused(**{"kafka.sasl.jaas.config": "secret"})
    named = refused(kafka__security__protocol="sasl_ssl", kafka__sasl__username="etl")
    assert named == "kafka.sasl.username is no option of kafka.sasl.mechanism='GSSAPI'"
    assert "use kafka.ssl.enabled.protocols" in refused(**{"kafka.ssl.protocol": "TLSv1.3"})
    assert "must be 'https'" not in refused(**{"kafka.ssl.endpoint.identification.algorithm": "http"})
    assert not [
        name for name in READING.without_effect if name.startswith(("kafka.ssl.", "kafka.sasl.", "kafka.security."))
    ]


def test_tls() -> None:
    assert parse(kafka__security__protocol="ssl").connection["security_protocol"] == "SSL"


def test_each_option_is_on_one_list() -> None:
    assert not READING.honoured.keys() & READING.without_effect.keys()
    assert not [name for name in (*READING.honoured, *READING.without_effect) if refusal(name.lower(), READING.refused)]


@pytest.mark.parametrize("table", [READING, WRITING])
def test_each_default_is_a_valid_value(table: OptionTable) -> None:
    for name, option in table.honoured.items():
        assert option.meaning.endswith("."), name
        if option.default is not None:
            assert table.parse({name: option.default})[name] == table.value({}, name)


def test_a_wait_may_be_longer_than_the_default_of_the_longest() -> None:
    connection = parse(kafka__retry__backoff__ms="5000", kafka__reconnect__backoff__ms="20").connection
    assert connection["retry_backoff_max_ms"] == 5000
    assert "reconnect_backoff_max_ms" not in connection
    assert refused(kafka__retry__backoff__ms="50", kafka__retry__backoff__max__ms="20") == (
        "kafka.retry.backoff.max.ms=20 is less than kafka.retry.backoff.ms=50"
    )


def test_unknown_options_are_refused_with_the_nearest_name() -> None:
    assert refused(startingOffset="earliest") == "unknown option 'startingOffset'; did you mean 'startingOffsets'?"
    assert "did you mean 'kafka.bootstrap.servers'?" in refused(bootstrap__servers="h:1")
    assert "did you mean 'kafka.request.timeout.ms'?" in refused(**{"kafka.request.timeout": "1"})
    assert "did you mean 'kafka.ssl.key.password'?" in refused(**{"kafka.ssl.key_password": "1"})
    assert "did you mean 'maxOffsetsPerTrigger'?" in refused(**{"maxOffsetsPerTrigger ": "1"})
    everything = refused(zzz="1")
    assert "valid are" in everything
    assert TOPIC_IDS not in everything


def test_invalid_option_names_are_unknown() -> None:
    assert "unknown option 'kafka.ssl.context'" in refused(**{"kafka.ssl.context": "x"})


def test_bootstrap_servers_are_required_and_checked() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.bootstrap\.servers is required"):
        parse_read_options({"subscribe": "t"})
    assert "kafka.bootstrap.servers: 'kafka://h' is a URL" in refused(**{"kafka.bootstrap.servers": "kafka://h"})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"subscribe": "a", "subscribePattern": "b"},
        {"subscribe": "a", "assign": '{"a":[0]}'},
        {"assign": '{"a":[0]}', "subscribePattern": "b"},
    ],
)
def test_exactly_one_selection_is_needed(options: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="exactly one of subscribe, assign and subscribePattern"):
        parse_read_options({"kafka.bootstrap.servers": "h:1", **options})


def test_selections() -> None:
    def selection(**options: str) -> Selection:
        return parse_read_options({"kafka.bootstrap.servers": "h:1", **options}).selection

    assert selection(subscribe=" b, a,,b, ") == Selection(("b", "a"))
    assert selection(assign='{"a":[1,0,1]}') == Selection(assignment={"a": (0, 1)})
    assert selection(subscribePattern="a.*") == Selection(pattern="a.*")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("subscribe", " ,"),
        ("subscribePattern", "a["),
        ("includeHeaders", "yes"),
        ("minPartitions", "0"),
        ("maxRecordsPerPartition", "many"),
        ("failOnDataLoss", ""),
        ("kafkaConsumer.pollTimeoutMs", "0"),
        ("fetchOffset.numRetries", "-1"),
        ("startingOffsetsByTimestampStrategy", "earliest"),
        ("startingTimestamp", "-1"),
        ("startingOffsets", "first"),
        ("kafka.isolation.level", "serializable"),
        ("kafka.fetch.max.bytes", "-1"),
        ("subscribe", "no topic"),
        ("subscribe", "t" * 250),
        ("subscribe", "a,.."),
        ("subscribePattern", "a[a-z&&[^b]]"),
        ("minPartitions", "1_000"),
        ("minPartitions", "٣"),
        ("minPartitions", "9" * 400),
        ("startingTimestamp", "9" * 25),
        ("kafkaConsumer.pollTimeoutMs", "9" * 400),
        ("assign", "[" * 100_000),
        ("kafka.request.timeout.ms", "soon"),
        ("kafka.request.timeout.ms", "0"),
    ],
)
def test_bad_values_are_refused_by_the_name_of_their_option(name: str, value: str) -> None:
    selection = {} if name.startswith("subscribe") else {"subscribe": "t"}
    with pytest.raises(ConfigurationError, match=name.replace(".", r"\.")):
        parse_read_options({"kafka.bootstrap.servers": "h:1", **selection, name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("minPartitions", "9" * 5000),
        ("startingOffsets", json.dumps(list(range(100_000)))),
        ("assign", json.dumps({"t": [{}] * 100_000})),
        ("subscribe", "t" * 70_000),
        ("x" * 5000, "1"),
        (
            "startingOffsets",
            json.dumps({"t": {str(number): 1 for number in range(1000)}, "u": {"0": "9" * 5000}}),
        ),
    ],
)
def test_errors_shorten_long_values(name: str, value: str) -> None:
    selection = {} if name in ("subscribe", "assign") else {"subscribe": "t"}
    with pytest.raises(ConfigurationError) as error:
        parse_read_options({"kafka.bootstrap.servers": "h:1", **selection, name: value})
    assert len(str(error.value)) < 2000


def test_zero_and_empty_values_mean_the_default_as_in_java() -> None:
    options = parse(
        kafka__client__id="",
        kafka__retry__backoff__ms="0",
        kafka__reconnect__backoff__ms="0",
        kafka__metadata__max__age__ms="0",
        kafka__fetch__max__bytes="0",
        fetchOffset__retryIntervalMs="-1",
    )
    assert "client_id" not in options.connection
    assert {
        options.connection[name] for name in ("retry_backoff_ms", "reconnect_backoff_ms", "metadata_max_age_ms")
    } == {1}
    assert (options.fetch.max_bytes, options.offset_retry_interval) == (1, 0)


def test_no_offsets_are_requested_for_topics_without_a_partition() -> None:
    assert parse_read_options(
        {"kafka.bootstrap.servers": "h:1", "assign": '{"t": [1], "gone": []}'}
    ).selection == Selection(assignment={"t": (1,)})


def test_a_batch_cannot_start_at_the_latest_or_end_at_the_earliest_offset() -> None:
    assert "only a stream" in refused(startingOffsets="latest")
    assert "cannot end where the log starts" in refused(endingOffsets="earliest")
    assert "must be at least 0, or -2" in refused(startingOffsets='{"t":{"0":-1}}')
    assert "must be at least 0, or -1" in refused(endingOffsets='{"t":{"0":-2}}')


def test_offsets_that_are_neither_a_word_nor_json_are_refused_with_the_words_that_are_valid() -> None:
    example = 'JSON such as {"topic": {"0": 23}}'
    assert refused(startingOffsets="first") == f"startingOffsets must be earliest, or {example}, not 'first'"
    assert refused(endingOffsets="last") == f"endingOffsets must be latest, or {example}, not 'last'"


def test_timestamps_go_before_offsets_and_one_for_all_before_one_each() -> None:
    offsets, stamps = '{"t":{"0":5}}', '{"t":{"0":1000}}'
    each = {TopicPartition("t", 0): 1000}
    both = parse(startingOffsets=offsets, startingOffsetsByTimestamp=stamps, endingOffsetsByTimestamp=stamps)
    assert both.starting == Bound("startingOffsetsByTimestamp", each=each, by_timestamp=True)
    assert both.ending == Bound("endingOffsetsByTimestamp", each=each, by_timestamp=True)
    every = parse(startingOffsetsByTimestamp=stamps, startingTimestamp="7", endingTimestamp="8", endingOffsets=offsets)
    assert every.starting == Bound("startingTimestamp", 7, by_timestamp=True)
    assert every.ending == Bound("endingTimestamp", 8, by_timestamp=True)


def test_a_partition_cannot_end_before_it_starts() -> None:
    assert "t-0 ends (endingOffsets: 4) before it starts (startingOffsets: 5)" in refused(
        startingOffsets='{"t":{"0":5}}', endingOffsets='{"t":{"0":4}}'
    )
    parse(startingOffsets='{"t":{"0":5}}', endingOffsets='{"t":{"0":-1}}')
    assert refused(startingTimestamp="8", endingTimestamp="7") == "endingTimestamp=7 is before startingTimestamp=8"
    # An offset and a timestamp cannot be compared without a request to the broker.
    parse(startingOffsets='{"t":{"0":5}}', endingOffsetsByTimestamp='{"t":{"0":4}}')


def test_columns() -> None:
    assert parse(columns="Value, offset").columns == ("value", "offset")
    assert parse(columns="headers,key", includeHeaders="true").include_headers
    assert not parse(columns="key", includeHeaders="true").include_headers
    assert "includeHeaders" in refused(columns="headers")
    assert "did you mean 'timestampType'?" in refused(columns="timestamptyp")
    assert "twice" in refused(columns="key,KEY")


def test_options_of_a_stream_have_columns_too() -> None:
    """Spark requests the schema without telling batch from streaming reads."""
    assert chosen_columns(parse_options({})) == parse().columns
    assert chosen_columns(parse_options({"startingOffsets": "latest", "columns": "value"})) == ("value",)
    with pytest.raises(ConfigurationError, match="minPartitions='0'"):
        parse_options({"minPartitions": "0"})


def test_every_selection_option_is_applied() -> None:
    assert set(OFFSET_OPTIONS) <= READING.honoured.keys()


@given(
    st.dictionaries(
        st.sampled_from([*READING.honoured, *READING.without_effect, *READING.refused]) | st.text(),
        st.sampled_from(["1", "true", "latest", '{"t": {"0": 1}}', '{"t": [0]}', "h:1"]) | st.text(),
        max_size=4,
    )
)
def test_every_option_is_accepted_or_refused_by_name(options: dict[str, str]) -> None:
    with suppress(ConfigurationError):
        parse_read_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **options})


@given(st.sampled_from(sorted(READING.honoured)), st.randoms(use_true_random=False))
def test_the_case_of_names_does_not_matter(name: str, random: Random) -> None:
    cased = "".join(random.choice((letter.lower(), letter.upper())) for letter in name)
    assert list(parse_options({cased: VALUES.get(name, "1")})) == [name]

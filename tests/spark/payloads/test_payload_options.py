"""Which options of formats belong together."""

from __future__ import annotations

import pytest

from aiokproto.errors import ConfigurationError
from aiokproto.spark.options import parse_read_options
from aiokproto.spark.payloads.options import Payload, RegistryOptions
from aiokproto.spark.sink.options import parse_write_options

SERVERS = {"kafka.bootstrap.servers": "h:1"}
REGISTRY = {"schema.registry.url": "http://registry"}
SCHEMA = {"value.format": "json", "value.schema": "a INT"}
AVRO = {"value.format": "avro"}


def read(**options: str) -> tuple[Payload, ...]:
    return parse_read_options({**SERVERS, "subscribe": "t", **options}).payloads


def test_json() -> None:
    assert read(**SCHEMA) == (Payload("value", "json", "a INT", "permissive"),)
    more = {"value.mode": "FAILFAST", "value.columnNameOfCorruptRecord": "bad"}
    assert read(**SCHEMA, **more) == (Payload("value", "json", "a INT", "failfast", "bad"),)


def test_avro_with_a_registry() -> None:
    registry = RegistryOptions("http://registry")
    found = Payload("value", "avro", None, "failfast", framing="confluent", registry=registry, subject="t-value")
    assert read(**AVRO, **REGISTRY) == (found,)
    both = read(**AVRO, **REGISTRY, **{"key.format": "avro", "key.subject": "keys", "key.schema.version": "3"})
    assert [(one.column, one.subject, one.version) for one in both] == [
        ("key", "keys", "3"),
        ("value", "t-value", "latest"),
    ]
    login = {"schema.registry.basic.auth.user.info": "etl:bread", "schema.registry.request.timeout.ms": "500"}
    (payload,) = read(**AVRO, **REGISTRY, **login)
    assert payload.registry is not None
    assert (payload.registry.user_info, payload.registry.timeout) == ("etl:bread", 0.5)
    assert "bread" not in repr(payload)


def test_avro_without_a_registry() -> None:
    for framing in ("none", "single-object"):
        (payload,) = read(**AVRO, **{"value.schema": '"int"', "value.framing": framing})
        assert (payload.framing, payload.registry, payload.schema) == (framing, None, '"int"')


def test_columns_that_are_not_read_need_no_format() -> None:
    assert read(**SCHEMA, columns="key,offset") == ()
    assert read(**{"value.format": "raw"}) == ()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"value.schema": "a INT"}, "value.schema has no effect: value.format is raw"),
        ({**SCHEMA, "value.framing": "none"}, "value.framing has no effect: value.format is json"),
        ({**SCHEMA, **REGISTRY}, "schema.registry.url has no effect: no column has format avro"),
        (AVRO, "value.schema is required: records of framing 'none' do not name theirs"),
        ({**AVRO, "value.framing": "confluent"}, "schema.registry.url is required"),
        ({**AVRO, **REGISTRY, "subscribe": "t,u"}, "value.subject or value.schema is required"),
        (
            {**AVRO, **REGISTRY, "value.schema": '"int"', "value.schema.version": "1"},
            "value.schema.version has no effect",
        ),
        ({**AVRO, "value.schema": '"int"', "value.subject": "s"}, "value.subject has no effect: value.framing is none"),
        ({**AVRO, "value.columnNameOfCorruptRecord": "c", **REGISTRY}, "has no effect: value.format is avro"),
        ({**AVRO, **REGISTRY, "schema.registry.ssl.keyfile": "k"}, "is given without schema.registry.ssl.certfile"),
        (
            {
                **AVRO,
                **REGISTRY,
                "schema.registry.basic.auth.user.info": "a:bread",
                "schema.registry.bearer.auth.token": "bread",
            },
            "expected one of them",
        ),
        ({"value.format": "xml"}, "value.format='xml': must be raw or json or avro"),
        ({**AVRO, **REGISTRY, "value.schema.version": "0"}, "value.schema.version='0': must be at least 1"),
    ],
)
def test_contradictions(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(**options)
    assert problem in str(caught.value)
    assert "bread" not in str(caught.value)


def test_the_sink_has_them_too() -> None:
    (payload,) = parse_write_options({**SERVERS, "topic": "t", **AVRO, **REGISTRY}).payloads
    assert payload.subject == "t-value"
    (payload,) = parse_write_options({**SERVERS, "value.format": "json"}).payloads
    assert payload.schema is None

"""The migration pages name what the other clients have, and only what exists: there, and here."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import pytest

import aiokproto.errors
from aiokproto import Client, Consumer, Producer, Record
from aiokproto.application.hints import OPTIONS
from aiokproto.broker.security.acls import Operation, PatternType, Permission, ResourceType
from aiokproto.codec.registry import api_keys, request
from aiokproto.config import ConnectionOptions
from aiokproto.consumer import CommitResult
from aiokproto.errors import BrokerError, Consequence, KafkaError, error_for
from aiokproto.producer import Delivery, Outcomes
from tests.docs.migrating import PAGES, code, section, table, unknown
from tests.docs.snippets import ROOT

MODULES = {
    "aiokafka": ["", "errors", "structs", "abc", "admin", "coordinator.assignors.abstract"],
    "kafka": [
        *("", "errors", "structs", "admin", "serializer", "partitioner", "producer.future", "consumer.fetcher"),
        *("consumer.subscription_state", "coordinator.assignors.abstract"),
    ],
    "confluent_kafka": ["", "error", "serialization", "admin", "aio"],
    "aiokproto": [
        *("", "errors", "types", "error_codes", "producer", "consumer", "cluster", "group.assignors"),
        *("hooks", "interceptors", "otel", "prometheus"),
    ],
}
"""Package → where what the tables name is."""
PACKAGES = {"aiokafka": "aiokafka", "kafka-python": "kafka", "confluent-kafka": "confluent_kafka"}
CLIENTS = {
    "aiokafka": {"consumer": "AIOKafkaConsumer", "producer": "AIOKafkaProducer", "admin": "AIOKafkaAdminClient"},
    "kafka": {
        "consumer": "KafkaConsumer",
        "producer": "KafkaProducer",
        "admin": "KafkaAdminClient",
        "future": "FutureRecordMetadata",
    },
    "confluent_kafka": {"consumer": "Consumer", "producer": "Producer", "admin": "AdminClient", "msg": "Message"},
}
"""Package → variable of the tables → its class."""
VARIABLES = {
    "consumer": Consumer,
    "producer": Producer,
    "client": Client,
    "record": Record,
    "error": BrokerError,
    "errors": aiokproto.errors,
    "result": CommitResult,
    "delivery": Delivery,
    "outcomes": Outcomes,
}
TABLES = ["What calls return", "Callbacks", "Exceptions", "Admin requests"]
NOT_OF_ADMINS = {
    "DEFAULT_CONFIG",
    "api_versions",
    "close",
    "cluster_id",
    "get_broker_version_data",
    "poll",
    "set_sasl_credentials",
    "start",
}
"""Methods of admin clients that are no request of a user's."""

OWN = {*ConnectionOptions.__annotations__} | {
    parameter.name
    for client in (Producer, Consumer)
    for parameter in inspect.signature(client).parameters.values()
    if parameter.kind is parameter.KEYWORD_ONLY
}
_NAMES = re.compile(r"`([a-z][\w.]+)`")


def rows(page: str) -> list[tuple[list[str], str]]:
    """The rows of the table of options: their names on the left, what stands on the right."""
    found = re.findall(r"^\| (.+?) \| (.+) \|$", section(page, "Options"), re.MULTILINE)
    return [(_NAMES.findall(left), right) for left, right in found if "`" in left]


def options(*classes: Any) -> set[str]:
    return {name for each in classes for name in inspect.signature(each).parameters} - {"self", "configs"}


def test_every_option_of_aiokafka_is_named() -> None:
    aiokafka = pytest.importorskip("aiokafka")
    theirs = options(aiokafka.AIOKafkaProducer, aiokafka.AIOKafkaConsumer)
    assert theirs - {name for names, _ in rows("aiokafka") for name in names} == set()


def test_every_option_of_kafka_python_is_named() -> None:
    kafka = pytest.importorskip("kafka")
    theirs = {*kafka.KafkaProducer.DEFAULT_CONFIG, *kafka.KafkaConsumer.DEFAULT_CONFIG}
    assert theirs - {name for names, _ in rows("kafka-python") for name in names} == set()


@pytest.mark.parametrize("page", PAGES)
def test_options_documented_as_existing_exist_and_others_do_not(page: str) -> None:
    for names, right in rows(page):
        for name in names:
            here = name.replace(".", "_")
            if right.startswith("the same"):
                assert here in OWN, name
            elif right.startswith(("not yet", "not needed")):
                assert here not in OWN, name
        if not right.startswith("not"):
            for name in _NAMES.findall(right.replace("`auto.create.topics.enable`", "")):
                known = name in OWN or name in ("ssl_context", "poll", "aiokproto")
                assert known or not re.fullmatch(r"\w+_\w+", name) or name.endswith("_offsets"), name


@pytest.mark.parametrize("page", PAGES)
def test_options_that_are_not_here_have_a_hint(page: str) -> None:
    """The error for an option says what the page says: use something else, or leave it out."""
    names = {name.replace(".", "_") for names, _ in rows(page) for name in names}
    missing = names - OWN - OPTIONS.keys()
    assert missing == set()


def names_of(package: str) -> dict[str, object]:
    """What is in the modules of a package that tables name."""
    pytest.importorskip(package)
    found: dict[str, object] = {}
    for name in reversed(MODULES[package]):
        module = importlib.import_module(f"{package}.{name}".removesuffix("."))
        found.update({each: getattr(module, each) for each in dir(module)})
    return found


def their_names(page: str) -> dict[str, object]:
    package = PACKAGES[page]
    names = names_of(package)
    names |= {variable: names[cls] for variable, cls in CLIENTS[package].items()}
    if package == "confluent_kafka":
        # The codes are attributes of one class, and tables name them alone.
        names |= confluent_codes()
        names["error"] = names["KafkaError"]
    return names


def confluent_codes() -> dict[str, int]:
    error: Any = pytest.importorskip("confluent_kafka").KafkaError
    return {name: getattr(error, name) for name in dir(error) if name.isupper()}


def our_names(cell: str) -> dict[str, object]:
    """Also the messages, and the structs of those that a cell of a table names."""
    names = {**names_of("aiokproto"), **VARIABLES}
    for message in map(request, api_keys()):
        if re.search(rf"\b{message.__name__}\b", cell):
            names |= vars(importlib.import_module(message.__module__))
    return names


@pytest.mark.parametrize("heading", TABLES)
@pytest.mark.parametrize("page", PAGES)
def test_what_tables_name_there_is_in_the_other_client(page: str, heading: str) -> None:
    names = their_names(page)
    # Of results the first cell has the call, the second one what it returns there.
    cells = [cell for row in table(page, heading) for cell in row[: 2 if heading == TABLES[0] else 1]]
    assert cells
    assert [each for cell in cells for span in code(cell) for each in unknown(span, names)] == []


@pytest.mark.parametrize("heading", TABLES)
@pytest.mark.parametrize("page", PAGES)
def test_what_tables_name_here_exists(page: str, heading: str) -> None:
    cells = [row[2 if heading == TABLES[0] else 1] for row in table(page, heading)]
    assert [each for cell in cells for span in code(cell) for each in unknown(span, our_names(cell))] == []


def test_a_table_that_names_what_is_not_there_is_noticed() -> None:
    cell = "CreateTopicsRequest(topics=[CreatableTopic(name=…)])"
    assert list(unknown(cell, our_names(cell))) == []
    for span, missing in [
        ("CreateTopicsRequest(topic=[…])", "CreateTopicsRequest(topic=)"),
        ("await producer.post(…, keys=…)", "producer.post(keys=)"),
        ("await producer.emit(…)", "producer.emit"),
        ("error.errno", "error.errno"),
        ("Recrod", "Recrod"),
    ]:
        assert list(unknown(span, our_names(span))) == [missing]


@pytest.mark.parametrize("page", PAGES)
def test_every_method_of_their_admin_client_has_a_row(page: str) -> None:
    names = their_names(page)
    methods = {name for name in dir(names["admin"]) if not name.startswith("_")} - NOT_OF_ADMINS
    rows = " ".join(cell for row in table(page, "Admin requests") for cell in row[:1])
    assert {method for method in methods if f"`admin.{method}(" not in rows} == set()


def error_classes(cell: str) -> list[type[KafkaError]]:
    """Our exceptions that a cell names."""
    found = [getattr(aiokproto.errors, span, None) for span in code(cell)]
    return [each for each in found if isinstance(each, type) and issubclass(each, KafkaError)]


@pytest.mark.parametrize("page", PAGES)
def test_rows_of_exceptions_have_the_consequences_of_ours(page: str) -> None:
    for _, ours, consequences in table(page, "Exceptions"):
        expected = {each.consequence for each in error_classes(ours)}
        if BrokerError in error_classes(ours):
            expected = {Consequence.RETRY, Consequence.CORRECT}
        assert {Consequence[span] for span in code(consequences)} == expected, ours


def their_codes(page: str) -> dict[str, int]:
    """Their names of the error codes that brokers send."""
    if page == "confluent-kafka":
        return {name: code for name, code in confluent_codes().items() if code > 0}
    names = their_names(page)
    base: Any = names["BrokerResponseError"]
    classes = {name: each for name, each in names.items() if isinstance(each, type) and issubclass(each, base)}
    # The base class has none.
    codes = {name: getattr(each, "errno", None) for name, each in classes.items()}
    return {name: code for name, code in codes.items() if code}


@pytest.mark.parametrize("page", PAGES)
def test_error_codes_with_a_class_here_have_a_row_that_names_it(page: str) -> None:
    rows = {name: error_classes(row[1]) for row in table(page, "Exceptions") for name in code(row[0])}
    codes = {name: type(error_for(code)) for name, code in their_codes(page).items()}
    with_class = {name: cls for name, cls in codes.items() if cls is not BrokerError}
    assert len(with_class) > 15
    assert {name: cls for name, cls in with_class.items() if cls not in rows.get(name, [])} == {}


def client_side_errors(page: str) -> set[str]:
    """Their exceptions that are not of a broker's error code."""
    names = their_names(page)
    broker: Any = names.get("BrokerResponseError", ())
    classes = {name: each for name, each in names.items() if isinstance(each, type) and issubclass(each, Exception)}
    return {
        name
        for name, each in classes.items()
        if each.__module__ != "builtins" and not name.startswith("_") and not issubclass(each, broker)
    }


@pytest.mark.parametrize("page", PAGES)
def test_every_exception_of_the_other_client_is_named(page: str) -> None:
    named = code(section(page, "Exceptions"))
    assert client_side_errors(page) - set(named) == set()


@pytest.mark.parametrize(
    ("field", "enum", "theirs"),
    [
        ("resource type", ResourceType, "ResourceType"),
        ("pattern type", PatternType, "ACLResourcePatternType"),
        ("operation", Operation, "ACLOperation"),
        ("permission type", Permission, "ACLPermissionType"),
    ],
)
def test_acls_have_the_numbers_of_kafka_and_the_other_clients(field: str, enum: Any, theirs: str) -> None:
    page = (ROOT / "docs" / "howto" / "admin.md").read_text()
    row = re.search(rf"^\| {field} \| (.+) \|$", page, re.MULTILINE)
    assert row is not None
    listed = {name.upper().replace(" ", "_"): int(number) for number, name in re.findall(r"(\d+) ([a-z ]+)", row[1])}
    assert listed == {each.name: each.value for each in enum if each.value}
    admin = pytest.importorskip("kafka.admin")
    assert listed.items() >= {each.name: each.value for each in getattr(admin, theirs) if each.value}.items()

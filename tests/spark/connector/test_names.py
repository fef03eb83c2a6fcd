"""No option that a job may have set for the official connector is unknown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from aiokproto.spark.option_table import OptionTable, refusal
from aiokproto.spark.options import READING
from aiokproto.spark.sink.options import WRITING
from tests.kafka.cluster import missing
from tools.setup.project import kafka_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CONFIGURATIONS = (
    "org.apache.kafka.clients.consumer.ConsumerConfig",
    "org.apache.kafka.clients.admin.AdminClientConfig",
    "org.apache.kafka.clients.producer.ProducerConfig",
)
"""What the connector hands ``kafka.`` options to: a consumer in tasks, an admin client on the driver, and for those who
write with the same options, a producer."""


def lists_with(name: str, table: OptionTable) -> list[str]:
    """The lists of the table that have the option."""
    found = {
        "honoured": name in table.honoured,
        "without effect": name in table.without_effect,
        "refused": refusal(name.lower(), table.refused) is not None,
    }
    return [title for title, has in found.items() if has]


def misplaced(names: Iterable[str], table: OptionTable) -> dict[str, list[str]]:
    """The options that aren't on exactly one list of the table."""
    return {name: found for name in names if len(found := lists_with(name, table)) != 1}


both = pytest.mark.parametrize("table", [READING, WRITING], ids=["reading", "writing"])


def configuration_names(spark: SparkSession, loader: Any) -> set[str]:
    """What the configurations take that this class loader finds."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    found: set[str] = set()
    for name in CONFIGURATIONS:
        method = jvm.java.lang.Class.forName(name, True, loader).getMethod(
            "configNames", gateway.new_array(jvm.java.lang.Class, 0)
        )
        found |= set(method.invoke(None, gateway.new_array(jvm.java.lang.Object, 0)))
    return found


@contextmanager
def newest_kafka(spark: SparkSession) -> Iterator[Any]:
    """A class loader with the newest release of Kafka's clients."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    (jar,) = kafka_jars().glob("kafka-clients-*.jar")
    urls = gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.io.File(str(jar)).toURI().toURL()
    thread = jvm.java.lang.Thread.currentThread()
    usual = thread.getContextClassLoader()
    loader = jvm.java.net.URLClassLoader(urls, jvm.java.lang.ClassLoader.getSystemClassLoader())
    # Kafka looks up the classes that options have as defaults by the thread's loader.
    thread.setContextClassLoader(loader)
    try:
        yield loader
    finally:
        thread.setContextClassLoader(usual)
        loader.close()


@both
def test_each_option_of_the_java_clients_is_on_one_list(official: SparkSession, table: OptionTable) -> None:
    jvm: Any = official._jvm
    names = configuration_names(official, jvm.java.lang.Thread.currentThread().getContextClassLoader())
    assert len(names) > 80
    assert misplaced((f"kafka.{name}" for name in names), table) == {}


@both
def test_each_option_of_the_newest_java_clients_is_on_one_list(spark: SparkSession, table: OptionTable) -> None:
    if reason := missing():
        pytest.skip(reason)
    with newest_kafka(spark) as loader:
        names = configuration_names(spark, loader)
    assert len(names) > 100
    assert misplaced((f"kafka.{name}" for name in names), table) == {}


@both
def test_each_option_of_the_connector_is_on_one_list(official: SparkSession, table: OptionTable) -> None:
    """Their names are constants of its provider, in lower case; its other constants are no such words."""
    jvm: Any = official._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    provider = jvm.java.lang.Class.forName("org.apache.spark.sql.kafka010.KafkaSourceProvider$", True, loader)
    options: set[str] = set()
    for field in provider.getDeclaredFields():
        if field.getType().getName() == "java.lang.String":
            field.setAccessible(True)
            text = str(field.get(None))
            if re.fullmatch(r"[a-z]+(\.[a-z]+)?", text):
                options.add(text)
    assert len(options) > 20
    spelling = {name.lower(): name for name in (*table.honoured, *table.without_effect)}
    assert misplaced((spelling.get(name, name) for name in options), table) == {}

"""The migration pages name every option of the other clients, and only options that exist here."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.config import ConnectionOptions
from aiokproto.foreign_options import HINTS
from tests.docs.snippets import ROOT

OWN = {*ConnectionOptions.__annotations__} | {
    parameter.name
    for client in (Producer, Consumer)
    for parameter in inspect.signature(client).parameters.values()
    if parameter.kind is parameter.KEYWORD_ONLY
}
_NAMES = re.compile(r"`([a-z][\w.]+)`")


def rows(page: str) -> list[tuple[list[str], str]]:
    """The rows of the table of options: their names on the left, what stands on the right."""
    text = (ROOT / "docs" / "migrating" / f"{page}.md").read_text()
    section = text[text.index("## Options") : text.index("## What behaves")]
    found = re.findall(r"^\| (.+?) \| (.+) \|$", section, re.MULTILINE)
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


@pytest.mark.parametrize("page", ["aiokafka", "kafka-python", "confluent-kafka"])
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


@pytest.mark.parametrize("page", ["aiokafka", "kafka-python", "confluent-kafka"])
def test_options_that_are_not_here_have_a_hint(page: str) -> None:
    """The error for an option says what the page says: use something else, or leave it out."""
    names = {name.replace(".", "_") for names, _ in rows(page) for name in names}
    missing = names - OWN - HINTS.keys()
    assert missing == set()

"""Options of other clients: the error says what to use instead."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from aiokproto import Client, Consumer, Producer, ShareConsumer
from aiokproto.application.foreign_options import HINTS, OWNERS
from aiokproto.config import ConnectionOptions
from aiokproto.errors import ConfigurationError
from aiokproto.share.config import HINTS as SHARE_HINTS

OWN = {*ConnectionOptions.__annotations__} | {
    parameter.name
    for client in (Producer, Consumer)
    for parameter in inspect.signature(client).parameters.values()
    if parameter.kind is parameter.KEYWORD_ONLY
}


@pytest.mark.parametrize("name", HINTS)
def test_an_option_of_another_client_says_what_to_use_instead(name: str) -> None:
    assert name not in OWN
    given: dict[str, Any] = {name: "x"}
    for client in (Producer, Consumer, Client):
        with pytest.raises(ConfigurationError) as raised:
            client(bootstrap_servers="localhost", **given)
        assert str(raised.value) == f"unknown option {name!r}: {HINTS[name]}"


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
    assert options(client) - HINTS.keys() == {name for name, has in OWNERS.items() if client.__name__ in has.split()}
    share = client.__name__ == "ShareConsumer"
    required = {"group_id": "g"} if share else {}
    hinted = SHARE_HINTS if share else {}
    for name in OWNERS.keys() - options(client) - hinted.keys():
        for spelled in (name, name.replace("_", ".")):
            with pytest.raises(ConfigurationError) as raised:
                client(bootstrap_servers="localhost", **required, **{spelled: "x"})
            assert str(raised.value) == f"unknown option {spelled!r}: {OWNERS[name]} has it"

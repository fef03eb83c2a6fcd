"""What every API has, one test per step in CONTRIBUTING: a new message that lacks one of them fails here."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from aiokproto.broker.handlers import SERVED, find
from aiokproto.broker.handlers.refused import BETWEEN_NODES, NOT_SERVED
from aiokproto.codec import registry
from aiokproto.codec.registry_table import APIS
from aiokproto.codec.schema import Request, Route
from tools.schema.names import snake

MESSAGES = Path(registry.__file__).parent / "messages"
HANDLERS = Path(import_module("aiokproto.broker.handlers").__file__ or "").parent

each_api = pytest.mark.parametrize("key", APIS, ids=lambda key: APIS[key][1])


def test_every_module_of_messages_is_in_the_registry() -> None:
    modules = {path.stem for path in MESSAGES.glob("*.py")} - {"__init__", "header"}
    assert modules == {module for module, _ in APIS.values()}


@each_api
def test_an_api_has_its_module_its_classes_and_a_route(key: int) -> None:
    module, name = APIS[key]
    assert module == snake(name)
    declared = import_module(f"aiokproto.codec.messages.{module}")
    request = getattr(declared, f"{name}Request")
    assert issubclass(request, Request)
    assert request.api_key == key
    assert request.response is getattr(declared, f"{name}Response")
    assert isinstance(request.route, Route)


@each_api
def test_an_api_has_a_handler_or_a_reason_against_one(key: int) -> None:
    homes = [key in SERVED, key in BETWEEN_NODES, key in NOT_SERVED]
    assert homes.count(True) == 1, "serve it, or list it in broker/handlers/refused.py"
    if key in NOT_SERVED:
        assert NOT_SERVED[key].startswith(f"{APIS[key][1]}: ")


def test_nothing_is_listed_that_does_not_exist() -> None:
    assert {*SERVED, *BETWEEN_NODES, *NOT_SERVED} == set(APIS)


@pytest.mark.parametrize("key", SERVED, ids=lambda key: APIS[key][1])
def test_a_served_api_has_a_handler_versions_and_permissions(key: int) -> None:
    handler = find(key)
    assert handler is not None
    known = registry.request(key).versions
    assert known.lowest <= handler.versions.lowest <= handler.versions.highest <= known.highest
    module = import_module(f"aiokproto.broker.handlers.{APIS[key][0]}")
    assert module.REQUIRES is handler.requires, "without a declaration only nodes of the cluster may send it"


def test_every_handler_is_in_the_table() -> None:
    served = {APIS[key][0] for key in SERVED}
    modules = {path.stem for path in HANDLERS.glob("*.py") if "async def handle(" in path.read_text()}
    assert modules - {"refused"} == served

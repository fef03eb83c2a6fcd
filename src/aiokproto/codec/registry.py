"""ApiKey or name → message class. A message's module is imported on first use."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from aiokproto.codec.registry_table import APIS, PAYLOADS
from aiokproto.codec.schema import Message, Request, Response
from aiokproto.errors import DecodeError

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

_KEYS = {name: key for key, (_, name) in APIS.items()}


def api_keys() -> list[int]:
    """Return all ApiKeys, ascending."""
    return list(APIS)


def api_name(api_key: int) -> str:
    """Return Kafka's name of an API; ``ApiKey(n)`` if it is unknown."""
    return APIS[api_key][1] if api_key in APIS else f"ApiKey({api_key})"


@cache
def request(api_key: int) -> type[Request[Any]]:
    """Return the request class of an ApiKey.

    Raises:
        DecodeError: The ApiKey is unknown.
    """
    found: type[Request[Any]] = _load(api_key, "Request")
    return found


@cache
def response(api_key: int) -> type[Response]:
    """Return the response class of an ApiKey. Raises the same errors as :func:`request`."""
    found: type[Response] = _load(api_key, "Response")
    return found


def lookup(name: str) -> type[Message]:
    """Return a message class by Kafka's name: ``"MetadataRequest"``, ``"OffsetCommitKey"``, ``"EndTxnMarker"``.

    Raises:
        KeyError: There is no message with that name. Suggests the most similar name.
    """
    for suffix in ("Request", "Response"):
        api = name.removesuffix(suffix)
        if api != name and api in _KEYS:
            message: type[Message] = _load(_KEYS[api], suffix)
            return message
    if name not in PAYLOADS:
        raise KeyError(f"no message is called {name!r}{_suggestion(name)}")
    payload: type[Message] = getattr(import_module(f"aiokproto.codec.{PAYLOADS[name]}"), name)
    return payload


def _suggestion(name: str) -> str:
    from difflib import get_close_matches

    names = [api + suffix for api in _KEYS for suffix in ("Request", "Response")] + list(PAYLOADS)
    # Wrong case is the most common mistake, but difflib counts it as much as a wrong letter.
    by_letters = {name.lower(): name for name in names}
    nearest = get_close_matches(name.lower(), by_letters, 1)
    return f": did you mean {by_letters[nearest[0]]}?" if nearest else ""


def payload_names() -> list[str]:
    """Return the names of all messages that are neither request nor response."""
    return list(PAYLOADS)


def _load(api_key: int, suffix: str) -> Any:
    if api_key not in APIS:
        raise DecodeError(f"ApiKey {api_key} is unknown")
    stem, name = APIS[api_key]
    return getattr(import_module(f"aiokproto.codec.messages.{stem}"), name + suffix)

"""Names and versions on the command line."""

from __future__ import annotations

from difflib import get_close_matches
from typing import NamedTuple

from aiokproto.codec.registry import api_keys, api_name, lookup, payload_names, request, response
from aiokproto.codec.schema import Message


class ToolError(Exception):
    """An error whose message is the line to print."""


class UsageError(ToolError):
    """The command line is wrong."""


class InputError(ToolError):
    """The input is wrong."""


class Target(NamedTuple):
    """The messages that a name refers to.

    Attributes:
        name: Kafka's name.
        api_key: The ApiKey, if the name is an API. If so, the messages are its request and response.
        messages: The classes.
    """

    name: str
    api_key: int | None
    messages: tuple[type[Message], ...]

    def request(self) -> type[Message]:
        """Return the request of an API, or the payload itself."""
        return self.messages[0]

    def response(self) -> type[Message]:
        """Return the response of an API, or the payload itself."""
        return self.messages[-1]


def find(text: str) -> Target:
    """Find an API by name or ApiKey, or an individual message by name. Case is ignored.

    Raises:
        UsageError: Nothing was found. The message suggests similar names.
    """
    apis = {api_name(key).lower(): key for key in api_keys()}
    key = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else apis.get(text.lower())
    if key in api_keys():
        return Target(api_name(key), key, (request(key), response(key)))
    singles = {f"{api_name(key)}{suffix}" for key in api_keys() for suffix in ("Request", "Response")}
    names = {name.lower(): name for name in [*payload_names(), *singles]}
    if text.lower() in names:
        name = names[text.lower()]
        message = lookup(name)
        return Target(name, getattr(message, "api_key", None), (message,))
    known = {name: api_name(key) for name, key in apis.items()} | names
    close = [known[name] for name in get_close_matches(text.lower(), known, n=3, cutoff=0.7)]
    hint = f"; did you mean {' or '.join(close)}?" if close else "; `list` shows all"
    raise UsageError(f"no API or message is called {text!r}{hint}")


def newest(message: type[Message]) -> int:
    """Return the highest stable version, or the highest version if none is stable."""
    stable = [v for v in range(message.versions.lowest, message.versions.highest + 1) if v not in message.unstable]
    return stable[-1] if stable else message.versions.highest


def checked_version(message: type[Message], text: str | int) -> int:
    """Parse a version of a message.

    Raises:
        UsageError: The text isn't a number, or isn't a version of the message.
    """
    try:
        version = int(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a version") from None
    if version not in message.versions:
        raise UsageError(f"{message.__name__} has versions {message.versions}, not {version}")
    return version

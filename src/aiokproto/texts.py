"""Formatting for errors, logs and options: numbers, addresses, text from peers, and objects of the application.

:func:`text_of` and :func:`repr_of` format the application's objects. Their ``__str__`` and ``__repr__`` are the
application's code, too, and may raise, but an error that cannot be formatted must still be handled, logged and raised.
"""

from __future__ import annotations

from collections.abc import Callable

_SHOWN = 500
"""Maximum number of characters to show: enough for any name that Kafka accepts (less than 250), and short enough for a
readable line in a log."""


def shortened(text: object, shown: int = _SHOWN) -> str:
    """Return text from a peer for an error or the log. If it's long, return its start and its length.

    A name in a response can be 32 kB long, and each waiting call repeats an error's message.
    """
    whole = text if isinstance(text, str) else repr(text)
    return whole if len(whole) <= shown else f"{whole[:shown]}… ({len(whole)} characters)"


def is_unicode(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8. It can't if it contains a lone surrogate, which can come from JSON
    or a file name."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def address(host: str, port: int) -> str:
    """Return ``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def counted(count: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun: ``1 record``, ``2 records``.

    ``nouns`` is the plural, if it isn't just an added s.
    """
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"


def text_of(value: object) -> str:
    """Return ``str(value)`` of an object of the application, or text that names its class if ``str`` raises."""
    return _written(str, value)


def repr_of(value: object, most: int | None = None) -> str:
    """Return the first ``most`` characters of ``repr(value)`` of an object of the application, or text that names its
    class if ``repr`` raises."""
    return _written(repr, value)[:most]


def _written(form: Callable[[object], str], value: object) -> str:
    try:
        return form(value)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, there is no text
        return f"<{type(value).__name__}, whose {form.__name__}() raises {type(error).__name__}>"

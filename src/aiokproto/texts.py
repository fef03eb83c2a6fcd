"""How errors, logs and options write numbers, addresses, texts of peers and objects of the application.

:func:`text_of` and :func:`repr_of` write the application's objects. Their ``__str__`` and ``__repr__`` are functions of
the application as well, and an error that cannot be written still has to be handled, logged and raised.
"""

from __future__ import annotations

from collections.abc import Callable

_SHOWN = 500
"""Characters that are shown: each name that Kafka accepts is shorter than 250, and a line of the log stays readable."""


def shortened(text: object, shown: int = _SHOWN) -> str:
    """Return a text of a peer for an error or the log; if it is long, its start and its length.

    A name in a response can have 32 kB, and an error text is repeated by each call that waits.
    """
    whole = text if isinstance(text, str) else repr(text)
    return whole if len(whole) <= shown else f"{whole[:shown]}… ({len(whole)} characters)"


def is_unicode(text: str) -> bool:
    """Return whether UTF-8 can encode a text. It can't encode a lone surrogate, which JSON and file names can bring
    in."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def address(host: str, port: int) -> str:
    """Return ``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def counted(count: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun: ``1 record``, ``2 records``. ``nouns`` is a plural that does not just add an s."""
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"


def text_of(value: object) -> str:
    """Return ``str(value)`` of an object of the application; its class, if that raises."""
    return _written(str, value)


def repr_of(value: object, most: int | None = None) -> str:
    """Return the first ``most`` characters of ``repr(value)`` of an object of the application; its class, if that
    raises."""
    return _written(repr, value)[:most]


def _written(form: Callable[[object], str], value: object) -> str:
    try:
        return form(value)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, there is no text
        return f"<{type(value).__name__}, whose {form.__name__}() raises {type(error).__name__}>"

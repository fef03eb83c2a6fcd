"""Secrets: where they come from, and how to read them without revealing them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

from aiokproto.application.calls import failure, without_text
from aiokproto.errors import BrokerConnectionError, ConfigurationError, KafkaError
from aiokproto.texts import is_unicode

SecretSource: TypeAlias = "str | Path | Callable[[], str | Awaitable[str]]"
"""The secret as text, a file that contains it, or a function that returns it."""

MAX_FILE_SIZE = 1 << 20
"""Maximum length of a file that contains a secret, in characters."""

_NO_UNICODE = "the text has a lone surrogate, which UTF-8 cannot have: was it decoded with errors='surrogateescape'?"


class Secret:
    """A secret in an option: text, the :class:`~pathlib.Path` of a file, or a function, async or not.

    A file is read, and a function called, again for each authentication. A line break at the end of a file is removed.

    Args:
        option: The option's name, for errors.
        source: Where the secret comes from.

    Raises:
        ConfigurationError: The source is none of these, or it's an empty string.
    """

    __slots__ = ("_source", "option")

    def __init__(self, option: str, source: SecretSource) -> None:
        self.option = option
        if not callable(source) and not isinstance(source, str | Path):
            raise ConfigurationError(f"{option}: expected text, a pathlib.Path of a file, or a function")
        if source == "":
            raise ConfigurationError(f"{option} is empty")
        if isinstance(source, str) and not is_unicode(source):
            raise ConfigurationError(f"{option}: {_NO_UNICODE}")
        self._source: Any = source

    @property
    def is_file(self) -> bool:
        """Whether the secret comes from a file."""
        return isinstance(self._source, Path)

    @property
    def text(self) -> str:
        """The secret, if it was given as text; otherwise empty."""
        return self._source if isinstance(self._source, str) else ""

    def read_file(self) -> str:
        """Return the secret in the file. This blocks, and raises the same errors as :meth:`read`."""
        assert isinstance(self._source, Path)
        try:
            text = read_file(self._source)
        except Exception as error:
            raise BrokerConnectionError(f"{self.option} cannot be read: {type(error).__name__}: {error}") from error
        return self._checked(text)

    async def read(self) -> str:
        """Return the secret. A file is read in the event loop.

        Raises:
            BrokerConnectionError: The file can't be read, or the function failed. The authentication is retried later,
                like a failed connection.
            KafkaError: The function raised it.
        """
        source = self._source
        if self.is_file:
            return self.read_file()
        try:
            if callable(source):
                text: Any = source()
                if inspect.isawaitable(text):
                    text = await text
            else:
                text = source
        except KafkaError:
            raise
        except BaseException as error:  # noqa: BLE001 - failure() passes on what ends the task
            raised = failure(error, self.option, awaited=True)
            raise BrokerConnectionError(f"{self.option} cannot be read: {without_text(raised)}") from raised
        return self._checked(text)

    def _checked(self, text: Any) -> str:
        # Leave the value out of errors: it may be the secret in another form.
        if not isinstance(text, str) or not text:
            what = "empty text" if text == "" else type(text).__name__
            raise BrokerConnectionError(f"{self.option} gave {what}: expected text")
        if not is_unicode(text):
            raise BrokerConnectionError(f"{self.option}: {_NO_UNICODE}")
        return text

    def __repr__(self) -> str:
        if isinstance(self._source, Path):
            return f"<{self.option} from {self._source}>"
        return f"<{self.option}>"


def padding(option: str, text: str) -> str:
    """Return a hint if a text starts or ends with white space, as if encoded with its line break; otherwise ``""``."""
    return f"; {option} begins or ends with white space" if text != text.strip() else ""


def read_file(path: Path) -> str:
    """Return the text of a file, without the line break at its end.

    Raises:
        OSError: The file can't be read.
        ValueError: The file is longer than :data:`MAX_FILE_SIZE`, or isn't UTF-8.
    """
    with path.open(encoding="utf-8") as file:
        try:
            text = file.read(MAX_FILE_SIZE + 1)
        except UnicodeDecodeError:
            # Replace the error: it contains the bytes, and shows the first one that can't be decoded.
            raise ValueError(f"{path}: it is not UTF-8") from None
    if len(text) > MAX_FILE_SIZE:
        raise ValueError(f"{path} is longer than {MAX_FILE_SIZE} characters")
    return text.removesuffix("\n").removesuffix("\r")

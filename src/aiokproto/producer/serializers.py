"""Serializers convert the application's keys and values to bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic

from aiokproto.application.calls import CallbackError, check_not_awaitable, failure
from aiokproto.errors import ConfigurationError, SerializationError
from aiokproto.runtime.coroutines import is_async, resumed
from aiokproto.runtime.timeouts import deadline_at
from aiokproto.texts import repr_of
from aiokproto.types import K, V


class Serializers(Generic[K, V]):
    """The serializers for keys and values.

    Attributes:
        is_async: Whether one of them has to be awaited. If so, use :meth:`apply_later`, otherwise :meth:`apply`.
    """

    __slots__ = ("_key", "_max_block", "_value", "is_async")

    def __init__(
        self,
        key: Callable[[K], Awaitable[bytes] | bytes] | None,
        value: Callable[[V], Awaitable[bytes] | bytes] | None,
        max_block: float,
    ) -> None:
        """Create the serializers. None means that keys or values are already bytes. ``max_block`` limits an await (s).

        Raises:
            ConfigurationError: A serializer isn't callable.
        """
        for name, given in (("key_serializer", key), ("value_serializer", value)):
            if given is not None and not callable(given):
                raise ConfigurationError(f"{name}={given!r}: expected a function that returns bytes")
        self._max_block = max_block
        self._key = ("key", key, is_async(key))
        self._value = ("value", value, is_async(value))
        self.is_async = self._key[2] or self._value[2]

    def __bool__(self) -> bool:
        """Whether there is a serializer."""
        return self._key[1] is not None or self._value[1] is not None

    def apply(self, key: K | None, value: V | None) -> tuple[bytes | None, bytes | None]:
        """Return the bytes of the key and the value.

        Raises:
            SerializationError: A serializer has failed.
        """
        encoded: list[Any] = [key, value]
        for position, (name, serializer, _) in enumerate((self._key, self._value)):
            # Serializers aren't called with None, which means that there's no key, or that the value is a tombstone.
            if encoded[position] is not None and serializer is not None:
                try:
                    encoded[position] = serializer(encoded[position])
                except BaseException as error:  # noqa: BLE001 - failure() passes on what ends the task
                    raised = failure(error, f"{name}_serializer")
                    raise SerializationError(f"{name}_serializer failed: {repr_of(raised)}") from raised
                if type(encoded[position]) is not bytes:
                    _check_bytes(name, encoded[position])
        return encoded[0], encoded[1]

    async def apply_later(self, key: K | None, value: V | None) -> tuple[bytes | None, bytes | None]:
        """Like :meth:`apply`, for serializers that have to be awaited.

        Raises:
            DeadlineError: A serializer did not return in time.
        """
        work = self._apply_later(key, value)
        # Usually nothing blocks, so there's no need for a deadline.
        try:
            waits_for = work.send(None)
        except StopIteration as done:
            encoded: tuple[bytes | None, bytes | None] = done.value
            return encoded
        async with deadline_at(asyncio.get_running_loop().time() + self._max_block, self._late):
            return await resumed(work, waits_for)

    def _late(self) -> str:
        names = " or ".join(f"{name}_serializer" for name, _, awaited in (self._key, self._value) if awaited)
        return f"{names} did not return within max_block_ms={self._max_block * 1000:g}"

    async def _apply_later(self, key: K | None, value: V | None) -> tuple[bytes | None, bytes | None]:
        encoded: list[Any] = [key, value]
        result: Any
        for position, (name, serializer, awaited) in enumerate((self._key, self._value)):
            if encoded[position] is not None and serializer is not None:
                try:
                    result = serializer(encoded[position])
                    encoded[position] = await result if awaited else result
                except BaseException as error:  # noqa: BLE001 - failure() passes on what ends the task
                    raised = failure(error, f"{name}_serializer", awaited=awaited)
                    raise SerializationError(f"{name}_serializer failed: {repr_of(raised)}") from raised
                if type(encoded[position]) is not bytes:
                    _check_bytes(name, encoded[position])
        return encoded[0], encoded[1]


def _check_bytes(name: str, encoded: object) -> None:
    if encoded is not None and not isinstance(encoded, bytes | bytearray | memoryview):
        try:
            check_not_awaitable(encoded, f"{name}_serializer")
        except CallbackError as error:
            raise SerializationError(f"{name}_serializer failed: {error}") from error
        raise SerializationError(f"{name}_serializer returned {type(encoded).__name__}, not bytes")

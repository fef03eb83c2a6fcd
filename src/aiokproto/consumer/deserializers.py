"""Deserializers, which turn the bytes of records into the application's keys and values."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import CoroutineType
from typing import Any, Generic, Literal, cast

from aiokproto.application.calls import CallbackError, failure
from aiokproto.errors import ConfigurationError, RecordDeserializationError
from aiokproto.runtime.coroutines import is_async
from aiokproto.texts import repr_of
from aiokproto.types import DeserializedRecord, K, Record, V

NOT_ABOUT_THE_RECORD = (ConnectionError, TimeoutError, asyncio.TimeoutError, CallbackError)
"""Errors of a service that a deserializer uses, such as a schema registry. A retry can succeed, while skipping would
lose records. In Python 3.10, ``asyncio.TimeoutError`` is a separate class. A CallbackError means that something else
cancelled the lookup."""


class Deserializers(Generic[K, V]):
    """The deserializers of keys and of values.

    Attributes:
        is_async: Whether one of them has to be awaited. If so, call :meth:`apply_later`, else :meth:`apply`.
        awaited: The options that are awaited, for messages.
    """

    __slots__ = ("_key", "_value", "awaited", "is_async")

    def __init__(
        self,
        key: Callable[[bytes], Awaitable[K] | K] | None,
        value: Callable[[bytes], Awaitable[V] | V] | None,
    ) -> None:
        """Pass None for keys or values that stay bytes.

        Raises:
            ConfigurationError: One of them isn't callable.
        """
        for name, given in (("key_deserializer", key), ("value_deserializer", value)):
            if given is not None and not callable(given):
                raise ConfigurationError(f"{name}={given!r}: expected a function of bytes")
        # Check this only once: checking whether each result is awaitable would cost as much as a typical deserializer.
        self._key = (key, is_async(key))
        self._value = (value, is_async(value))
        self.is_async = self._key[1] or self._value[1]
        names = {"key_deserializer": self._key[1], "value_deserializer": self._value[1]}
        self.awaited = " or ".join(name for name, awaited in names.items() if awaited)

    def __bool__(self) -> bool:
        """Whether there is a deserializer."""
        return self._key[0] is not None or self._value[0] is not None

    def apply(self, record: Record) -> Record[K, V]:
        """Return the record with key and value deserialized.

        Raises:
            RecordDeserializationError: A deserializer has failed.
            ConnectionError, TimeoutError, CallbackError: A deserializer has raised it. The record isn't at fault, and
                can be tried again.
            ConfigurationError: It returned a coroutine but isn't a coroutine function.
        """
        key: Any = record.key
        value: Any = record.value
        origin: Literal["key", "value"] = "key"
        try:
            # None is never deserialized: a tombstone stays a tombstone.
            if key is not None and self._key[0] is not None:
                key = self._key[0](key)
            origin = "value"
            if value is not None and self._value[0] is not None:
                value = self._value[0](value)
        except NOT_ABOUT_THE_RECORD:
            raise
        except BaseException as error:
            raise _failed(record, origin, failure(error, f"{origin}_deserializer")) from error
        if type(key) is CoroutineType or type(value) is CoroutineType:
            raise self._refuse(key, value)
        return DeserializedRecord(record, key, value)

    async def apply_later(self, record: Record) -> Record[K, V]:
        """Like :meth:`apply`, but await the deserializers that are coroutine functions."""
        made: list[Any] = [record.key, record.value]
        origin: Literal["key", "value"] = "key"
        try:
            for index, (deserializer, awaited) in enumerate((self._key, self._value)):
                origin = "value" if index else "key"
                if made[index] is not None and deserializer is not None:
                    result = deserializer(made[index])
                    made[index] = await cast("Awaitable[Any]", result) if awaited else result
        except NOT_ABOUT_THE_RECORD:
            raise
        except BaseException as error:
            raise _failed(record, origin, failure(error, f"{origin}_deserializer", awaited=True)) from error
        return DeserializedRecord(record, *made)

    def _refuse(self, key: object, value: object) -> ConfigurationError:
        """Return the error for a plain function that returns coroutines."""
        name, given, made = ("key", self._key, key) if isinstance(key, CoroutineType) else ("value", self._value, value)
        # Close them: Python warns about coroutines that are never awaited.
        for made_of in (key, value):
            if isinstance(made_of, CoroutineType):
                made_of.close()
        return ConfigurationError(
            f"{name}_deserializer={repr_of(given[0])} is no coroutine function, so what it returned is not awaited: "
            f"{repr_of(made, 80)}; pass the coroutine function itself"
        )


def _failed(record: Record, origin: Literal["key", "value"], error: Exception) -> Exception:
    if isinstance(error, CallbackError):
        return error
    return RecordDeserializationError(
        f"{record.topic}-{record.partition}: the {origin} of the record at offset {record.offset} cannot be "
        f"deserialized: {repr_of(error)}",
        record,
        origin,
    )

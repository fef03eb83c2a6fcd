"""Interceptors: methods that are called for each record, and may change it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiokproto.application.calls import check_not_awaitable
from aiokproto.errors import ConfigurationError, KafkaError
from aiokproto.hooks import FailureLog
from aiokproto.texts import repr_of
from aiokproto.types import Header, Record, RecordMetadata


@dataclass(frozen=True, eq=False)
class OutgoingRecord:
    """A record that was passed to a producer. ``dataclasses.replace`` creates a modified copy.

    Attributes:
        topic: The topic.
        value: The value that the application passed.
        key: The key.
        headers: Keys and values, in order.
        partition: The partition; None if the partitioner chooses it.
        timestamp: Milliseconds since the epoch; None for the current time.
        context: Objects that interceptors store between :meth:`Interceptor.on_send` and
            :meth:`Interceptor.on_acknowledgement`. Copies of the record share it.
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp: int | None = None
    context: dict[Any, Any] = field(default_factory=dict)


class Interceptor:
    """A base class. Override the methods you need. One object can serve both a producer and a consumer.

    If a method raises, the error is logged, and the record is processed unchanged. Interceptors aren't called for Arrow
    tables and whole batches (``send_batch()``, ``batches()``): their records are never decoded.
    """

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        """Return the record to send, before it is checked and partitioned."""
        return record

    def on_acknowledgement(
        self, record: OutgoingRecord, metadata: RecordMetadata | None, error: KafkaError | None
    ) -> None:
        """Called with the outcome of a record from :meth:`on_send`: where it was written, or why it wasn't."""

    def on_records(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return the records to deliver, in order. The records are from one partition, and were decoded together.

        Records can be left out or replaced, but offsets must not change: positions and commits depend on them.
        """
        return records


class Interceptors:
    """Calls several interceptors in order.

    Attributes:
        sending: Whether any of them handles records that are sent.
        receiving: Whether any of them handles records that are delivered.
    """

    def __init__(self, interceptors: Iterable[Interceptor] = ()) -> None:
        given = list(interceptors)
        # Each method gets its own failure log, so frequent failures of one method don't hide the first failure of
        # another.
        self._sends = [(one, _log(one, "on_send")) for one in given]
        self._acks = [(one, _log(one, "on_acknowledgement")) for one in given]
        self._records = [(one, _log(one, "on_records")) for one in given]
        self.sending = any(_overrides(one, "on_send", "on_acknowledgement") for one in given)
        self.receiving = any(_overrides(one, "on_records") for one in given)

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        """Return the record to send."""
        for interceptor, failures in self._sends:
            try:
                found = interceptor.on_send(record)
                if not isinstance(found, OutgoingRecord):
                    check_not_awaitable(found, "on_send")
                    raise TypeError(f"on_send returned {repr_of(found, 80)}: expected an OutgoingRecord")
                record = found
            except BaseException as error:  # noqa: BLE001 - the application's code; FailureLog logs it
                failures.log(error)
        return record

    def on_acknowledgement(
        self, record: OutgoingRecord, metadata: RecordMetadata | None, error: KafkaError | None
    ) -> None:
        """Pass the outcome on to the interceptors."""
        for interceptor, failures in self._acks:
            try:
                # The result should be None, so type checkers complain that it's used.
                result: object = interceptor.on_acknowledgement(record, metadata, error)  # type: ignore[func-returns-value]
                if result is not None:
                    check_not_awaitable(result, "on_acknowledgement")
            except BaseException as failure:  # noqa: BLE001 - the application's code; FailureLog logs it
                failures.log(failure)

    def on_records(self, records: list[Record]) -> list[Record]:
        """Return the records to deliver."""
        found: Sequence[Record] = records
        for interceptor, failures in self._records:
            try:
                kept = interceptor.on_records(found)
                check_not_awaitable(kept, "on_records")
                found = _records(kept)
            except BaseException as error:  # noqa: BLE001 - the application's code; FailureLog logs it
                failures.log(error)
        return list(found)


NO_INTERCEPTORS = Interceptors()
"""For clients without interceptors."""


def parse_interceptors(name: str, value: object) -> Interceptors:
    """Parse the option ``interceptors``: None, one object, or several.

    Raises:
        ConfigurationError: An object's class isn't derived from :class:`Interceptor`.
    """
    if value is None:
        return NO_INTERCEPTORS
    given: Iterable[object] = value if isinstance(value, list | tuple) else [value]
    for interceptor in given:
        if not isinstance(interceptor, Interceptor):
            raise ConfigurationError(f"{name}={interceptor!r}: expected an object of a class derived from Interceptor")
    return Interceptors(one for one in given if isinstance(one, Interceptor))


def _records(kept: Sequence[Record]) -> list[Record]:
    records = list(kept)
    for record in records:
        if not isinstance(record, Record):
            raise TypeError(f"on_records returned {repr_of(record, 80)} in its list: expected records")
    return records


def _log(interceptor: Interceptor, method: str) -> FailureLog:
    return FailureLog(f"{type(interceptor).__qualname__}.{method}")


def _overrides(interceptor: Interceptor, *methods: str) -> bool:
    return any(getattr(type(interceptor), method) is not getattr(Interceptor, method) for method in methods)

"""Interceptors: calls that see, and may change, each record. Pure."""

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
    """A record on its way into the producer; ``dataclasses.replace`` changes it.

    Attributes:
        topic: The topic.
        value: The value, as the application passed it.
        key: The key.
        headers: Keys and values, in order.
        partition: The partition; None leaves it to the partitioner.
        timestamp: Milliseconds since the epoch; None for now.
        context: Whatever interceptors keep between the two calls. Copies of the record share it.
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp: int | None = None
    context: dict[Any, Any] = field(default_factory=dict)


class Interceptor:
    """A base class: override what you need. One object can serve a producer and a consumer.

    An exception is logged, and the record goes on as it was. Records of Arrow tables, and whole batches
    (``send_batch()``, ``batches()``), pass without: they are never decoded.
    """

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        """Return the record to send, before it is checked and partitioned."""
        return record

    def on_acknowledgement(
        self, record: OutgoingRecord, metadata: RecordMetadata | None, error: KafkaError | None
    ) -> None:
        """Take note of the outcome of a record from :meth:`on_send`: where it was written, or why not."""

    def on_records(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return the records to deliver, in order: those of one partition that were decoded together.

        Records can be left out or replaced. Their offsets must stay: positions and commits follow from them.
        """
        return records


class Interceptors:
    """Several interceptors as one, called in their order.

    Attributes:
        sending: Whether any of them concerns records that are sent.
        receiving: Whether any of them concerns records that are delivered.
    """

    def __init__(self, interceptors: Iterable[Interceptor] = ()) -> None:
        given = list(interceptors)
        # Per method: the failures of one must not hide the first of another.
        self._sends = [(each, FailureLog(f"{type(each).__qualname__}.on_send")) for each in given]
        self._acks = [(each, FailureLog(f"{type(each).__qualname__}.on_acknowledgement")) for each in given]
        self._records = [(each, FailureLog(f"{type(each).__qualname__}.on_records")) for each in given]
        self.sending = any(_overrides(each, "on_send", "on_acknowledgement") for each in given)
        self.receiving = any(_overrides(each, "on_records") for each in given)

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        """Return the record to send."""
        for each, failures in self._sends:
            try:
                found = each.on_send(record)
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
        """Report an outcome."""
        for each, failures in self._acks:
            try:
                # Type checkers know that there is none.
                result: object = each.on_acknowledgement(record, metadata, error)  # type: ignore[func-returns-value]
                if result is not None:
                    check_not_awaitable(result, "on_acknowledgement")
            except BaseException as failure:  # noqa: BLE001 - the application's code; FailureLog logs it
                failures.log(failure)

    def on_records(self, records: list[Record]) -> list[Record]:
        """Return the records to deliver."""
        found: Sequence[Record] = records
        for each, failures in self._records:
            try:
                kept = each.on_records(found)
                check_not_awaitable(kept, "on_records")
                found = _records(kept)
            except BaseException as error:  # noqa: BLE001 - the application's code; FailureLog logs it
                failures.log(error)
        return list(found)


NO_INTERCEPTORS = Interceptors()
"""What a client without interceptors has."""


def parse_interceptors(name: str, value: object) -> Interceptors:
    """Read the option ``interceptors``: None, one object, or several.

    Raises:
        ConfigurationError: Something in it is not derived from :class:`Interceptor`.
    """
    if value is None:
        return NO_INTERCEPTORS
    given: Iterable[object] = value if isinstance(value, list | tuple) else [value]
    for each in given:
        if not isinstance(each, Interceptor):
            raise ConfigurationError(f"{name}={each!r}: expected an object of a class derived from Interceptor")
    return Interceptors(each for each in given if isinstance(each, Interceptor))


def _records(kept: Sequence[Record]) -> list[Record]:
    records = list(kept)
    for each in records:
        if not isinstance(each, Record):
            raise TypeError(f"on_records returned {repr_of(each, 80)} in its list: expected records")
    return records


def _overrides(interceptor: Interceptor, *methods: str) -> bool:
    return any(getattr(type(interceptor), method) is not getattr(Interceptor, method) for method in methods)

"""Methods and arguments of other Kafka clients that have no counterpart here, and what to call instead."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, ClassVar, TypeVar

from aiokproto.errors import ConfigurationError

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P")

R = TypeVar("R")
T = TypeVar("T", bound=type)

_TRANSACTION = "use `async with producer.transaction() as txn`, and txn.send() in it"
_OFFSETS = "call `await txn.send_offsets(consumer)` in a transaction"
_CLOSE = "call `await {}.close()`, or use `async with`"
_TOPICS = "call `await client.metadata()` of an aiokproto.Client"
_CONNECTED = "leave it out: start() raises if no broker can be used"
_POLL = "call `await consumer.poll(timeout_ms=..., max_records=...)`, which returns a list"
_COOPERATIVE = "leave it out: the consumer follows the assignments of its group by itself"
_TIMEOUT = "pass timeout_ms, in milliseconds"
_CALLBACKS = "pass the functions on_assigned, on_revoked and on_lost"

PRODUCER_METHODS = {
    "send_and_wait": "call `await producer.send(topic, value)`",
    "produce": "call `await producer.send(topic, value)`, or post() to await the acknowledgement later",
    "produce_batch": "call `await producer.send_many(topic, records)`",
    "create_batch": "call `await producer.send_many(topic, records)`",
    "poll": "leave it out: deliveries arrive without it; await the Delivery of post()",
    "purge": "call `await producer.abort()`",
    "stop": _CLOSE.format("producer"),
    "init_transactions": "leave it out: start() acquires the producer id",
    "begin_transaction": _TRANSACTION,
    "commit_transaction": _TRANSACTION,
    "abort_transaction": f"{_TRANSACTION}; an exception aborts, and so does `await txn.abort()`",
    "send_offsets_to_transaction": _OFFSETS,
    "bootstrap_connected": _CONNECTED,
    "list_topics": _TOPICS,
    "metrics": "call `producer.stats()`",
}
"""Method → what to do instead."""

CONSUMER_METHODS = {
    "getone": "call `await anext(consumer)`, or use `async for record in consumer`",
    "getmany": _POLL,
    "consume": _POLL,
    "stop": _CLOSE.format("consumer"),
    "commit_async": "call `await consumer.commit()`, in a task of its own if nothing shall wait for it",
    "store_offsets": "leave it out: processed records are committed automatically, and commit() commits them now",
    "get_watermark_offsets": "call `await consumer.beginning_offsets(partition)` and end_offsets(partition)",
    "highwater": "call `await consumer.end_offsets(partition)`, or lag(partition), which sends no request",
    "last_stable_offset": 'call `await consumer.end_offsets(partition)` with isolation_level="read_committed"',
    "seek_to_committed": "seek() to what `await consumer.committed()` returns",
    "incremental_assign": _COOPERATIVE,
    "incremental_unassign": _COOPERATIVE,
    "unassign": "call `await consumer.unsubscribe()`",
    "consumer_group_metadata": _OFFSETS,
    "bootstrap_connected": _CONNECTED,
    "topics": _TOPICS,
    "list_topics": _TOPICS,
    "metrics": "call `consumer.stats()`",
}
"""Method → what to do instead."""

_ACKNOWLEDGE = "call consumer.accept(record), release(), reject() or renew()"

SHARE_CONSUMER_METHODS = {
    "acknowledge": _ACKNOWLEDGE,
    "commit_async": "call `await consumer.commit()`, in a task of its own if nothing shall wait for it",
    "commit_sync": "call `await consumer.commit()`",
    "stop": _CLOSE.format("consumer"),
}
"""Method → what to do instead."""

_ADMIN = "send the request with `await client.request(...)`: docs/howto/admin.md has examples"

CLIENT_METHODS = dict.fromkeys(
    [
        *("create_topics", "delete_topics", "create_partitions", "describe_topics", "list_topics", "delete_records"),
        *("describe_configs", "alter_configs", "incremental_alter_configs", "describe_cluster", "list_offsets"),
        *("list_consumer_groups", "describe_consumer_groups", "delete_consumer_groups"),
        *("list_consumer_group_offsets", "alter_consumer_group_offsets", "create_acls", "describe_acls", "delete_acls"),
    ],
    _ADMIN,
)
"""Method of admin clients → what to do instead."""


class _WithoutForeign(ABCMeta):
    """Leaves methods that do not exist out of ``dir()`` of a class.

    An ABCMeta, so that applications can derive from a client and an abstract class.
    """

    def __dir__(cls) -> list[str]:
        return _existing(cls, super().__dir__())


class ForeignCalls(metaclass=_WithoutForeign):
    """A base class: a method that only a similar class has raises an error that says what to do instead."""

    __slots__ = ()

    foreign_methods: ClassVar[Mapping[str, str]] = {}
    """Method → what to do instead. Names that the class has by itself are left alone."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        # Not __getattr__: a class that has one pays for it at every attribute access, and post() is one per record.
        for name, hint in vars(cls).get("foreign_methods", {}).items():
            if not hasattr(cls, name):
                setattr(cls, name, _ForeignMethod(name, hint))

    def __dir__(self) -> list[str]:
        return _existing(type(self), super().__dir__())


def _existing(cls: type, names: Iterable[str]) -> list[str]:
    """Leave out the names whose lookup raises a hint: completion must not offer them, nor a proxy copy them."""
    foreign = getattr(cls, "foreign_methods", {})
    return [name for name in names if name not in foreign or hasattr(cls, name)]


class _ForeignMethod:
    """A method that does not exist: looking it up raises the hint, and ``hasattr`` is False."""

    def __init__(self, name: str, hint: str) -> None:
        self._name = name
        self._hint = hint

    def __get__(self, instance: object, owner: type) -> object:
        raise AttributeError(f"{owner.__name__!r} object has no attribute {self._name!r}: {self._hint}")


def options_by_name(init: Callable[P, R]) -> Callable[P, R]:
    """Make a constructor that takes options by name alone raise a ``ConfigurationError`` that says so."""

    @wraps(init)
    def checked(*args: P.args, **named: P.kwargs) -> R:
        if len(args) > 1:
            name = type(args[0]).__name__
            raise ConfigurationError(
                f"{name}({type(args[1]).__name__}): pass options as keyword arguments: {name}(bootstrap_servers=...)"
            )
        return init(*args, **named)

    return checked


def named_after(public: str) -> Callable[[T], T]:
    """Name the methods of a base class after the public class, as the texts of Python's own errors have their names."""

    def rename(base: T) -> T:
        for name, method in vars(base).items():
            while isinstance(method, FunctionType):
                method.__qualname__ = f"{public}.{name}"
                method = getattr(method, "__wrapped__", None)
        return base

    return rename


def foreign_arguments(**hints: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a method raise a ``TypeError`` for arguments of other clients that says what to pass instead.

    For methods that are not called for every record: it takes one more Python call.

    Args:
        hints: Argument → what to do instead.
    """

    def mark(method: Callable[P, R]) -> Callable[P, R]:
        @wraps(method)
        def checked(*args: P.args, **named: P.kwargs) -> R:
            for name in named:
                if name in hints:
                    raise TypeError(f"{method.__qualname__}() has no argument {name!r}: {hints[name]}")
            return method(*args, **named)

        return checked

    return mark


foreign_timeout = foreign_arguments(timeout=_TIMEOUT)
foreign_close = foreign_arguments(timeout=_TIMEOUT, autocommit="leave it out: enable_auto_commit decides")
foreign_poll = foreign_arguments(
    timeout=_TIMEOUT,
    num_messages="pass max_records",
    max_poll_records="pass max_records",
    update_offsets="leave it out: the position follows the records",
)
foreign_commit = foreign_arguments(
    timeout=_TIMEOUT,
    message="pass the record: commit(record)",
    asynchronous="leave it out: `await` the call, or run it in a task",
)
foreign_subscribe = foreign_arguments(
    topics='pass topics as separate arguments: subscribe("a", "b")',
    listener=_CALLBACKS,
    on_assign="pass on_assigned",
    on_revoke="pass on_revoked",
)

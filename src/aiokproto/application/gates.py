"""What may be called when: each public method of the clients has a `Use`, and each use says what refuses it.

The tables at the end are complete: a class with a public method that its table lacks is refused when it is imported.
`gated` puts the question before the method. Methods that run for every record don't ask there, but where they have to
leave their fast path anyway (`Inside`): an append without an open batch, a read without an open record. An event that
becomes an obstacle closes the fast path, so that the next call comes through the gate:

- the end of the producer or the transaction: no topic is ready for its writer (``Buffer.close_session``);
- ``run()``, and an ``ExactlyOnce``: they own the reader, and leave no record open (``Reader.owner``);
- another thread: appends compare its id, and `Home` the running event loop;
- a fork: in the child every `Home` has been left (``on_fork``).

Copies and pickles are refused altogether: they would share the connections and tasks of the original.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import wraps
from inspect import iscoroutinefunction
from types import FunctionType
from typing import Any, NamedTuple, NoReturn, TypeVar

from aiokproto.application.hints import refuse_arguments
from aiokproto.errors import ConfigurationError, KafkaError
from aiokproto.runtime import thread_id

T = TypeVar("T", bound=type)


class Obstacle(Enum):
    """The situations that can prevent a call. If there are several, the first gives the error."""

    OTHER_PROCESS = auto()
    """A child of the process that has started the client."""
    OTHER_THREAD = auto()
    """A thread without a running event loop, which is not the client's."""
    OTHER_LOOP = auto()
    """Another event loop than the client's, or none in its thread."""
    NOT_STARTED = auto()
    CLOSING = auto()
    """``close()`` was called, and has not returned."""
    CLOSED = auto()
    FAILED = auto()
    """A task of the client has ended, or the brokers refuse it for good."""
    CALLBACK = auto()
    """A rebalance callback, for which deliveries and the end wait."""
    SESSION = auto()
    """The client belongs to an ``ExactlyOnce``."""
    RUN = auto()
    """``run()`` runs."""


AWAY = frozenset({Obstacle.OTHER_PROCESS, Obstacle.OTHER_THREAD, Obstacle.OTHER_LOOP})
ENDED = frozenset({Obstacle.CLOSED, Obstacle.FAILED})
OUT_OF_USE = ENDED | {Obstacle.NOT_STARTED}

_AWAY_TEXTS = {
    Obstacle.OTHER_PROCESS: "this {} was started in another process, from which this one was forked: "
    "make one in each process, after the fork",
    Obstacle.OTHER_THREAD: "this {} was started in another event loop, which this thread does not run: "
    "use asyncio.run_coroutine_threadsafe() for coroutines, loop.call_soon_threadsafe() for other calls",
    Obstacle.OTHER_LOOP: "this {} was started in another event loop: use it in that one, or make one for each loop",
}


class Use(NamedTuple):
    """What a method does with its client, and what refuses that.

    Attributes:
        obstacles: What refuses it.
        instead: What to do instead, by obstacle that is none of the client's life; the error is a RuntimeError for
            calls that come at a wrong moment, and a ConfigurationError for an owner.
    """

    obstacles: frozenset[Obstacle]
    instead: Mapping[Obstacle, str] = {}


class Inside(NamedTuple):
    """A use that is checked inside the method, not before it.

    Attributes:
        use: The use.
        checked_by: What checks it.
    """

    use: Use
    checked_by: str


Table = Mapping[str, Use | Inside]
"""Method → what it does."""


class Home:
    """The event loop, the thread and the process in which a client was started.

    Attributes:
        loop: The event loop; None before the start.
    """

    __slots__ = ("__weakref__", "_kind", "_process", "_thread", "loop", "on_fork")

    def __init__(self, kind: str, on_fork: Callable[[], None] | None = None) -> None:
        """``kind`` names the client in errors; ``on_fork`` is called in a forked child, and closes the fast paths."""
        self.loop: asyncio.AbstractEventLoop | None = None
        self.on_fork = on_fork
        self._kind = kind
        self._thread = self._process = 0

    def enter(self) -> None:
        """The client is started in the running event loop."""
        self.loop = asyncio.get_running_loop()
        self._thread, self._process = thread_id(), os.getpid()
        if self.on_fork is not None:
            _HOMES.add(self)

    def away(self) -> Obstacle | None:
        """Return which obstacle the current process, thread or loop is; None at home, and before the start."""
        # A forked child has no running loop: asyncio compares the process.
        if self.loop is None or asyncio._get_running_loop() is self.loop:
            return None
        if os.getpid() != self._process:
            return Obstacle.OTHER_PROCESS
        if asyncio._get_running_loop() is None and thread_id() != self._thread:
            return Obstacle.OTHER_THREAD
        return Obstacle.OTHER_LOOP

    def check(self) -> None:
        """Raise ConfigurationError unless this is the client's event loop."""
        # asyncio primitives aren't thread-safe: a future of the other loop would never wake a task of this one.
        # guard: a client belongs to its event loop
        if self.loop is not None and asyncio._get_running_loop() is not self.loop:
            self._refuse()

    def _refuse(self) -> None:
        away = self.away()
        assert away is not None, "it is not the client's event loop"
        raise ConfigurationError(_AWAY_TEXTS[away].format(self._kind))


_HOMES: weakref.WeakSet[Home] = weakref.WeakSet()


def _forked() -> None:
    for home in list(_HOMES):
        if home.on_fork is not None:
            home.on_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def refuse(use: Use, obstacle: Obstacle, error: KafkaError | None = None) -> None:
    """Raise if the obstacle refuses the use: ``error``, or the use's text about what to do instead."""
    if obstacle not in use.obstacles:
        return
    if error is not None:
        raise error.with_traceback(None)
    kind = ConfigurationError if obstacle is Obstacle.SESSION else RuntimeError
    raise kind(use.instead[obstacle])


def gated(table: Table) -> Callable[[T], T]:
    """Return a class decorator: ask ``self._admit(use)`` before each method of the table, and refuse copies."""

    def guard(cls: T) -> T:
        if unknown := sorted(public_methods(cls) - table.keys()):
            raise TypeError(f"{cls.__name__}: aiokproto.application.gates says nothing of {', '.join(unknown)}")
        for name, use in table.items():
            owner = next(base for base in cls.__mro__ if name in vars(base))
            if isinstance(use, Use):
                # A base class that has `_admit` gets the gate itself and keeps its documentation. A base of several
                # classes has no gate.
                setattr(owner if hasattr(owner, "_admit") else cls, name, _guarded(vars(owner)[name], use))
        cls.__reduce__ = _refuse_copy  # type: ignore[method-assign,assignment]
        return cls

    return guard


def _refuse_copy(self: object) -> NoReturn:
    # pickle and copy call it. A copy would have the connections and tasks of the original: its start would fail, and
    # would close these.
    raise TypeError(
        f"{type(self).__name__} cannot be copied or pickled, because it belongs to its event loop: make another one "
        "where it is needed"
    )


def public_methods(cls: type) -> set[str]:
    """Return the names of methods that applications call, iteration included. Methods of Python's own protocols, and
    properties, do nothing with the client."""
    found = {name for name in dir(cls) if not name.startswith("_")} | ({"__aiter__", "__anext__"} & set(dir(cls)))
    return {name for name in found if callable(getattr(cls, name)) and not isinstance(getattr(cls, name), type)}


def _guarded(method: FunctionType, use: Use) -> Callable[..., Any]:
    if iscoroutinefunction(method):

        @wraps(method)
        async def awaited(self: Any, *args: Any, **named: Any) -> Any:
            self._admit(use)
            try:
                return await method(self, *args, **named)
            except TypeError:
                refuse_arguments(method.__qualname__, named)
                raise

        return awaited

    @wraps(method)
    def entered(self: Any, *args: Any, **named: Any) -> Any:
        self._admit(use)
        try:
            return method(self, *args, **named)
        except TypeError:
            refuse_arguments(method.__qualname__, named)
            raise

    return entered


# -- the uses

START = Use(frozenset())
"""Happens once; the method itself says what was before."""
REPORT = Use(AWAY)
"""Reports what the client knows, without I/O, even before the start and after the end."""
END = Use(AWAY)
"""Ends something, or requests the end; a second call has no effect."""
ASK = Use(AWAY | OUT_OF_USE)
"""Asks brokers, and moves nothing."""
CHOOSE = Use(AWAY | ENDED)
"""Chooses what is read, or whether; possible before the start, too."""
CREATE = Use(AWAY)
"""Makes an object that is checked when it is used."""
WRITE = Use(AWAY | OUT_OF_USE | {Obstacle.CLOSING})
"""Writes records, or waits for them."""
WRITE_MANY = Use(AWAY)
"""Writes records; an obstacle is the outcome of the records that it keeps from being written."""

_READS = AWAY | OUT_OF_USE | {Obstacle.CLOSING, Obstacle.CALLBACK, Obstacle.SESSION, Obstacle.RUN}
_CALLBACK = "records cannot be requested in a rebalance callback: delivery waits for the callback"
READ = Use(
    _READS,
    {
        Obstacle.CALLBACK: _CALLBACK,
        Obstacle.SESSION: "an ExactlyOnce reads this consumer: take the records of its batches(), or of its run()",
        Obstacle.RUN: "run() reads the records of this consumer, until it returns: stop_run() ends it",
    },
)
"""Takes records, after which the ones before count as processed."""
DELIVER = Use(READ.obstacles - {Obstacle.SESSION, Obstacle.RUN}, READ.instead)
"""Does the same as :data:`READ` for the owner of the reader."""
RUN = Use(
    _READS,
    {
        Obstacle.CALLBACK: _CALLBACK,
        Obstacle.SESSION: "run() cannot read the consumer of an ExactlyOnce, which commits by itself: call the run() "
        "of the session",
        Obstacle.RUN: "run() is running already: stop_run() ends it",
    },
)
"""Takes records until it ends."""
COMMIT = Use(
    AWAY | OUT_OF_USE | {Obstacle.SESSION},
    {
        Obstacle.SESSION: "an ExactlyOnce commits the offsets of this consumer in its transactions: request the next "
        "batch, which commits the one before"
    },
)
"""Commits offsets."""
SEEK = Use(
    AWAY | ENDED | {Obstacle.SESSION},
    {
        Obstacle.SESSION: "an ExactlyOnce moves the positions of this consumer: abort the transaction, and the batch "
        "comes again"
    },
)
"""Moves positions."""
BEGIN = Use(
    AWAY | {Obstacle.SESSION},
    {Obstacle.SESSION: "an ExactlyOnce begins the transactions of this producer: write in the one of its batch"},
)
"""Makes a transaction."""
DECIDE = Use(
    AWAY | OUT_OF_USE | {Obstacle.SESSION},
    {
        Obstacle.SESSION: "the session commits the transaction, together with the offsets: request the next batch, or "
        "return from the function of run()"
    },
)
"""Commits or prepares a transaction, whose status refuses the rest."""
ACKNOWLEDGE = Use(AWAY | OUT_OF_USE)
"""Acknowledges records of a share group."""

_READER = "Reader.requested"
_APPEND = "Buffer.check_open"
_CLOSE = "Lifecycle._can_close"
_AT_THE_READ = Inside(READ, _READER)

CONSUMER: Table = {
    "start": START,
    # The gate asks when it is awaited: the coroutine can be made in another thread.
    "close": Inside(END, _CLOSE),
    # reading
    "__aiter__": _AT_THE_READ,
    "__anext__": _AT_THE_READ,
    "poll": _AT_THE_READ,
    "records": _AT_THE_READ,
    "batches": _AT_THE_READ,
    "read_to_end": READ,
    "deserialize": CREATE,
    # It checks its arguments first: these are wrong in any situation.
    "run": Inside(RUN, "Consumer.run"),
    "stop_run": END,
    "run_status": REPORT,
    # what is read
    "subscribe": CHOOSE,
    "assign": CHOOSE,
    "unsubscribe": CHOOSE,
    "enforce_rebalance": ASK,
    "pause": CHOOSE,
    "resume": CHOOSE,
    "seek": SEEK,
    "seek_to_beginning": SEEK,
    "seek_to_end": SEEK,
    "seek_to_time": SEEK,
    # the group
    "commit": COMMIT,
    "committed": ASK,
    "group_metadata": ASK,
    "progress": ASK,
    # the log
    "position": ASK,
    "beginning_offsets": ASK,
    "end_offsets": ASK,
    "offsets_for_times": ASK,
    "partitions_for_topic": ASK,
    # reports
    **dict.fromkeys(("subscription", "assignment", "paused", "positions", "lag", "lags", "at_end"), REPORT),
    **dict.fromkeys(("log_state", "partition_state", "partition_states", "stats", "health"), REPORT),
}

PROGRESS: Table = {"positions": REPORT, "group_metadata": ASK, "rewind": SEEK}

SHARE_CONSUMER: Table = {
    "start": START,
    "close": Inside(END, _CLOSE),
    "__aiter__": Inside(READ, "ShareConsumer.__anext__"),
    "__anext__": Inside(READ, "ShareConsumer.__anext__"),
    "poll": READ,
    "batches": Inside(READ, "ShareConsumer._next_batch"),
    "run": Inside(RUN, "ShareConsumer.run"),
    "stop_run": END,
    "run_status": REPORT,
    **dict.fromkeys(("accept", "release", "reject", "renew", "commit"), ACKNOWLEDGE),
    "subscribe": CHOOSE,
    "unsubscribe": CHOOSE,
    **dict.fromkeys(("subscription", "assignment", "stats", "health"), REPORT),
}

_WRITES: Table = {
    **dict.fromkeys(("send", "post", "try_post", "post_bytes", "send_batch", "post_batch"), Inside(WRITE, _APPEND)),
    **dict.fromkeys(("send_many", "post_many"), Inside(WRITE_MANY, _APPEND)),
}

PRODUCER: Table = {
    **_WRITES,
    "start": START,
    "close": END,
    "flush": WRITE,
    "abort": WRITE,
    "transaction": BEGIN,
    "complete_transaction": ASK,
    "partitions_for": WRITE,
    "stats": REPORT,
    "health": REPORT,
}

TRANSACTION: Table = {
    **_WRITES,
    "commit": DECIDE,
    "prepare": DECIDE,
    "hand_over": DECIDE,
    "abort": Inside(WRITE, _APPEND),
    "send_offsets": Inside(WRITE, _APPEND),
}

CLIENT: Table = {
    "start": START,
    "close": END,
    "request": ASK,
    "metadata": ASK,
    "versions": ASK,
    "version": ASK,
    "stats": REPORT,
    "health": REPORT,
}

EXACTLY_ONCE: Table = {
    # Its clients may have been started elsewhere.
    "start": CREATE,
    "close": END,
    "stop": END,
    # The consumer and the producer of a batch have gates of their own.
    "batches": Inside(ASK, "ExactlyOnce._next"),
    "run": Inside(ASK, "ExactlyOnce._next"),
}

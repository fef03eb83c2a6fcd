"""Which methods may be called when: each public method has a `Use`, which lists the obstacles that prevent it.

The tables at the end are complete: importing a class fails if one of its public methods isn't in its table. `gated`
adds a check before the method. Methods that run for every record don't have one: they check only when they leave their
fast path (`Inside`), as in an append without an open batch, or a read without an open record. An event that becomes an
obstacle closes the fast path, so the next call has to pass the gate:

- the end of the producer or the transaction: no topic is ready for a writer any more (``Buffer.close_session``);
- ``run()`` and ``ExactlyOnce``: they own the reader, and don't leave a record open (``Reader.owner``);
- another thread: appends compare the thread id, and `Home` compares the running event loop;
- a fork: in the child, every `Home` counts as left (``on_fork``).

Copying and pickling are never allowed: a copy would share the connections and tasks of the original.
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
    """The situations that can prevent a call. If several apply, the first one determines the error."""

    OTHER_PROCESS = auto()
    """The call is in a child of the process that started the client."""
    OTHER_THREAD = auto()
    """The call is in a thread that isn't the client's and has no running event loop."""
    OTHER_LOOP = auto()
    """The call is in an event loop that isn't the client's, or in the client's thread but outside of the loop."""
    NOT_STARTED = auto()
    CLOSING = auto()
    """``close()`` was called, and has not returned yet."""
    CLOSED = auto()
    FAILED = auto()
    """A task of the client has ended, or the brokers have rejected the client for good."""
    CALLBACK = auto()
    """A rebalance callback is running. Delivery and closing wait for it to finish."""
    SESSION = auto()
    """The client belongs to an ``ExactlyOnce``."""
    RUN = auto()
    """``run()`` is running."""


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
    """What a method does with its client, and what prevents it.

    Attributes:
        obstacles: What prevents it.
        instead: What to do instead, for each obstacle that isn't part of the client's life cycle. The error is a
            ConfigurationError if the client belongs to an ``ExactlyOnce``, and otherwise a RuntimeError: the call comes
            at the wrong moment.
    """

    obstacles: frozenset[Obstacle]
    instead: Mapping[Obstacle, str] = {}


class Inside(NamedTuple):
    """A use that is checked inside the method instead of before it.

    Attributes:
        use: The use.
        checked_by: The function that checks it.
    """

    use: Use
    checked_by: str


Table = Mapping[str, Use | Inside]
"""Method → what it does."""


class Home:
    """The event loop, thread and process in which a client was started.

    Attributes:
        loop: The event loop; None until the client is started.
    """

    __slots__ = ("__weakref__", "_kind", "_process", "_thread", "loop", "on_fork")

    def __init__(self, kind: str, on_fork: Callable[[], None] | None = None) -> None:
        """``kind`` names the client in errors. ``on_fork`` is called in a forked child, to close the fast paths."""
        self.loop: asyncio.AbstractEventLoop | None = None
        self.on_fork = on_fork
        self._kind = kind
        self._thread = self._process = 0

    def enter(self) -> None:
        """Make the running event loop, thread and process the client's home."""
        self.loop = asyncio.get_running_loop()
        self._thread, self._process = thread_id(), os.getpid()
        if self.on_fork is not None:
            _HOMES.add(self)

    def away(self) -> Obstacle | None:
        """Return the obstacle if this isn't the client's process, thread or loop.

        None if it is, or before the start.
        """
        # This also catches a forked child: asyncio compares process ids, so the child has no running loop.
        if self.loop is None or asyncio._get_running_loop() is self.loop:
            return None
        if os.getpid() != self._process:
            return Obstacle.OTHER_PROCESS
        if asyncio._get_running_loop() is None and thread_id() != self._thread:
            return Obstacle.OTHER_THREAD
        return Obstacle.OTHER_LOOP

    def check(self) -> None:
        """Raise ConfigurationError unless this is the client's event loop."""
        # asyncio primitives aren't thread-safe: a future of one loop would never wake a task of another.
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
    """Raise if the obstacle prevents the use: either ``error``, or an error that says what to do instead."""
    if obstacle not in use.obstacles:
        return
    if error is not None:
        raise error.with_traceback(None)
    kind = ConfigurationError if obstacle is Obstacle.SESSION else RuntimeError
    raise kind(use.instead[obstacle])


def gated(table: Table) -> Callable[[T], T]:
    """Return a class decorator that calls ``self._admit(use)`` before each listed method, and prevents copying."""

    def guard(cls: T) -> T:
        if unknown := sorted(public_methods(cls) - table.keys()):
            raise TypeError(f"{cls.__name__}: aiokproto.application.gates says nothing of {', '.join(unknown)}")
        for name, use in table.items():
            owner = next(base for base in cls.__mro__ if name in vars(base))
            if isinstance(use, Use):
                # If a base class defines both the method and `_admit`, put the gate there, so the method is documented
                # there. A base that several classes share has no `_admit`: put the gate in this class.
                setattr(owner if hasattr(owner, "_admit") else cls, name, _guarded(vars(owner)[name], use))
        cls.__reduce__ = _refuse_copy  # type: ignore[method-assign,assignment]
        return cls

    return guard


def _refuse_copy(self: object) -> NoReturn:
    # Called by pickle and copy. A copy would share the connections and tasks of the original: starting it would fail,
    # and close these.
    raise TypeError(
        f"{type(self).__name__} cannot be copied or pickled, because it belongs to its event loop: make another one "
        "where it is needed"
    )


def public_methods(cls: type) -> set[str]:
    """Return the names of methods that applications call, including iteration. Properties and other special methods
    don't use the client, and are left out."""
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
"""Starts the client, once. The method itself raises if it was started before."""
REPORT = Use(AWAY)
"""Reports what the client knows, without I/O. Allowed even before the start and after the end."""
END = Use(AWAY)
"""Ends something, or requests its end. A second call has no effect."""
ASK = Use(AWAY | OUT_OF_USE)
"""Asks brokers, without changing anything."""
CHOOSE = Use(AWAY | ENDED)
"""Chooses what to read, or pauses and resumes it. Allowed before the start, too."""
CREATE = Use(AWAY)
"""Creates an object that is checked when it's used."""
WRITE = Use(AWAY | OUT_OF_USE | {Obstacle.CLOSING})
"""Writes records, or waits for them."""
WRITE_MANY = Use(AWAY)
"""Writes records. An obstacle is reported as the outcome of each record that isn't written because of it."""

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
"""Takes records. The records taken before then count as processed."""
DELIVER = Use(READ.obstacles - {Obstacle.SESSION, Obstacle.RUN}, READ.instead)
"""Like :data:`READ`, for the owner of the reader."""
RUN = Use(
    _READS,
    {
        Obstacle.CALLBACK: _CALLBACK,
        Obstacle.SESSION: "run() cannot read the consumer of an ExactlyOnce, which commits by itself: call the run() "
        "of the session",
        Obstacle.RUN: "run() is running already: stop_run() ends it",
    },
)
"""Takes records until it is stopped."""
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
"""Begins a transaction."""
DECIDE = Use(
    AWAY | OUT_OF_USE | {Obstacle.SESSION},
    {
        Obstacle.SESSION: "the session commits the transaction, together with the offsets: request the next batch, or "
        "return from the function of run()"
    },
)
"""Commits or prepares a transaction. The transaction's own status may prevent it, too."""
ACKNOWLEDGE = Use(AWAY | OUT_OF_USE)
"""Acknowledges records of a share group."""

_READER = "Reader.requested"
_APPEND = "Buffer.check_open"
_CLOSE = "Lifecycle._can_close"
_AT_THE_READ = Inside(READ, _READER)

CONSUMER: Table = {
    "start": START,
    # Check when it's awaited, not when it's called: the coroutine may be created in another thread.
    "close": Inside(END, _CLOSE),
    # reading
    "__aiter__": _AT_THE_READ,
    "__anext__": _AT_THE_READ,
    "poll": _AT_THE_READ,
    "records": _AT_THE_READ,
    "batches": _AT_THE_READ,
    "read_to_end": READ,
    "deserialize": CREATE,
    # Its arguments are checked first: if they're wrong, they're wrong in any state.
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
    # The session's clients may have been started elsewhere.
    "start": CREATE,
    "close": END,
    "stop": END,
    # A batch's consumer and producer have their own gates.
    "batches": Inside(ASK, "ExactlyOnce._next"),
    "run": Inside(ASK, "ExactlyOnce._next"),
}

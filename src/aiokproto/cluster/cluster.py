"""The public API of the layer: what producer, consumer, group and client are built on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from aiokproto.cluster.backoff import Backoff
from aiokproto.cluster.coordinators import CoordinatorKind, Coordinators
from aiokproto.cluster.metadata import Metadata
from aiokproto.cluster.pool import MAIN, Pool
from aiokproto.cluster.router import Router
from aiokproto.cluster.snapshot import ClusterSnapshot, TopicInfo
from aiokproto.codec.schema import Request, Response, Versions
from aiokproto.config import ClusterConfig
from aiokproto.errors import ClientClosedError, ConfigurationError, KafkaError, copied
from aiokproto.net.call import INFINITY
from aiokproto.runtime import uniform

if TYPE_CHECKING:
    from typing_extensions import Self, TypeVarTuple, Unpack

    Ts = TypeVarTuple("Ts")

R = TypeVar("R", bound=Response)
T = TypeVar("T")

_THREADS = 4
"""As many names are looked up, or batches compressed, at a time."""

logger = logging.getLogger("aiokproto.cluster")


class Cluster:
    """Connections to a cluster, its metadata, and requests to the brokers that serve them.

    Timeouts are seconds. Cancelling a call gives up that call alone: its connection stays, a late answer is dropped,
    and what others wait for goes on.

    Every method but :meth:`close` raises ``ClientClosedError`` before :meth:`start` and after :meth:`close`; after a
    broker has refused this client's credentials, that ``AuthenticationError``; after the end of a background task, also
    by cancellation, ``ClientClosedError`` with the cause; and in another event loop ``ConfigurationError``.
    """

    def __init__(self, config: ClusterConfig, last_used: Callable[[str], float] | None = None) -> None:
        """Nothing is connected before :meth:`start`.

        Args:
            config: Its options.
            last_used: When a topic that was asked for without ``keep`` was last used (s, the loop's clock).
        """
        self.config = config
        self._backoff = Backoff(config.retry_backoff, config.retry_backoff_max, uniform)
        # They start with their first work.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="aiokproto")
        self._pool = Pool(config, self._threads, self._stop)
        self._metadata = Metadata(config, self._pool, self._backoff, last_used or _never)
        self._coordinators = Coordinators()
        self._router = Router(config, self._pool, self._metadata, self._coordinators, self._backoff)
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = False
        self._unstarted = ClientClosedError("the client is not started")
        self._closed: KafkaError | None = self._unstarted

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The newest cluster metadata. Immutable: a snapshot that is kept stays as it is."""
        return self._metadata.snapshot

    async def start(self, timeout: float | None = None) -> None:
        """Reach the cluster by one of the bootstrap addresses.

        Args:
            timeout: By default ``bootstrap_resolve_timeout_ms`` (then every address is tried at least once).

        Raises:
            BootstrapError: No address could be used; has each with what went wrong there.
            NotKafkaError: What answers at all the addresses is not Kafka.
            AuthenticationError: All that answer refuse us, or we their certificate.
            ClientClosedError: It was started or closed before, or is closed meanwhile.
        """
        if self._started:
            raise ClientClosedError("a client starts once; make a new one")
        self._started = True
        self._loop = asyncio.get_running_loop()
        try:
            await self._metadata.bootstrap(timeout)
            if self._closed is not None and self._closed is not self._unstarted:
                # In the very turn in which the answer came.
                raise copied(self._closed)
        except BaseException:
            await self.close(0)
            raise
        self._closed = None
        self._task = asyncio.create_task(self._metadata.run(), name="aiokproto metadata")
        self._task.add_done_callback(self._ended)

    async def close(self, timeout: float = 5.0) -> None:
        """End it: pending calls raise ``ClientClosedError``, what was written is flushed. Returns within ``timeout``.

        May be called at any time and again. When cancelled, everything is dropped at once.

        Raises:
            ConfigurationError: It was started in another event loop, and can be closed in that one alone.
        """
        self.check_loop()
        self._started = True
        if self._closed is None or self._closed is self._unstarted:
            self._closed = ClientClosedError("the client is closed")
        reason = self._closed
        self._metadata.close(reason)
        try:
            if self._task is not None:
                self._task.cancel()
                await asyncio.wait((self._task,))
            await self._router.close(reason)
            await self._pool.close(reason, timeout)
        finally:
            self._pool.drop(reason)
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def topic(
        self, name: str, timeout: float | None = None, *, create: bool = False, keep: bool = True
    ) -> TopicInfo:
        """A topic, from the snapshot or asked for. From now on it is kept up to date in :attr:`snapshot`.

        Args:
            name: The topic's name.
            timeout: By default ``default_api_timeout_ms``.
            create: Whether brokers set up to do so (``auto.create.topics.enable``) may create it.
            keep: Whether it stays in the snapshot until the end; if not, until it was neither asked for nor used for
                ``metadata_max_idle_ms``.

        Raises:
            UnknownTopicError: Several answers in a row do not have it (one is not enough: news of a new topic takes
                a moment to reach every broker).
            InvalidTopicError, AuthorizationError: At once.
            DeadlineError: No answer in time; names the last failure.
        """
        return (await self.topics([name], timeout, create=create, keep=keep))[name]

    async def topics(
        self,
        names: Iterable[str] | None = None,
        timeout: float | None = None,
        *,
        create: bool = False,
        keep: bool = True,
    ) -> dict[str, TopicInfo]:
        """Several topics, as :meth:`topic`. None: all that this client may see, asked for with each call; these are not
        kept up to date, and those with an error are left out."""
        self.check()
        timeout = self.config.api_timeout if timeout is None else timeout
        return await self._metadata.topics(None if names is None else list(names), timeout, create, keep)

    def invalidate(self, reason: str, topics: Iterable[str] = ()) -> None:
        """Say that the metadata is out of date: a refresh follows soon, with backoff, one for all such calls.

        Args:
            reason: Why, for the log.
            topics: What to ask for even if it was forgotten, as nobody had used it.
        """
        self._metadata.invalidate(reason, topics)

    def hint_leader(self, topic: str, partition: int, leader: int, leader_epoch: int) -> bool:
        """Take in a new leader that a broker named in its answer (KIP-951); returns whether it was news.

        A hint of an older epoch, or of a broker that is not known, changes nothing.
        """
        return self._metadata.hint_leader(topic, partition, leader, leader_epoch)

    async def changed(self, generation: int) -> ClusterSnapshot:
        """Wait for a snapshot newer than ``generation``. The one call without a deadline: give it one, or cancel it."""
        self.check()
        return await self._metadata.changed(generation)

    async def request(
        self,
        request: Request[R],
        *,
        node: int | None = None,
        key: str | None = None,
        timeout: float | None = None,
        max_version: int | None = None,
        hedged: bool = False,
    ) -> R:
        """Send a request to the broker it concerns, and again while that may help.

        Transport failures, and answers whose error code (the top one, or that of all its items, if it says "wrong
        broker") is retriable, are retried with backoff. An answer with any other error code is returned as it is.
        After a lost connection the broker may have carried out a request that is sent again.

        Args:
            request: The request; its ``route`` says which broker gets it.
            node: Send it to this broker, whatever the route.
            key: The group or transactional id, where the request does not have it.
            timeout: For all attempts; by default ``default_api_timeout_ms``.
            max_version: Use no higher version than this.
            hedged: Ask another broker as well when one is silent for a second. For requests that any broker answers,
                and that may be carried out twice.

        Raises:
            DeadlineError: Names the attempts and the last failure.
            UnsupportedVersionError: The broker has no version that fits.
            EncodeError, DecodeError: The version cannot carry the request; the answer is broken.
            ConfigurationError: Neither the request nor the arguments say which broker to ask.
            BrokerError: The coordinator cannot be found for good (authorization, invalid group).
        """
        self.check()
        timeout = self.config.api_timeout if timeout is None else timeout
        return await self._router.request(
            request, node=node, key=key, timeout=timeout, max_version=max_version, hedged=hedged
        )

    async def send(
        self,
        request: Request[R],
        node: int,
        *,
        timeout: float | None = None,
        max_version: int | None = None,
        channel: str = MAIN,
    ) -> R:
        """One attempt on one broker; nothing is retried, and error codes are the caller's.

        With a connection open, the request is written before this coroutine first suspends, so requests of one caller
        keep their order.

        Args:
            request: The request.
            node: The broker's id.
            timeout: For all of it. By default ``request_timeout_ms`` to connect and for the broker to answer; a pause
                that the broker has asked for (KIP-219) comes on top.
            max_version: Use no higher version than this.
            channel: Requests on one connection are answered in order, so one that the broker holds back (a long-polling
                Fetch, JoinGroup) holds back all behind it. Each channel is a connection of its own: ``"main"``,
                ``"fetch"``, ``"group"``, or any other name.

        Raises:
            BrokerConnectionError: No connection, or lost with the request under way; names broker and API.
            DeadlineError: No answer in time.
            UnsupportedVersionError, EncodeError, DecodeError: As for :meth:`request`.
        """
        self.check()
        return await self._router.send(request, node, timeout, max_version, channel)

    def submit(
        self,
        request: Request[R],
        node: int,
        on_response: Callable[[R | KafkaError], None],
        *,
        timeout: float | None = None,
        max_version: int | None = None,
    ) -> bool:
        """:meth:`send` without a task that waits: for many requests to one broker, over a connection that is open.

        The request is written before this returns, so requests keep their order. It cannot be cancelled. A lost
        connection does not invalidate the metadata; :meth:`invalidate` does.

        Args:
            request: The request.
            node: The broker's id.
            on_response: Called once, by the loop: with the response, or with an error that :meth:`send` would raise
                after sending. It must not raise.
            timeout: For the answer, once the request is sent; by default ``request_timeout_ms``. A pause that the
                broker has asked for (KIP-219) comes before.
            max_version: Use no higher version than this.

        Returns:
            Whether there is an open connection. If not, nothing happens; :meth:`version` makes one.

        Raises:
            BrokerConnectionError, UnsupportedVersionError, EncodeError: As :meth:`send`; then there is no call.
        """
        self.check()
        return self._router.submit(request, node, on_response, timeout, max_version)

    async def post(
        self, request: Request[Any], node: int, *, timeout: float | None = None, max_version: int | None = None
    ) -> None:
        """Send a request that gets no answer (Produce with ``acks=0``): returns once it is written to the socket's
        buffer and there is room for more. Raises as :meth:`send`."""
        self.check()
        await self._router.post(request, node, timeout, max_version)

    async def version(
        self, request_type: type[Request[Any]], node: int, *, max_version: int | None = None, channel: str = MAIN
    ) -> int:
        """The version that would be used there. Connects if need be; raises as :meth:`send`."""
        self.check()
        return (await self._router.versions(node, channel)).pick(request_type, max_version)

    async def versions(self, node: int, *, channel: str = MAIN) -> Mapping[int, Versions]:
        """The version ranges of all of a broker's APIs, by ApiKey. Connects if need be; raises as :meth:`send`."""
        self.check()
        return (await self._router.versions(node, channel)).ranges

    async def coordinator(self, kind: CoordinatorKind, key: str, timeout: float | None = None) -> int:
        """The node id of the coordinator of a group, transactional id or share partition; cached.

        Raises:
            BrokerError: It cannot be found for good (authorization, invalid group id).
            DeadlineError: Not found in time.
        """
        self.check()
        return await self._router.coordinator(kind, key, self.config.api_timeout if timeout is None else timeout)

    def hang_up(self, node: int, channel: str) -> None:
        """Close a connection at once: for one on which the broker still holds back a request that was given up, and
        all behind it. What else is under way on it raises ``BrokerConnectionError``; the next request makes another."""
        self._pool.hang_up(node, channel)

    def run_in_thread(self, function: Callable[[Unpack[Ts]], T], *args: Unpack[Ts]) -> asyncio.Future[T]:
        """Run what blocks, or takes long, in one of the client's few threads.

        They are its own: the loop's may all be busy with the program's work. Cancelling gives up the wait, and the work
        if it has not begun.
        """
        self.check()
        return asyncio.get_running_loop().run_in_executor(self._threads, function, *args)

    def forget_coordinator(self, kind: CoordinatorKind, key: str) -> None:
        """Look it up again next time: to be called on NOT_COORDINATOR, and when it cannot be reached."""
        self._coordinators.forget(kind, key)

    def backoff(self, attempt: int) -> float:
        """Seconds to wait before the next attempt, after ``attempt`` (from 1) have failed."""
        return self._backoff.delay(attempt)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def check(self) -> None:
        """Raise if it cannot be used here and now; every other method does this first.

        Raises:
            ConfigurationError: The running event loop is not the one it was started in.
            KafkaError: It is not started, closed, or has stopped: see above.
        """
        # For each request that is sent: first what holds nearly always.
        if self._closed is None and asyncio._get_running_loop() is self._loop:
            return
        self.check_loop()
        if self._closed is not None:
            raise copied(self._closed)

    def check_loop(self) -> None:
        """Raise ConfigurationError if the running event loop, or none, is not the one it was started in."""
        # What is awaited here would be set in the other loop, and so never wake anybody in this one.
        if self._loop is not None and asyncio._get_running_loop() is not self._loop:
            raise ConfigurationError(
                "this client was started in another event loop: use it in that one, or make one for each loop"
            )

    def _ended(self, task: asyncio.Task[None]) -> None:
        """The metadata task has ended; unless :meth:`close` did it, nothing can go on."""
        cause = asyncio.CancelledError() if task.cancelled() else task.exception()
        if isinstance(cause, KafkaError):
            self._stop(cause)
        else:
            end = "was cancelled" if task.cancelled() else f"died: {cause!r}"
            error = ClientClosedError(f"the client's metadata task {end}")
            error.__cause__ = cause
            self._stop(error)

    def _stop(self, error: KafkaError) -> None:
        """Close because of an error, which every call raises from now on, and those under way."""
        if self._closed is not None:
            return
        # A cancelled task's traceback says nothing.
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else None
        logger.error("the client stops: %s", error, exc_info=cause)
        self._closed = error
        self._metadata.close(error)
        self._router.fail(error)
        self._pool.fail(error)
        if self._task is not None:
            self._task.cancel()


def _never(topic: str) -> float:
    """When a topic was last used that is only asked for."""
    return -INFINITY

"""Typed requests to any broker, and nothing on top."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from aiokproto.cluster import BrokerNode, ClusterClient, ClusterSnapshot, TopicInfo
from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import Request, Response, Versions
from aiokproto.config import ClusterConfig, ConnectionOptions

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

R = TypeVar("R", bound=Response)


class Client:
    """The whole protocol, one call: send a request, get its answer.

    ::

        from aiokproto.client import Client
        from aiokproto.codec.messages.list_groups import ListGroupsRequest

        async with Client(bootstrap_servers="localhost:9092") as client:
            answer = await client.request(ListGroupsRequest())
            print([group.group_id for group in answer.groups])

    Which broker is asked, in which version, and what is tried again is taken care of; error codes that do not pass by
    themselves are in the answer. Made anywhere; bound to an event loop when started: in any other one its calls raise
    ``ConfigurationError``.

    After a broker has refused its credentials every call raises ``AuthenticationError``, those under way too; after the
    end of an internal task, also by cancellation, ``ClientClosedError`` with the cause.

    Args:
        options: See :class:`~aiokproto.config.ConnectionOptions`; ``bootstrap_servers`` is required.

    Raises:
        ConfigurationError: An option is unknown or unusable.
    """

    def __init__(self, **options: Unpack[ConnectionOptions]) -> None:
        self._cluster = ClusterClient(ClusterConfig.parse(options))

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The cluster as last heard of; its topics are those that were asked for by name."""
        return self._cluster.snapshot

    @property
    def brokers(self) -> Mapping[int, BrokerNode]:
        """The brokers, by id."""
        return self._cluster.snapshot.brokers

    async def start(self, timeout_ms: float | None = None) -> None:
        """Reach the cluster; ``async with`` does it.

        Args:
            timeout_ms: By default ``bootstrap_resolve_timeout_ms``.

        Raises:
            BootstrapError: No bootstrap address could be used; NotKafkaError and AuthenticationError where that is all
                there is to say.
            ClientClosedError: It was started or closed before, or is closed meanwhile.
        """
        await self._cluster.start(_seconds(timeout_ms))

    async def close(self, timeout_ms: float = 5000) -> None:
        """Close it within ``timeout_ms``. Calls under way raise ``ClientClosedError``. May be called again.

        Raises:
            ConfigurationError: It was started in another event loop, and can be closed in that one alone.
        """
        await self._cluster.close(timeout_ms / 1000)

    async def request(
        self,
        request: Request[R],
        node: int | None = None,
        key: str | None = None,
        timeout_ms: float | None = None,
        max_version: int | None = None,
    ) -> R:
        """Send a request where it belongs, and again while that may help.

        One that concerns several brokers is divided among them, and the answers are joined: partitions among their
        leaders (ListOffsets, DeleteRecords, OffsetForLeaderEpoch, DescribeProducers), groups and transactional ids
        among their coordinators, brokers' configurations among these (DescribeConfigs, AlterConfigs,
        IncrementalAlterConfigs), ListGroups and ListTransactions to every broker. Each part has all the time of the
        call for itself. Where a broker gives no answer, what it was asked for is in the response with an error code:
        ``REQUEST_TIMED_OUT``, ``NETWORK_EXCEPTION``, or what the failure was. Not divided are Produce, Fetch,
        ShareFetch and ShareAcknowledge, which belong to a session with one leader, and DescribeLogDirs, whose answers
        do not say which broker they are from: ask each ``node``.

        Topics can be given by name or by id. Where the later versions of an API have ids only (Fetch, Produce,
        OffsetCommit, OffsetFetch), a request by name goes in an earlier one.

        Cancelling gives up the wait; the broker may carry out what was sent.

        Args:
            request: Any request of :mod:`aiokproto.codec.messages`.
            node: The broker to ask. By default what the request's ``route`` says: the controller, the coordinator of
                its group or transactional id, the leader of its partitions, every broker, or any. What goes to a
                given node is not divided.
            key: The group or transactional id, where the request does not have it.
            timeout_ms: For all attempts; by default ``default_api_timeout_ms``.
            max_version: Use no higher version; by default the last that both sides have and that can carry the names of
                topics, where they are given without ids.

        Returns:
            The answer, whatever error codes are in it, save retriable ones that hold for all of it: these are retried.

        Raises:
            DeadlineError: Names the attempts and the last failure. If the request was divided: of all parts.
            PartialResponseError: Some brokers gave no answer, and the response has no place to say so (ListGroups,
                ListTransactions); it has what the others answered.
            UnsupportedVersionError: The broker has no version that fits.
            EncodeError: The version cannot carry the request.
            ConfigurationError: It is not clear whom to ask.
            BrokerError: The coordinator cannot be found for good.
        """
        return await self._cluster.request(
            request, node=node, key=key, timeout=_seconds(timeout_ms), max_version=max_version
        )

    async def metadata(
        self, topics: Iterable[str] | None = None, timeout_ms: float | None = None
    ) -> Mapping[str, TopicInfo]:
        """Topics by name, from the snapshot or asked for; None: all that exist, asked for with each call.

        What is asked for by name stays in the snapshot for ``metadata_max_idle_ms`` after the last call.

        Raises:
            UnknownTopicError, InvalidTopicError, AuthorizationError: One of them cannot be had.
            DeadlineError: No answer in time.
        """
        return await self._cluster.topics(topics, _seconds(timeout_ms), keep=False)

    async def versions(self, node: int) -> dict[str, Versions]:
        """The APIs that a broker serves and in which versions, by name, as it said when it was connected to.

        Raises:
            BrokerConnectionError: It cannot be reached.
            DeadlineError: Not within ``request_timeout_ms``.
        """
        ranges = await self._cluster.versions(node)
        return {api_name(api_key): versions for api_key, versions in ranges.items()}

    async def version(self, request_type: type[Request[Any]], node: int) -> int:
        """The version in which that request would be sent there.

        Raises:
            UnsupportedVersionError: The broker has no version that fits.
            BrokerConnectionError: It cannot be reached.
        """
        return await self._cluster.version(request_type, node)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000

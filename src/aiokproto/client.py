"""The protocol client: sends typed requests to the right broker, and does nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from aiokproto.application.async_context import AsyncContext
from aiokproto.application.gates import CLIENT, Use, gated
from aiokproto.application.hints import METHODS, Hints, options_by_name
from aiokproto.cluster import BrokerNode, ClusterClient, ClusterSnapshot, TopicInfo
from aiokproto.codec.explain import check_structs
from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import Request, Response, Versions
from aiokproto.config import ClusterConfig, ConnectionOptions
from aiokproto.config.values import seconds
from aiokproto.errors import ConfigurationError
from aiokproto.observe.health import Health
from aiokproto.observe.metrics import MetricSource
from aiokproto.observe.stats import ClientStats
from aiokproto.security.tracebacks import hiding_options

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

R = TypeVar("R", bound=Response)


@gated(CLIENT)
class Client(AsyncContext, Hints, hints=METHODS["Client"]):
    """Sends any Kafka request and returns the response.

    ::

        from aiokproto.client import Client
        from aiokproto.codec.messages.list_groups import ListGroupsRequest

        async with Client(bootstrap_servers="localhost:9092") as client:
            response = await client.request(ListGroupsRequest())
            print([group.group_id for group in response.groups])

    It finds the broker, negotiates the version, and retries retriable errors; other error codes are left in the
    response. A client belongs to the event loop that started it: in any other loop its calls raise
    ``ConfigurationError``.

    If a broker rejects the client, every call raises ``AuthenticationError``, pending calls included. If an internal
    task fails or is cancelled, every call raises ``ClientClosedError`` with the cause.

    Args:
        options: See :class:`~aiokproto.config.ConnectionOptions`; ``bootstrap_servers`` is required.

    Raises:
        ConfigurationError: An option is unknown or unusable.
    """

    @hiding_options
    @options_by_name
    def __init__(self, **options: Unpack[ConnectionOptions]) -> None:
        self._cluster = ClusterClient(ClusterConfig.parse(options))
        self._admit: Callable[[Use], None] = self._cluster.admit

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The newest cluster metadata. It includes the topics that were requested by name."""
        return self._cluster.snapshot

    @property
    def brokers(self) -> Mapping[int, BrokerNode]:
        """The brokers, by id."""
        return self._cluster.snapshot.brokers

    async def start(self, timeout_ms: float | None = None) -> None:
        """Connect to the cluster; ``async with`` calls it. If it fails or is cancelled, the client is closed.

        Args:
            timeout_ms: By default ``bootstrap_resolve_timeout_ms``.

        Raises:
            BootstrapError: No bootstrap address could be used. The message lists each address and its error.
            NotKafkaError, AuthenticationError: Every address failed that way. The message lists the same.
            ClientClosedError: The client was already started or closed, or it's closed during the start.
        """
        await self._cluster.start(_seconds(timeout_ms))
        self._cluster.push_metrics(MetricSource("admin.client", self._cluster.observer))

    async def close(self, timeout_ms: float = 5000) -> None:
        """Close within ``timeout_ms``. Pending calls raise ``ClientClosedError``. It can be called repeatedly.

        Raises:
            ConfigurationError: The client was started in another event loop; only that one can close it.
        """
        await self._cluster.close(seconds("timeout_ms", timeout_ms))

    def stats(self) -> ClientStats:
        """Return the client's statistics: connections, requests, bytes, metadata. No I/O."""
        return self._cluster.stats()

    def health(self) -> Health:
        """Return whether the client works, and what is wrong. No I/O."""
        return self._cluster.findings().health()

    async def request(
        self,
        request: Request[R],
        node: int | None = None,
        key: str | None = None,
        timeout_ms: float | None = None,
        max_version: int | None = None,
    ) -> R:
        """Send a request to the broker that serves it, and retry retriable errors until the deadline.

        A request for several brokers is divided among them, and the responses are joined. Partitions go to their
        leaders (ListOffsets, DeleteRecords, OffsetForLeaderEpoch, DescribeProducers), groups and transactional ids to
        their coordinators, and brokers' configurations to those brokers (DescribeConfigs, AlterConfigs,
        IncrementalAlterConfigs). ListGroups and ListTransactions go to every broker. All parts share the call's
        deadline. If a broker does not respond, its items are in the response with an error code: ``REQUEST_TIMED_OUT``,
        ``NETWORK_EXCEPTION``, or the code for the failure. Some requests are not divided: Produce, Fetch, ShareFetch
        and ShareAcknowledge belong to a session with one leader, and DescribeLogDirs responses do not name the broker.
        Send these to each ``node`` yourself.

        Topics can be given by name or by id. If later versions of an API only support ids (Fetch, Produce,
        OffsetCommit, OffsetFetch), a request by name is sent in an earlier version. So is a request for all topics
        (OffsetFetch with null), so that its response includes their names.

        Cancelling stops the wait; the broker may still execute what was sent.

        Args:
            request: Any request of :mod:`aiokproto.codec.messages`.
            node: The broker's node id. By default the request's ``route`` determines the broker: the controller, the
                coordinator of its group or transactional id, the leader of its partitions, every broker, or any broker.
                A request to a given node is not divided.
            key: The group or transactional id, if the request does not contain it.
            timeout_ms: Time limit for all attempts; by default ``default_api_timeout_ms``.
            max_version: Highest version to use. By default the highest that both sides support. If the request contains
                no topic ids, it's also limited to versions that can carry topic names.

        Returns:
            The response. It can contain any error code, except a retriable one for the whole response, which is
            retried. It is what the broker sent, even if that includes items that weren't requested, or leaves some out.
            Only if the request was divided among several brokers, items that no broker answered for are added, with an
            error code.

        Raises:
            DeadlineError: The call timed out; if the request was divided, all of its parts. The message includes the
                number of attempts and the last failure.
            PartialResponseError: Some brokers did not respond, and the response has no field for an error (ListGroups,
                ListTransactions). It contains the response of the other brokers.
            UnsupportedVersionError: Client and broker have no version in common.
            EncodeError: The version cannot carry the request.
            ConfigurationError: Neither the request nor the arguments determine the broker; or ``request`` isn't a
                request, or ``node`` isn't a node id.
            BrokerError: The coordinator lookup failed with an error that is not retried.
        """
        # Without this check a dict or a response would fail deep inside the call, with an error about missing
        # attributes.
        if not isinstance(request, Request):
            raise ConfigurationError(f"request={request!r}: must be a request, as in MetadataRequest(topics=None)")
        if node is not None and (isinstance(node, bool) or not isinstance(node, int)):
            raise ConfigurationError(
                f"node={node!r}: must be the node id of a broker; without it the request's route decides"
            )
        # Check the structs here: dividing the request among brokers walks through it before it's encoded.
        check_structs(request)
        return await self._cluster.request(
            request, node=node, key=key, timeout=_seconds(timeout_ms), max_version=max_version, raw=True
        )

    async def metadata(
        self, topics: Iterable[str] | None = None, timeout_ms: float | None = None
    ) -> Mapping[str, TopicInfo]:
        """Return topics by name, from the snapshot if they are in it. With None, every call requests all topics.

        Topics requested by name stay in the snapshot for ``metadata_max_idle_ms`` after the last call.

        Raises:
            UnknownTopicError, InvalidTopicError, AuthorizationError: One of the topics is not available.
            ConfigurationError: ``topics`` is not a list of names.
            DeadlineError: No metadata in time.
        """
        return await self._cluster.topics(topics, _seconds(timeout_ms), keep=False)

    async def versions(self, node: int, timeout_ms: float | None = None) -> dict[str, Versions]:
        """Return the version ranges of a broker's APIs by name, as it reported them when this client connected.

        Args:
            node: The broker's node id.
            timeout_ms: By default ``default_api_timeout_ms``.

        Raises:
            BrokerConnectionError: The broker cannot be reached.
            DeadlineError: No connection in time.
        """
        ranges = (await self._cluster.broker_versions(node, timeout=self._limit(timeout_ms))).ranges
        return {api_name(api_key): versions for api_key, versions in ranges.items()}

    async def version(self, request_type: type[Request[Any]], node: int, timeout_ms: float | None = None) -> int:
        """Return the version that a request to this broker would use.

        Args:
            request_type: The class of the request.
            node: The broker's node id.
            timeout_ms: By default ``default_api_timeout_ms``.

        Raises:
            UnsupportedVersionError: Client and broker have no version in common.
            BrokerConnectionError: The broker cannot be reached.
            DeadlineError: No connection in time.
        """
        return await self._cluster.version(request_type, node, timeout=self._limit(timeout_ms))

    def _limit(self, timeout_ms: float | None) -> float:
        return self._cluster.config.api_timeout if timeout_ms is None else seconds("timeout_ms", timeout_ms)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def _leave(self, error: BaseException | None) -> None:
        await self.close()


def _seconds(timeout_ms: float | None) -> float | None:
    return None if timeout_ms is None else seconds("timeout_ms", timeout_ms)

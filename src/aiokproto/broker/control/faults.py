"""Fault injection: failed, delayed and lost requests, and broken connections."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

from aiokproto.application.calls import calling
from aiokproto.broker.clock import Clock, sleep
from aiokproto.broker.control.fault_rule import Apis, FaultRule, RequestMatcher, keys
from aiokproto.broker.control.network import Network
from aiokproto.broker.control.random_faults import Kind, RandomFaults
from aiokproto.broker.control.request_info import Intercept, RequestInfo, Serve, TruncatedResponse
from aiokproto.broker.request_context import CloseConnection
from aiokproto.codec.entities import ANY_ENTITY, Entity, merge, split
from aiokproto.codec.messages.fetch import FetchRequest, FetchResponse
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.codec.refusal import refuse
from aiokproto.codec.schema import Request, Response
from aiokproto.config.values import function, integer, number, positive, text
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import ConfigurationError
from aiokproto.texts import repr_of

if TYPE_CHECKING:
    from typing_extensions import Unpack


_NEW_SESSION = 0


async def fail_request(error: ErrorCode, entity: Entity, info: RequestInfo, serve: Serve) -> Response | None:
    """Return a response in which the part of the request about ``entity`` fails with ``error``."""
    request = info.request
    if isinstance(request, MetadataRequest):
        request = info.expanded
    if isinstance(request, FetchRequest) and entity != ANY_ENTITY and request.session_id != _NEW_SESSION:
        # An incremental Fetch lists only some partitions. This error makes the client send a full Fetch.
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    rest, hit = split(request, entity, info.name_of)
    if isinstance(request, MetadataRequest) and rest is None:
        # A Metadata response must list the brokers even if all its topics fail.
        rest = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    response = refuse(hit, info.version, error) if hit is not None else None
    if response is None and hit is not None:
        raise CloseConnection(f"{info.api} v{info.version} failed with {error.name} (fault injection)")
    if rest is None:
        if isinstance(request, ProduceRequest) and request.acks == 0:
            raise CloseConnection(f"Produce with acks=0 failed with {error.name} (fault injection)")
        return response
    if isinstance(rest, FetchRequest):
        # The error must be returned now, not after the other partitions have waited for records.
        rest.max_wait_ms = 0
    served = await serve(rest)
    if served is None or response is None:
        return served
    merge(served, [response], info.name_of)
    return served


class Fault(NamedTuple):
    """An injected fault.

    Attributes:
        kind: ``"fail"``, ``"delay"``, ``"drop"``, ``"cut"``, ``"intercept"`` or ``"watch"``.
        api: The name of the API.
        version: The request's version.
        node_id: The broker that received the request.
        client_id: The client id.
    """

    kind: str
    api: str
    version: int
    node_id: int
    client_id: str


class RequestFilter(TypedDict, total=False):
    """Selects the requests that a fault applies to. All given conditions must hold.

    Attributes:
        times: How often to apply the fault. Default: always, or once if ``nth`` is given.
        nth: The first matching request to apply the fault to, counted from 1.
        node: Requests to this broker.
        client_id: Requests from this client.
        topic: Requests about this topic.
        partition: Requests about this partition.
        group: Requests about this group.
        when: Requests for which this function returns True. It's called in the cluster's event loop.
    """

    times: int
    nth: int
    node: int
    client_id: str
    topic: str
    partition: int
    group: str
    when: Callable[[RequestInfo], bool]


class Faults:
    """Injects faults into a cluster, and logs the injected faults.

    ::

        with cluster.faults.fail(ProduceRequest, ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2, topic="t", partition=0):
            ...                                          # the next two Produce requests for t-0 fail
        cluster.faults.delay(FetchRequest, 0.5)          # until the returned rule is removed, or clear()

    Each method returns a :class:`FaultRule` that is active at once. Used as a context manager, the rule is removed at
    the end of the block. If several rules match a request, all apply, the newest outermost. Rules can be added and
    removed in any thread.

    Attributes:
        log: The injected faults, in order.
        network: The simulated network, which :meth:`partition` and :meth:`slow` change.
    """

    def __init__(self, clock: Clock, nodes: Collection[int]) -> None:
        """``nodes`` contains the ids of the cluster's nodes, and changes when nodes are added."""
        self.log: list[Fault] = []
        self.network = Network(clock)
        self._clock = clock
        self._nodes = nodes
        # An immutable tuple that is replaced as a whole, because another thread can add a rule while a request is
        # iterating over the rules.
        self._rules: tuple[FaultRule, ...] = ()

    # ---- requests

    def fail(self, api: Apis, error: ErrorCode, **where: Unpack[RequestFilter]) -> FaultRule:
        """Fail requests. With ``topic``, ``partition`` or ``group``, only that part of a request fails and the rest is
        served.

        The response is the API's own, with the error in all its error code fields. If the API has no such field, the
        connection is closed. A rule with a topic ends fetch sessions (KIP-227): only a full Fetch lists all its
        partitions.

        Args:
            api: A request class or ApiKey, several of them, or None for all.
            error: The error code.
            **where: See :class:`RequestFilter`.
        """
        if isinstance(error, bool) or error not in _FAILURES:
            raise ConfigurationError(f"error={error!r}: must be an ErrorCode, as in ErrorCode.NOT_COORDINATOR")
        entity = _entity(where)
        return self._add("fail", api, partial(fail_request, error, entity), where)

    def delay(self, api: Apis, seconds: float, **where: Unpack[RequestFilter]) -> FaultRule:
        """Delay requests, on the cluster's clock. Later requests on the same connection wait too."""
        number("seconds", seconds)

        async def act(info: RequestInfo, serve: Serve) -> Response | None:
            await sleep(self._clock, seconds)
            return await serve(info.request)

        return self._add("delay", api, act, where)

    def drop(
        self, api: Apis, what: Literal["request", "response"] = "request", **where: Unpack[RequestFilter]
    ) -> FaultRule:
        """Drop requests before they're served, or drop their responses. The connection stays open."""
        if what not in ("request", "response"):
            raise ConfigurationError(f"what={what!r}: expected 'request' or 'response'")

        async def act(info: RequestInfo, serve: Serve) -> Response | None:
            if what == "response":
                await serve(info.request)
            return None

        return self._add("drop", api, act, where)

    def cut(self, api: Apis, *, after: int | None = None, **where: Unpack[RequestFilter]) -> FaultRule:
        """Close the connection instead of sending a response.

        Args:
            api: See :meth:`fail`.
            after: Serve the request and send this many bytes of the response, including the 4-byte length. None closes
                the connection before the request is served.
            **where: See :class:`RequestFilter`.
        """

        if after is not None:
            integer("after", after)

        async def act(info: RequestInfo, serve: Serve) -> Response | None:
            if after is None:
                raise CloseConnection("fault injection: cut before the request was served")
            response = await serve(info.request)
            if response is None:
                raise CloseConnection("fault injection: cut after the request was served")
            raise TruncatedResponse(response, after)

        return self._add("cut", api, act, where)

    def watch(self, api: Apis, **where: Unpack[RequestFilter]) -> FaultRule:
        """Count requests without affecting them. Use :meth:`FaultRule.wait` to wait for them.

        ::

            with cluster.faults.watch(HeartbeatRequest, group="report") as seen:
                await seen.wait(2)                           # until two heartbeats were received
        """

        async def act(info: RequestInfo, serve: Serve) -> Response | None:
            return await serve(info.request)

        return self._add("watch", api, act, where)

    def intercept(self, api: Apis, function: Intercept, **where: Unpack[RequestFilter]) -> FaultRule:
        """Call your own function instead of serving requests.

        ::

            async def slow_down(info: RequestInfo, serve: Serve) -> Response | None:
                response = await serve(info.request)      # or serve another request of the same version
                response.throttle_time_ms = 100
                return response                           # or another response; None sends none

        The function runs in the cluster's event loop. If it raises, the connection is closed and the traceback is
        logged, except for :class:`~aiokproto.broker.request_context.CloseConnection`.

        Raises:
            ConfigurationError: ``function`` isn't callable.
        """
        if not callable(function):
            raise ConfigurationError(f"function={function!r}: expected a coroutine function")

        async def act(info: RequestInfo, serve: Serve) -> Response | None:
            with calling("intercept", awaited=True):
                response: object = await function(info, serve)
            if response is None or isinstance(response, Response):
                return response
            raise TypeError(f"intercept returned {repr_of(response, 80)}: expected a response, or None")

        return self._add("intercept", api, act, where)

    def random(
        self,
        seed: int,
        rate: float,
        kinds: Collection[Kind] = ("fail", "delay", "drop", "cut"),
        **where: Unpack[RequestFilter],
    ) -> FaultRule:
        """Inject random faults into a share of the requests, reproducibly.

        Each draw depends only on the seed, the broker, the client id, the API, and how many such requests came before.
        So the same seed gives the same faults, however the requests of several clients interleave.

        Args:
            seed: The seed.
            rate: The share of requests with a fault, 0 to 1. ApiVersions is excluded.
            kinds: The faults to choose from. ``"fail"`` uses the error that Kafka returns after an election, and isn't
                drawn for APIs that have no such error.
            **where: See :class:`RequestFilter`; ``times`` and ``nth`` count draws, not faults.

        Raises:
            ValueError: ``rate`` isn't between 0 and 1, or ``kinds`` is empty or contains an unknown value.
        """
        faults = RandomFaults(seed, rate, kinds)

        async def act(info: RequestInfo, serve: Serve) -> Response | None:
            drawn = faults.draw(info)
            if drawn is None:
                return await serve(info.request)
            self._record(rule, drawn.kind, info)
            if drawn.kind == "fail":
                return await fail_request(drawn.error, ANY_ENTITY, info, serve)
            if drawn.kind == "delay":
                await sleep(self._clock, drawn.seconds)
                return await serve(info.request)
            if drawn.kind == "drop":
                return None
            raise CloseConnection("fault injection: cut before the request was served (random)")

        rule = self._add("random", None, act, where)
        return rule

    def clear(self) -> None:
        """Remove all rules and network faults. The log is retained."""
        for rule in self._rules:
            rule.remove()
        self.network.clear()

    # ---- the network

    def partition(self, nodes: int | Iterable[int]) -> AbstractContextManager[None]:
        """Isolate brokers until the context ends: connections stay open, but no frames pass in either direction.

        The operating system still accepts new connections, but they get no response. Frames in flight are delivered
        when the partition ends.

        Raises:
            ConfigurationError: The cluster has no such broker.
        """
        isolated = list(nodes) if isinstance(nodes, Iterable) else [nodes]
        for node in isolated:
            self._check_node("nodes", node)
        return self.network.partition(isolated)

    def slow(
        self, node: int | None = None, *, latency: float = 0.0, bytes_per_second: float | None = None
    ) -> AbstractContextManager[None]:
        """Add latency to a broker, or limit its bandwidth.

        Args:
            node: The broker, or None for all brokers.
            latency: Seconds added to each request and each response.
            bytes_per_second: The bandwidth of a connection, in each direction.

        Raises:
            ConfigurationError: The cluster has no such broker.
            ValueError: The latency is negative, or the bandwidth isn't positive.
        """
        if node is not None:
            self._check_node("node", node)
        return self.network.slow(node, latency, bytes_per_second)

    # ---- called by the dispatcher

    async def serve(self, info: RequestInfo, serve: Serve) -> Response | None:
        """Serve a request with all matching rules applied."""
        for rule in self._rules:
            if rule.applies_to(info):
                serve = partial(self._step, rule, info, serve)
        return await serve(info.request)

    @property
    def idle(self) -> bool:
        """Whether there are no rules."""
        return not self._rules

    # ---- called by a rule

    def _forget(self, rule: FaultRule) -> None:
        """Stop applying a rule; see :meth:`FaultRule.remove`."""
        self._rules = tuple(other for other in self._rules if other is not rule)

    # ---- inside

    def _check_node(self, name: str, node: int) -> None:
        # Isolating a broker that doesn't exist would have no effect, and the test would prove nothing.
        if integer(name, node) not in self._nodes:
            raise ConfigurationError(f"{name}={node}: the cluster has only {', '.join(map(str, self._nodes))}")

    def _add(self, kind: str, api: Apis, act: Intercept, where: RequestFilter) -> FaultRule:
        unknown = where.keys() - RequestFilter.__annotations__
        if unknown:
            names = ", ".join(RequestFilter.__annotations__)
            raise ConfigurationError(f"{kind}() has no condition {min(unknown)!r}; its conditions: {names}")
        for name, condition in where.items():
            if condition is not None:
                _CONDITIONS[name](name, condition)
        nth = where.get("nth", 1)
        times = where.get("times", 1 if "nth" in where else None)
        matcher = RequestMatcher(
            keys(api), where.get("node"), where.get("client_id"), _entity(where), where.get("when")
        )
        rule = FaultRule(kind, matcher, act, nth, times, self)
        self._rules = (*self._rules, rule)
        return rule

    async def _step(self, rule: FaultRule, info: RequestInfo, serve: Serve, request: Request[Any]) -> Response | None:
        info = info.with_request(request)
        if rule.kind != "random":
            self._record(rule, rule.kind, info)
        return await rule.act(info, serve)

    def _record(self, rule: FaultRule, kind: str, info: RequestInfo) -> None:
        rule.record()
        self.log.append(Fault(kind, info.api, info.version, info.node_id, info.client_id))


_FAILURES = frozenset(ErrorCode) - {ErrorCode.NONE}

_CONDITIONS: dict[str, Callable[[str, Any], Any]] = {
    "times": positive,
    "nth": positive,
    "node": integer,
    "client_id": text,
    "topic": text,
    "partition": integer,
    "group": text,
    "when": function,
}
"""The check for each condition of a :class:`RequestFilter`. A condition of the wrong type would never match."""


def _entity(where: RequestFilter) -> Entity:
    return Entity(where.get("topic"), where.get("partition"), where.get("group"))

"""Faults that a test asks for: requests that fail, come late or get lost, and connections that break."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

from aiokproto.broker.clock import Clock, sleep
from aiokproto.broker.control.fault_rule import Apis, FaultRule, RequestMatcher, keys
from aiokproto.broker.control.network import Network
from aiokproto.broker.control.random_faults import Kind, RandomFaults
from aiokproto.broker.control.refusals import fail_request
from aiokproto.broker.control.request_info import Intercept, RequestInfo, Serve, TruncatedResponse
from aiokproto.broker.request_context import CloseConnection
from aiokproto.codec.entities import ANYTHING, Subject
from aiokproto.codec.schema import Request, Response
from aiokproto.error_codes import ErrorCode

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Fault(NamedTuple):
    """A fault that happened.

    Attributes:
        kind: What was done: ``"fail"``, ``"delay"``, ``"drop"``, ``"cut"``, ``"intercept"``, or ``"watch"``: nothing.
        api: Kafka's name of the API.
        version: The request's version.
        node_id: The broker that was asked.
        client_id: The client that asked.
    """

    kind: str
    api: str
    version: int
    node_id: int
    client_id: str


class RequestFilter(TypedDict, total=False):
    """Which of the requests a fault happens to; all that is given must be so.

    Attributes:
        times: How often it happens; by default always, or once if ``nth`` is given.
        nth: The first to which it happens, counted from 1 among those that fit.
        node: Sent to this broker.
        client_id: Sent by this client.
        topic: About this topic.
        partition: About this partition.
        group: About this group.
        when: Of which this is true. It is called in the broker's loop.
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
    """What goes wrong in a cluster, and what did.

    ::

        with cluster.faults.fail(ProduceRequest, ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2, topic="t", partition=0):
            ...                                          # the next two produce requests for t-0 are refused
        cluster.faults.delay(FetchRequest, 0.5)          # until the rule that this returns is removed, or clear()

    Each method returns the :class:`FaultRule`, which holds at once; as a context manager it is removed at the end. When
    several rules fit a request all happen, the one made last outermost. Rules may be made and removed in any thread.

    Attributes:
        log: Every fault that happened, in order.
    """

    def __init__(self, clock: Clock) -> None:
        self.log: list[Fault] = []
        self.network = Network(clock)
        self._clock = clock
        # Replaced as a whole: another thread may be making one while a request looks through them.
        self._rules: tuple[FaultRule, ...] = ()

    # ---- requests

    def fail(self, api: Apis, error: ErrorCode, **where: Unpack[RequestFilter]) -> FaultRule:
        """Refuse requests, or what of them is about the topic, partition or group given; the rest is served.

        The answer has the API's own form, with the error wherever there is a place for one. An answer without any
        place is no answer: then the connection is closed. Of a Fetch session (KIP-227) the broker forgets while the
        rule holds and names a topic, since only a full request says which partitions it is about.

        Args:
            api: The requests: a class or an ApiKey, several of them, or None for all.
            error: The error.
            **where: See :class:`RequestFilter`.
        """
        subject = _subject(where)
        return self._add("fail", api, partial(fail_request, error, subject), where)

    def delay(self, api: Apis, seconds: float, **where: Unpack[RequestFilter]) -> FaultRule:
        """Serve requests that much later, on the cluster's clock. What came behind on the same connection waits too."""

        async def act(call: RequestInfo, serve: Serve) -> Response | None:
            await sleep(self._clock, seconds)
            return await serve(call.request)

        return self._add("delay", api, act, where)

    def drop(
        self, api: Apis, what: Literal["request", "answer"] = "request", **where: Unpack[RequestFilter]
    ) -> FaultRule:
        """Lose requests before they are served, or the answers of those that were. The connection stays."""

        async def act(call: RequestInfo, serve: Serve) -> Response | None:
            if what == "answer":
                await serve(call.request)
            return None

        return self._add("drop", api, act, where)

    def cut(self, api: Apis, *, after: int | None = None, **where: Unpack[RequestFilter]) -> FaultRule:
        """Close the connection instead of answering.

        Args:
            api: The requests.
            after: How many bytes of the answer are sent before, its length's four included; the request is served then.
                None: it is not even served.
            **where: See :class:`RequestFilter`.
        """

        async def act(call: RequestInfo, serve: Serve) -> Response | None:
            if after is None:
                raise CloseConnection("cut before the request was served, as told")
            response = await serve(call.request)
            if response is None:
                raise CloseConnection("cut after the request was served, as told")
            raise TruncatedResponse(response, after)

        return self._add("cut", api, act, where)

    def watch(self, api: Apis, **where: Unpack[RequestFilter]) -> FaultRule:
        """Do nothing but count requests, and tell of them: see :meth:`FaultRule.wait`.

        ::

            with cluster.faults.watch(HeartbeatRequest, group="report") as seen:
                await seen.wait(2)                           # until two heartbeats have come
        """

        async def act(call: RequestInfo, serve: Serve) -> Response | None:
            return await serve(call.request)

        return self._add("watch", api, act, where)

    def intercept(self, api: Apis, function: Intercept, **where: Unpack[RequestFilter]) -> FaultRule:
        """Have a function of your own stand before the broker.

        ::

            async def slow_down(call: RequestInfo, serve: Serve) -> Response | None:
                response = await serve(call.request)      # or of another request of the same version
                response.throttle_time_ms = 100
                return response                           # or another one; None: no answer is sent

        It runs in the broker's loop. An exception closes the connection, and has a line in the log unless it is
        :class:`~aiokproto.broker.request_context.CloseConnection`.
        """
        return self._add("intercept", api, function, where)

    def random(
        self,
        seed: int,
        rate: float,
        kinds: Collection[Kind] = ("fail", "delay", "drop", "cut"),
        **where: Unpack[RequestFilter],
    ) -> FaultRule:
        """Have faults happen to a part of all requests, at random.

        Whether and what is drawn from the seed, the broker, the client's id, the API and how manieth request of that
        API it is for that client there: a seed does the same again in however an order the clients come.

        Args:
            seed: The seed.
            rate: The part of the requests to which something happens, 0 to 1. ApiVersions is left alone.
            kinds: What may happen. ``"fail"`` is with an error that Kafka gives after an election, where there is one.
            **where: See :class:`RequestFilter`; ``times`` and ``nth`` count the requests that are drawn for.

        Raises:
            ValueError: ``rate`` is not within 0 to 1, or ``kinds`` is empty or has an unknown one.
        """
        faults = RandomFaults(seed, rate, kinds)

        async def act(call: RequestInfo, serve: Serve) -> Response | None:
            drawn = faults.draw(call)
            if drawn is None:
                return await serve(call.request)
            self._note(rule, drawn.kind, call)
            if drawn.kind == "fail":
                return await fail_request(drawn.error, ANYTHING, call, serve)
            if drawn.kind == "delay":
                await sleep(self._clock, drawn.seconds)
                return await serve(call.request)
            if drawn.kind == "drop":
                return None
            raise CloseConnection("cut before the request was served, at random")

        rule = self._add("random", None, act, where)
        return rule

    def clear(self) -> None:
        """Remove all rules, and have the network whole again. The log stays."""
        for rule in self._rules:
            rule.remove()
        self.network.clear()

    # ---- the network

    def partition(self, nodes: int | Iterable[int]) -> AbstractContextManager[None]:
        """Part brokers from their clients: nothing passes either way, and connections stay open, until it is over.

        A connection can still be made, since the operating system does that; but nobody speaks on it. What was on its
        way arrives when the network is whole again.
        """
        return self.network.partition([nodes] if isinstance(nodes, int) else nodes)

    def slow(
        self, node: int | None = None, *, latency: float = 0.0, bytes_per_second: float | None = None
    ) -> AbstractContextManager[None]:
        """Make the way to a broker (None: to all) long or narrow.

        Args:
            node: The broker.
            latency: Seconds that each request and each answer takes longer.
            bytes_per_second: How much passes a connection, each way.
        """
        return self.network.slow(node, latency, bytes_per_second)

    # ---- what the broker calls

    async def serve(self, call: RequestInfo, serve: Serve) -> Response | None:
        """Serve a request, with whatever is to happen to it."""
        for rule in self._rules:
            if rule.applies_to(call):
                serve = partial(self._step, rule, call, serve)
        return await serve(call.request)

    @property
    def idle(self) -> bool:
        """Whether there is no rule."""
        return not self._rules

    # ---- inside

    def _add(self, kind: str, api: Apis, act: Intercept, where: RequestFilter) -> FaultRule:
        nth = where.get("nth", 1)
        times = where.get("times", 1 if "nth" in where else None)
        if nth < 1 or (times is not None and times < 1):
            raise ValueError(f"nth and times count from 1, not nth={nth}, times={times}")
        place = RequestMatcher(keys(api), where.get("node"), where.get("client_id"), _subject(where), where.get("when"))
        rule = FaultRule(kind, place, act, nth, times, self._forget)
        self._rules = (*self._rules, rule)
        return rule

    def _forget(self, rule: FaultRule) -> None:
        self._rules = tuple(each for each in self._rules if each is not rule)

    async def _step(self, rule: FaultRule, call: RequestInfo, serve: Serve, request: Request[Any]) -> Response | None:
        call = call.with_request(request)
        if rule.kind != "random":
            self._note(rule, rule.kind, call)
        return await rule.act(call, serve)

    def _note(self, rule: FaultRule, kind: str, call: RequestInfo) -> None:
        rule.note()
        self.log.append(Fault(kind, call.api, call.version, call.node_id, call.client_id))


def _subject(where: RequestFilter) -> Subject:
    return Subject(where.get("topic"), where.get("partition"), where.get("group"))

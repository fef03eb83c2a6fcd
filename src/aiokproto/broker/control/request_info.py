"""A request on its way through the broker, as a fault sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from aiokproto.broker.fetch.sessions import Key
from aiokproto.broker.request_context import CloseConnection
from aiokproto.codec.entities import NameOf
from aiokproto.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import Request, Response


@dataclass(frozen=True)
class RequestInfo:
    """A request to one of the brokers.

    Attributes:
        request: What was asked.
        version: Its version, which the answer must be of too.
        client_id: What the client calls itself.
        client_host: Where it is.
        node_id: The broker that was asked.
        name_of: The name of the topic with an id, or None.
        topics: The names of all topics there are.
        session: The topic, topic id and partition of all that a fetch session is about.
    """

    request: Request[Any]
    version: int
    client_id: str
    client_host: str
    node_id: int
    name_of: NameOf
    topics: Callable[[], list[str]]
    session: Callable[[int], list[Key]]

    @property
    def api(self) -> str:
        """Kafka's name of the API, ``"Produce"`` for one."""
        return api_name(self.request.api_key)

    @property
    def expanded(self) -> Request[Any]:
        """The request with the name of everything it is about.

        A Metadata request for all topics names none, and a Fetch of a session (KIP-227) only what changed.
        """
        request = self.request
        if isinstance(request, MetadataRequest) and (
            request.topics is None or (not self.version and not request.topics)
        ):
            topics = [MetadataRequestTopic(name=name) for name in self.topics()]
            return MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        if isinstance(request, FetchRequest) and request.session_id:
            known = [
                FetchTopic(topic=name, topic_id=topic_id, partitions=[_partition(index)])
                for name, topic_id, index in self.session(request.session_id)
            ]
            return FetchRequest(max_wait_ms=0, min_bytes=0, topics=[*request.topics, *known])
        return request

    def with_request(self, request: Request[Any]) -> RequestInfo:
        """The same with another request."""
        return self if request is self.request else replace(self, request=request)


def _partition(index: int) -> FetchPartition:
    return FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=0)


Serve = Callable[[Request[Any]], Awaitable["Response | None"]]
"""Serves a request: the handler, or the next fault before it. None: no answer is sent."""

Intercept = Callable[[RequestInfo, Serve], Awaitable["Response | None"]]
"""Takes the place of serving a request, which it can do with the second argument: before, after, or not at all."""


class TruncatedResponse(CloseConnection):
    """The connection must be closed in the middle of the answer, of which ``size`` bytes are sent."""

    def __init__(self, response: Response, size: int) -> None:
        super().__init__(f"cut after {size} bytes of the answer, as told")
        self.response = response
        self.size = size

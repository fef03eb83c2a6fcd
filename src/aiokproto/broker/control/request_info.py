"""The view of a request that fault rules get."""

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
    """A request to one of the brokers, before it is served.

    Attributes:
        request: The decoded request.
        version: The request's version, which is also the response's.
        client_id: The client id.
        client_host: The client's IP address.
        node_id: The broker that received the request.
        name_of: Returns the name of the topic with an id, or None.
        topics: Returns the names of all topics.
        session: Returns the partitions of a fetch session, each as topic, topic id and index.
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
        """The API's name, such as ``"Produce"``."""
        return api_name(self.request.api_key)

    @property
    def expanded(self) -> Request[Any]:
        """The request with all its topics and partitions spelled out, for matching.

        A Metadata request for all topics lists no topics, and a Fetch in a session (KIP-227) lists only what has
        changed.
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
        """Return a copy with another request."""
        return self if request is self.request else replace(self, request=request)


def _partition(index: int) -> FetchPartition:
    return FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=0)


Serve = Callable[[Request[Any]], Awaitable["Response | None"]]
"""Serves a request: either the handler or the next matching rule. Returns None to send no response."""

Intercept = Callable[[RequestInfo, Serve], Awaitable["Response | None"]]
"""Called instead of serving a request. To serve the request, the function can call its second argument."""


class TruncatedResponse(CloseConnection):
    """Closes the connection after ``size`` bytes of the response."""

    def __init__(self, response: Response, size: int) -> None:
        super().__init__(f"fault injection: cut after {size} bytes of the response")
        self.response = response
        self.size = size

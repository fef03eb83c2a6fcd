"""What a handler gets besides the request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aiokproto.broker.groups.coordinator import GroupCoordinator
from aiokproto.broker.sessions import FetchSessions
from aiokproto.broker.state import Node, State
from aiokproto.codec.schema import Versions
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError


class Hangup(Exception):
    """The connection must be closed without an answer; the text says why."""


@dataclass(frozen=True)
class Context:
    """A request's surroundings.

    Attributes:
        state: What the cluster's nodes share.
        groups: The groups.
        sessions: This node's fetch sessions.
        node: The node that was asked.
        served: Which versions of which ApiKey are served.
        version: The version of the request, and so of the answer.
        client_id: What the client calls itself.
        client_host: Where it is.
    """

    state: State
    groups: GroupCoordinator
    sessions: FetchSessions
    node: Node
    served: Mapping[int, Versions]
    version: int
    client_id: str
    client_host: str

    def topic_name(self, name: str | None, topic_id: bytes, by_id: bool) -> str:
        """The name of a topic that the request gives by name or, in later versions, by id.

        Raises:
            BrokerError: UNKNOWN_TOPIC_ID.
        """
        if not by_id:
            return name or ""
        topic = self.state.topic_by_id(topic_id)
        if topic is None or topic_id == ZERO_UUID:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID)
        return topic.name

"""What the requests for states of share partitions have in common (KIP-932): each partition is answered for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.share.records import SharePartitionKey
from aiokproto.errors import BrokerError


class _Asked(Protocol):
    partition: int


A = TypeVar("A", bound=_Asked)
A_co = TypeVar("A_co", bound=_Asked, covariant=True)
R = TypeVar("R")


class _Topic(Protocol[A_co]):
    @property
    def topic_id(self) -> bytes: ...
    @property
    def partitions(self) -> Sequence[A_co]: ...


class _Request(Protocol[A_co]):
    @property
    def group_id(self) -> str: ...
    @property
    def topics(self) -> Sequence[_Topic[A_co]]: ...


def answers(
    request: _Request[A],
    context: RequestContext,
    serve: Callable[[SharePartitionKey, A], R],
    refuse: Callable[[int, BrokerError], R],
) -> Iterator[tuple[bytes, list[R]]]:
    """The answers for the partitions of each topic, by its id.

    Args:
        request: What was asked.
        context: The request's.
        serve: Serves a partition whose state is here; may raise :class:`BrokerError`.
        refuse: The answer for a partition where that was raised.
    """

    def answer(topic_id: bytes, asked: A) -> R:
        key = SharePartitionKey(request.group_id, topic_id, asked.partition)
        try:
            context.share_states.check_coordinator(key, context.node.node_id)
            return serve(key, asked)
        except BrokerError as error:
            return refuse(asked.partition, error)

    # Of a group without a name nothing is known, not even that it is an error.
    for topic in request.topics if request.group_id else ():
        if topic.partitions:
            yield topic.topic_id, [answer(topic.topic_id, asked) for asked in topic.partitions]

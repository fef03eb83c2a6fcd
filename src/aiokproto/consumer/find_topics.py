"""Looking up topics, of which some may be missing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiokproto.cluster import ClusterClient, TopicInfo
from aiokproto.errors import KafkaError, UnknownTopicError

_CREATE = "consumers never create topics: create it first"


async def find_topics(
    cluster: ClusterClient, topics: Iterable[str]
) -> tuple[dict[str, TopicInfo], dict[str, KafkaError]]:
    """Look up topics. Return those that exist, and the errors of the others, so that these hold up nothing."""
    names = sorted(topics)
    # At once: with a hundred topics one that is missing would delay the others by seconds each.
    answers = await asyncio.gather(*(cluster.topic(name) for name in names), return_exceptions=True)
    found: dict[str, TopicInfo] = {}
    failures: dict[str, KafkaError] = {}
    for name, answer in zip(names, answers, strict=True):
        if isinstance(answer, UnknownTopicError):
            detail = answer.detail or f"it does not exist, or this client may not see it; {_CREATE}"
            failures[name] = UnknownTopicError(answer.code, answer.context, detail)
        elif isinstance(answer, KafkaError):
            failures[name] = answer
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found[name] = answer
    return found, failures

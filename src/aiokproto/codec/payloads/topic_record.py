"""The topic record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, TopicId, TopicName
from aiokproto.codec.wire import ZERO_UUID


class TopicRecord(Payload, versions="0", flexible="0+"):
    name: TopicName = ""
    topic_id: TopicId = ZERO_UUID

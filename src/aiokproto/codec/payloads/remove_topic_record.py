"""The remove topic record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, TopicId
from aiokproto.codec.wire import ZERO_UUID


class RemoveTopicRecord(Payload, versions="0", flexible="0+"):
    topic_id: TopicId = ZERO_UUID

"""The clear elr record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, TopicName


class ClearElrRecord(Payload, versions="0", flexible="0+"):
    topic_name: TopicName = ""

"""The topic record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, string, uuid


class TopicRecord(Payload, versions="0", flexible="0+"):
    name: string
    topic_id: uuid

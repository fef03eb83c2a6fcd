"""The remove topic record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, uuid


class RemoveTopicRecord(Payload, versions="0", flexible="0+"):
    topic_id: uuid

"""Compiled code that gets None instead of an object raises, as Python does, and doesn't crash the process."""

from __future__ import annotations

import pytest

from aiokproto.producer.appender import RecordAppender
from aiokproto.producer.queue import TopicQueues
from aiokproto.runtime import thread_id


def test_a_topic_without_a_partition_is_an_error() -> None:
    appender = RecordAppender[bytes, bytes](None)
    appender._thread = thread_id()
    appender._set_ready("t", TopicQueues("t"))
    with pytest.raises(AttributeError):
        appender._append("t", b"value", None, (), None, None)
    with pytest.raises(AttributeError):
        appender._append_run("t", [b"value"], 0)

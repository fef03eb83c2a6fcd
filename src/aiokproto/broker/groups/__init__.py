"""Consumer groups: the classic group as a state machine without I/O, the offsets topic, the coordinator around both."""

from __future__ import annotations

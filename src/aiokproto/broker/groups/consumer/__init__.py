"""Consumer groups of KIP-848, whose assignments the coordinator computes: the group as a state machine without I/O."""

from __future__ import annotations

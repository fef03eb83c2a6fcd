"""Free ports for brokers with a fixed port."""

from __future__ import annotations

from tests.kafka.cluster import free_ports


def free_port() -> int:
    """Return a free port outside of the range from which the system chooses."""
    return free_ports((0,))[0].broker

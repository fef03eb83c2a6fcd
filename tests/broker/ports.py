"""Ports for brokers that are told theirs."""

from __future__ import annotations

from tests.kafka.cluster import _free_ports


def free_port() -> int:
    """A port that is free, and that the system gives to nobody who leaves the choice to it."""
    return _free_ports((0,))[0].broker

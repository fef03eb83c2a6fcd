"""Runs programs that use Kafka in virtual time: minutes pass in milliseconds, and the same seed repeats a run
exactly."""

from __future__ import annotations

from aiokproto.simulation.link import Link
from aiokproto.simulation.loop import DeadlockError, SimulationLoop
from aiokproto.simulation.network import Network, host
from aiokproto.simulation.simulation import Simulation
from aiokproto.simulation.threads import Threads

__all__ = ["DeadlockError", "Link", "Network", "Simulation", "SimulationLoop", "Threads", "host"]

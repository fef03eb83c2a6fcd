"""Health: whether a client works, and what is wrong in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

_NAMED = 3
"""How many causes of one kind are named."""


class HealthStatus(Enum):
    """Whether a client works."""

    OK = "ok"
    """Nothing is wrong."""
    DEGRADED = "degraded"
    """Some of the work is delayed, or a part of it impossible; the client mends it as far as it can."""
    FAILED = "failed"
    """Nothing works: it is not started, closed, has failed, or reaches no broker."""


@dataclass(frozen=True)
class Health:
    """The health of a client.

    For a readiness probe, test :attr:`ready`. A liveness probe should only restart a client that has ``ended``: one
    that reaches no broker recovers by itself.

    Attributes:
        status: The worst of all findings.
        reasons: The findings, the worst first; empty if it is well.
        ended: Whether it is closed or has failed for good, and has to be replaced.
    """

    status: HealthStatus
    reasons: tuple[str, ...] = ()
    ended: bool = False

    @property
    def ready(self) -> bool:
        """Whether it works, at least in part."""
        return self.status is not HealthStatus.FAILED

    def __str__(self) -> str:
        return f"{self.status.value}: {'; '.join(self.reasons)}" if self.reasons else self.status.value


class Findings:
    """Collects what is wrong.

    Attributes:
        failed: Why nothing works.
        degraded: What is wrong otherwise.
        ended: Whether the client has ended for good.
    """

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.degraded: list[str] = []
        self.ended = False

    def add_member(self, state: str, problem: str, joining_for: float | None) -> None:
        """Add what is wrong about a member of a group; ``joining_for``: seconds of a rebalance, None without one."""
        if joining_for is not None:
            self.degraded.append(f"rebalancing for {joining_for:.0f} s: {state}")
        if problem:
            self.degraded.append(problem)

    def add_some(self, causes: Sequence[str]) -> None:
        """Add the first of many causes, and the number of the others."""
        self.degraded += causes[:_NAMED]
        if len(causes) > _NAMED:
            self.degraded.append(f"{len(causes) - _NAMED} other causes")

    def health(self) -> Health:
        """Return the whole."""
        status = HealthStatus.OK
        if self.degraded:
            status = HealthStatus.DEGRADED
        if self.failed:
            status = HealthStatus.FAILED
        return Health(status, (*self.failed, *self.degraded), self.ended)

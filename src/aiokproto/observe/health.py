"""Health: whether a client works, and a description of what is wrong. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

_MAX_NAMED = 3
"""Maximum number of causes of the same kind to name."""


class HealthStatus(Enum):
    """Whether a client works."""

    OK = "ok"
    """Nothing is wrong."""
    DEGRADED = "degraded"
    """Some of the client's work is delayed or impossible. The client recovers as far as possible."""
    FAILED = "failed"
    """Nothing works: the client isn't started, is closed, has failed, or can't reach any broker."""


@dataclass(frozen=True)
class Health:
    """The health of a client.

    For a readiness probe, test :attr:`ready`. A liveness probe should only restart a client that has ``ended``: a
    client that can't reach any broker recovers by itself.

    Attributes:
        status: The worst of all findings.
        reasons: The findings, worst first; empty if nothing is wrong.
        ended: Whether the client is closed or has failed for good, and has to be replaced.
    """

    status: HealthStatus
    reasons: tuple[str, ...] = ()
    ended: bool = False

    @property
    def ready(self) -> bool:
        """Whether the client works, at least partly."""
        return self.status is not HealthStatus.FAILED

    def __str__(self) -> str:
        return f"{self.status.value}: {'; '.join(self.reasons)}" if self.reasons else self.status.value


class Findings:
    """Collects the problems of a client.

    Attributes:
        failed: The reasons why nothing works.
        degraded: The other problems.
        ended: Whether the client has ended for good.
    """

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.degraded: list[str] = []
        self.ended = False

    def add_member(self, state: str, problem: str, joining_for: float | None) -> None:
        """Add the problems of a group member.

        ``joining_for`` is how long the current rebalance has taken (s), if there is one.
        """
        if joining_for is not None:
            self.degraded.append(f"rebalancing for {joining_for:.0f} s: {state}")
        if problem:
            self.degraded.append(problem)

    def add_some(self, causes: Sequence[str]) -> None:
        """Add the first few causes, and the number of other causes."""
        self.degraded += causes[:_MAX_NAMED]
        if len(causes) > _MAX_NAMED:
            self.degraded.append(f"{len(causes) - _MAX_NAMED} other causes")

    def health(self) -> Health:
        """Return the health that follows from the findings."""
        status = HealthStatus.OK
        if self.degraded:
            status = HealthStatus.DEGRADED
        if self.failed:
            status = HealthStatus.FAILED
        return Health(status, (*self.failed, *self.degraded), self.ended)

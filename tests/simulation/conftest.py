"""What all runs in virtual time have in common."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def no_waiting_for_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers don't wait for flushes: no machine fails here, and each flush would wait for a real disk."""
    monkeypatch.setattr(os, "fsync", lambda file: None)

"""The states of a transactional id."""

from __future__ import annotations

from enum import Enum, auto


class TransactionState(Enum):
    """The state of the transactional id, as far as this producer knows."""

    READY = auto()
    """No transaction is open."""
    OPEN = auto()
    PREPARED = auto()
    """All of it is written, and the decision is awaited (KIP-939)."""
    COMMITTING = auto()
    """A commit was requested, and may or may not have taken effect."""
    ABORTING = auto()

"""What failures mean: the one place that decides what is done about an error code, a lost connection, a deadline.

The producer, the consumer, the group and the cluster ask :func:`classify`, and carry out the :class:`Action`. Each API
has a table with a reason in every row; where a table has no row, Kafka's own classification of the code counts, and
after that the table's row for all others. Pure.
"""

from __future__ import annotations

from aiokproto.failures.action import Action, Row, Situation
from aiokproto.failures.policy import classify, find_row

__all__ = ["Action", "Row", "Situation", "classify", "find_row"]

"""What the client does about a failure: an error code, a lost connection, a deadline, a malformed response (pure).

For a failure in a :class:`Situation` (which request, sent by whom) :func:`classify` returns an :class:`Action`. The
code that met the failure carries the action out and never tests for error codes itself. How the decision is made:

1. The tables are searched in this order: the rows for the situation (idempotent, transactional, follower, …), the
   API's own table, then what applies to every API (``common.COMMON``).
2. An exception matches the nearest base class that has a row in any of them; an error code matches itself.
3. A code without a row is decided by Kafka's own classification, the flags in :mod:`aiokproto.error_codes`:
   authentication → ``STOP``; "metadata is out of date" → ``REFRESH_METADATA``; retriable → ``BACKOFF``.
4. What is left gets the row for all others (``otherwise``) of the API's table.

Every row has a reason, which appears in logs. Where a row differs from the Java client, a comment says why.

Example, NOT_LEADER_OR_FOLLOWER: its flags in ``error_codes`` are ``RETRY | REFRESH``, so step 3 returns
``REFRESH_METADATA``. Who has sent the request then calls ``metadata.invalidate``: ``producer/responses.py``
(``_retry``) for Produce, ``consumer/fetch_response.py`` (``_wait_for_leader``) for Fetch, ``consumer/offsets.py`` for
ListOffsets, and ``cluster/cluster_client.py`` (``_retrying``) for whatever ``Client.request`` retries. Two tables have
a row of their own for it, both in ``consuming``: for a Fetch from a follower (KIP-392), and for ShareAcknowledge.
"""

from __future__ import annotations

from aiokproto.failures.action import Action, Row, Situation
from aiokproto.failures.policy import classify, find_row

__all__ = ["Action", "Row", "Situation", "classify", "find_row"]

"""What the client does about a failure: an error code, a lost connection, a deadline, a malformed response (pure).

For a failure in a :class:`Situation` (the request and its sender) :func:`classify` returns an :class:`Action`. The code
that encountered the failure carries out the action, and never checks error codes itself. The decision takes four steps:

1. It searches the tables in this order: the rows for the situation (idempotent, transactional, follower, …), the API's
   own table, then the rows for every API (``common.COMMON``).
2. An exception matches its nearest base class with a row in any of these tables. An error code matches itself.
3. For a code without a row, Kafka's own classification decides (the flags in :mod:`aiokproto.error_codes`):
   authentication → ``STOP``; "metadata is out of date" → ``REFRESH_METADATA``; retriable → ``BACKOFF``.
4. Any other failure gets the default row (``otherwise``) of the API's table.

Every row has a reason, which appears in logs. If a row differs from the Java client, a comment explains why.

NOT_LEADER_OR_FOLLOWER is an example. Its flags in ``error_codes`` are ``RETRY | REFRESH``, so step 3 returns
``REFRESH_METADATA``. The sender of the request then calls ``metadata.invalidate``:

=======================================  ==============================================================
Produce                                  ``producer/responses.py``: ``_partition_responded``
Fetch                                    ``consumer/fetch_response.py``: ``_wait_for_leader``
ListOffsets                              ``consumer/offsets.py``: ``_query``
OffsetForLeaderEpoch                     ``consumer/position_validator.py``: ``_failed``
ShareFetch, ShareAcknowledge             ``share/broker_session.py``: ``_refused``, ``_answered``
requests that ``Client.request`` sends   ``cluster/cluster_client.py``: ``_retrying``, ``_send_misrouted``
=======================================  ==============================================================

Two tables, both in ``consuming``, have their own row for it: for a Fetch from a follower (KIP-392), and for
ShareAcknowledge.
"""

from __future__ import annotations

from aiokproto.failures.action import Action, Row, Situation
from aiokproto.failures.policy import classify, find_row

__all__ = ["Action", "Row", "Situation", "classify", "find_row"]

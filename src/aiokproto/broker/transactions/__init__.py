"""The transaction coordinator: records and offsets in many partitions, committed or aborted together (KIP-98, KIP-890).

- ``transaction_metadata`` is the pure state machine of one transactional id: each step returns a new, immutable value.
- ``coordinator`` keeps all transactional ids, their timers, and the markers that haven't been written yet.
- ``records`` encodes the values for ``__transaction_state``.

A transactional id hashes to a partition of ``__transaction_state``, and that partition's leader coordinates it. The
states::

    Empty ── first partition ──> Ongoing ── EndTxn ──> PrepareCommit/PrepareAbort ── all markers ──>
    CompleteCommit/CompleteAbort
      ^                             |                        ^                                             |
      |                             └─ timeout, new epoch ───┘  (abort, with a fenced epoch)               |
      └──────────────────────────────────── InitProducerId, or the next transaction ──────────────────────┘

**Ownership.** Only the coordinator appends to ``__transaction_state``, before the new state is visible to any request.
Only the leader of a partition writes to it, so the coordinator's markers go through ``Partition.append``. A partition's
own view (open transactions, the last stable offset, the aborted index) is in its log's ``producer_state``, not here.

**What can never happen.** A decision (``Prepare…``) is never reversed: it is in the log before the first marker is
written. Two producers never commit under one epoch: InitProducerId and timeouts increment it, and each partition
rejects lower epochs. Since transaction version 2, each transaction has its own epoch, so a delayed Produce request of
an earlier transaction is rejected too (KIP-890). An id doesn't expire while its transaction is open, because its
partitions would never get a marker.

**After a crash** of the coordinator, or when its partition moves, the new leader reads the partition and finishes every
transaction that it finds in a ``Prepare…`` state. Writing a marker twice is harmless: there's no open transaction for
the second one to end. Partitions without a leader get their marker once they have a leader again.
"""

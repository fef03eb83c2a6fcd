"""Share groups (KIP-932): their members, and which members read which partition.

The states of the records that are in flight to a group are in ``broker.share``.

The parts: ``group`` is the state machine, with its members and their heartbeats; ``assignor`` computes the target
assignment; ``state_metadata`` lists the partitions that have a state at the share coordinator; ``records`` stores it
all.

A share group has a group epoch, an assignment epoch and member epochs like a consumer group, but there is nothing to
reconcile: several members can read the same partition, so no member waits for another to revoke. A member gets the
target's epoch and assignment at its next heartbeat.

A partition is assigned only after its state is initialized at the share coordinator, which sets where the group starts.
The group coordinator writes the intent first (``initializing_topics``), then calls the share coordinator, then writes
the result (``initialized_topics``). After a crash in between, the next heartbeat initializes the partition again, which
is harmless because nothing has been delivered yet.

What can never happen:

- A member reads a partition whose state is not initialized.
- A partition that a member subscribes to has been initialized but has no reader.
- Deleting a group leaves states behind: the deletion is written as an intent as well (``deleting_topics``).
"""

from __future__ import annotations
